"""SimpleHeaderConverter: the default converter of headers, which infers the type of each value from its text."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from typing import Final

import pyarrow as pa

from moldau.connect.converters.base import HeaderConverter
from moldau.connect.converters.header_values import Parsed, parse_header
from moldau.connect.converters.value_text import HEADER, text_of
from moldau.connect.record_batch import ValueColumn
from moldau.connect.schemas import Schema, SchemaType, arrow_type

_CACHED_TEXTS: Final = 10_000
"""Header values are repeated: each distinct text is parsed once, as long as it is among the last ones."""
_STRING: Final = Schema(SchemaType.STRING)


class SimpleHeaderConverter(HeaderConverter):
    """Headers as texts in UTF-8. Null rows belong to the column of their neighbours."""

    def to_batches(self, raw: pa.Array, topic: str, header: str) -> Iterator[ValueColumn]:
        encoded = raw.dictionary_encode()
        parsed = [_parsed(one) for one in encoded.dictionary.to_pylist()]
        schemas: list[Schema | None] = []
        values = []
        last: Schema | None = None
        for index in encoded.indices.to_pylist():
            found = None if index is None else parsed[index]
            if found is not None:
                if last is None:
                    schemas = [found[0]] * len(schemas)
                last = found[0]
            schemas.append(last)
            values.append(None if found is None else found[1])
        return iter(_columns(schemas, values))

    def from_column(self, column: ValueColumn, topics: pa.Array, header: str) -> pa.Array:
        return text_of(column.array, column.schema, HEADER).cast(pa.binary())


def _columns(schemas: list[Schema | None], values: list[object]) -> list[ValueColumn]:
    columns = []
    first = 0
    for schema, rows in groupby(schemas):
        count = sum(1 for _ in rows)
        part = values[first : first + count]
        first += count
        array = pa.nulls(count) if schema is None else pa.array(part, arrow_type(schema))
        columns.append(ValueColumn(array, schema))
    return columns or [ValueColumn.nothing(0)]


@lru_cache(_CACHED_TEXTS)
def _parsed(data: bytes) -> Parsed:
    text = data.decode("utf-8", "replace")
    return parse_header(text) if text else (_STRING, text)
