"""Schema ids of a record batch: which records have which id, without an object per record.

An id stands before the data (magic byte 0 and four bytes), or in a header (the same, or magic byte 1 and a GUID). Null
keys and values have none and need none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from moldau.records import RecordColumns
from moldau.schemas.errors import SchemaError
from moldau.schemas.serializers.schema_ids import header_name, read_id
from moldau.schemas.wire_format import PREFIX
from moldau.wire.tuned.varint import read_uvarint

_PREFIX: Final = PREFIX.size

SchemaId = int | str
"""The id of a schema in the default context, or its GUID."""


class BatchSchemaIds(NamedTuple):
    """The keys or values of one batch, by what they say about their schema."""

    records: Mapping[SchemaId, Sequence[int]]
    """The indexes of the records with each id."""
    malformed: list[tuple[int, str]]
    """The records without an id, with the reason."""


def batch_schema_ids(columns: RecordColumns, *, is_key: bool) -> BatchSchemaIds:
    data = bytes(columns.data)
    places, sizes = (columns.key_at, columns.key_size) if is_key else (columns.value_at, columns.value_size)
    if sizes and min(sizes) >= _PREFIX and not any(columns.header_count):
        # Nearly all batches: one schema. The loop below takes ten times as long.
        starts = {data[at : at + _PREFIX] for at in places}
        if len(starts) == 1:
            return _identified({(starts.pop(), None): range(len(sizes))}, is_key)
    # Records are grouped by their first bytes: a batch has few schemas, and each is looked at once.
    groups: dict[tuple[bytes, bytes | None], list[int]] = {}
    for index, (at, size, count) in enumerate(zip(places, sizes, columns.header_count, strict=True)):
        if size >= 0:
            header = _id_header(data, columns.headers_at[index], count, is_key) if count else None
            groups.setdefault((data[at : at + min(size, _PREFIX)], header), []).append(index)
    return _identified(groups, is_key)


def _identified(groups: Mapping[tuple[bytes, bytes | None], Sequence[int]], is_key: bool) -> BatchSchemaIds:
    found: dict[SchemaId, Sequence[int]] = {}
    malformed: list[tuple[int, str]] = []
    part = "key" if is_key else "value"
    for (start, header), indexes in groups.items():
        headers = None if header is None else {header_name(is_key): header}
        try:
            schema_id, _, _ = read_id(start, headers, is_key)
        except SchemaError as error:
            malformed += [(index, f"no schema id in the {part}: {error}") for index in indexes]
        else:
            found[schema_id] = [*found[schema_id], *indexes] if schema_id in found else indexes
    malformed.sort()
    return BatchSchemaIds(found, malformed)


def _id_header(data: bytes, at: int, count: int, is_key: bool) -> bytes | None:
    """The value of the header with the schema id, or None. The positions were checked by the walk over the batch."""
    wanted = header_name(is_key).encode()
    for name, value in _headers(data, at, count):
        if name == wanted:
            return value
    return None


def _headers(data: bytes, at: int, count: int) -> Iterator[tuple[bytes, bytes | None]]:
    view = memoryview(data)
    for _ in range(count):
        size, at = _signed(view, at)
        name = data[at : at + size]
        size, at = _signed(view, at + size)
        yield name, None if size < 0 else data[at : at + size]
        at += max(size, 0)


def _signed(view: memoryview, at: int) -> tuple[int, int]:
    value, at = read_uvarint(view, at)
    return (value >> 1) ^ -(value & 1), at
