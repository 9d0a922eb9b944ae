"""AvroConverter: Avro values whose schemas are in a registry, by the name of Confluent's converter.

Reading: each schema of the topic's records has a column of its own, so that records keep the schema with which they
were written. Writing: the schema of the data is registered in the subject of the topic; data without schema is refused.
Schema ids in headers are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.avro_schemas import avro_text, connect_schema
from moldau.connect.config_def import ConfigDef, ConfigError, ConfigKey, ConfigType, Importance
from moldau.connect.converters.base import TYPE_SETTINGS, Converter
from moldau.connect.errors import DataError, RowError
from moldau.connect.record_batch import ValueColumn, fitted
from moldau.connect.schemas import Schema as ConnectSchema
from moldau.schemas.avro.avro_schema import AvroSchema
from moldau.schemas.avro_columns.columns import ColumnDecoder
from moldau.schemas.avro_columns.registry_columns import NOT_FOUND, AvroColumns
from moldau.schemas.errors import RegistryError, SchemaError
from moldau.schemas.registry_client import RegistryClient
from moldau.schemas.wire_format import PREFIX, split

URL = "schema.registry.url"
CLIENT_PREFIXES = ("schema.registry.", "basic.auth.", "bearer.auth.")
"""The beginnings of settings that are the registry client's."""
MAX_SCHEMAS = 1000
"""Schemas that a converter keeps in each direction."""


def _flag(name: str, doc: str, default: bool) -> ConfigKey:
    return ConfigKey(name, ConfigType.BOOLEAN, doc, importance=Importance.MEDIUM, default=default)


class AvroConverter(Converter):
    """io.confluent.connect.avro.AvroConverter."""

    config_def = TYPE_SETTINGS + ConfigDef(
        [
            ConfigKey(URL, ConfigType.STRING, "Addresses of the registry.", importance=Importance.HIGH, default=""),
            _flag("auto.register.schemas", "Whether the schema of written data is registered.", True),
            _flag("normalize.schemas", "Whether the registry normalizes a schema before it compares it.", False),
        ]
    )

    def __init__(self, config: Mapping[str, Any], *, is_key: bool) -> None:
        super().__init__(config, is_key=is_key)
        if not self.config[URL]:
            raise ConfigError(f"{URL}: AvroConverter needs the address of a schema registry")
        given = {name: value for name, value in config.items() if name.startswith(CLIENT_PREFIXES)}
        self._registry = RegistryClient(given)
        self._reader = lru_cache(MAX_SCHEMAS)(self._new_reader)
        self._writer = lru_cache(MAX_SCHEMAS)(self._new_writer)

    # -- reading -------------------------------------------------------------------------------------------------------

    def to_batches(self, raw: pa.Array, topic: str) -> Iterator[ValueColumn]:
        if raw.type != pa.binary():
            raw = raw.cast(pa.binary())
        columns: list[ValueColumn] = []
        reasons: dict[int, str] = {}
        for first, stop, head in _runs(raw):
            part = raw.slice(first, stop - first)
            if head is None:
                columns.append(ValueColumn.nothing(len(part)))
                continue
            found = self._reader(head)
            if isinstance(found, str):
                reasons |= {first + row: found for row, one in enumerate(part.is_valid().to_pylist()) if one}
                continue
            decoder, schema = found
            array, bad = decoder.decode(part, skip=PREFIX.size)
            reasons |= {first + row: why for row, why in bad.items()}
            columns.append(ValueColumn(fitted(array, schema), schema))
        if reasons:
            raise RowError(reasons, self.stage)
        return iter(columns)

    def _new_reader(self, head: bytes) -> tuple[ColumnDecoder, ConnectSchema] | str:
        """The decoder of the values with this beginning and their schema, or why there is none."""
        try:
            schema_id, _ = split(head)
            parsed = self._registry.parsed(self._registry.get_schema(schema_id))
            if not isinstance(parsed, AvroSchema):
                return f"schema {schema_id} is of type {parsed.type.value}, not AVRO"
            return ColumnDecoder(parsed.root), connect_schema(parsed.root)
        except RegistryError as error:
            if error.status != NOT_FOUND:
                raise
            return str(error)
        except SchemaError as error:
            return str(error)

    # -- writing -------------------------------------------------------------------------------------------------------

    def from_column(self, column: ValueColumn, topics: pa.Array) -> pa.Array:
        array = column.array
        if pa.types.is_null(array.type):
            return pa.nulls(len(array), pa.binary())
        if column.schema is None:
            raise DataError("AvroConverter writes data with a schema; this data has none (set schemas.enable=true)")
        array = fitted(array, column.schema)
        topics = topics.cast(pa.string())
        distinct = topics.unique().to_pylist()
        parts, places = [], []
        for topic in distinct:
            rows = pc.indices_nonzero(pc.equal(topics, topic))
            part = array if len(distinct) == 1 else array.take(rows)
            parts.append(self._written(part, column.schema, topic, rows))
            places.append(rows)
        if len(parts) == 1:
            return parts[0]
        return pa.concat_arrays(parts).take(pc.sort_indices(pa.concat_arrays(places))) if parts else array

    def _written(self, array: pa.Array, schema: ConnectSchema, topic: str, rows: pa.Array) -> pa.Array:
        try:
            found, bad = self._writer(avro_text(schema)).encode(array, topic)
        except RegistryError:
            raise
        except SchemaError as error:
            raise DataError(str(error)) from error
        if bad:
            raise RowError({rows[row].as_py(): why for row, why in bad.items()}, self.stage)
        return found

    def _new_writer(self, text: str) -> AvroColumns:
        return AvroColumns(
            self._registry,
            text,
            is_key=self.is_key,
            auto_register=self.config["auto.register.schemas"],
            normalize=self.config["normalize.schemas"],
        )


def _runs(raw: pa.Array) -> Iterator[tuple[int, int, bytes | None]]:
    """Adjacent rows with the same beginning: first row, end, beginning. A null belongs to the rows before it."""
    heads = pc.fill_null_forward(pc.binary_slice(raw, 0, PREFIX.size))
    if heads.null_count:
        heads = pc.fill_null_backward(heads)
    ended = pc.run_end_encode(heads)
    first = 0
    for stop, head in zip(ended.run_ends.to_pylist(), ended.values.to_pylist(), strict=True):
        yield first, stop, head
        first = stop
