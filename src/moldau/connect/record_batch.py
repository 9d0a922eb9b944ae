"""Batches of records between connector, transforms and converters: columns of Arrow, no object per record.

All rows of a batch have the same schemas. Where the schema changes from one row to the next, the code that creates
batches begins a new one, so that the order of rows is kept.

Schemaless data (JSON without schema) has `schema=None`. An object becomes a struct array with the union of the fields
of its rows. There, a null child means that the field is *missing* in that row. A field whose value is null in some row
has a second child, a boolean named by `null_mark(name)`, which is true in those rows. Code that writes the object
leaves out missing fields and writes null where the mark is true. A value that fits no Arrow type (an array with numbers
and texts) is JSON text of Arrow's type `pa.json_()`.

A null row of the keys or values is a record without key or value, a tombstone, whatever the schema of the column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from moldau.connect.schemas import Schema, arrow_type, nullable_type, schema_of

_NULL_MARK: Final = "\0null:"

MIXED_NUMBERS: Final = {b"moldau.number": b"mixed"}
"""Metadata of a schemaless Arrow field of doubles whose values were integers in some rows of JSON: whole numbers of
such a field are written without a fraction, as they came."""


def null_mark(field: str) -> str:
    """The name of the child that says in which rows of a schemaless object the field is null, and not missing."""
    return _NULL_MARK + field


def is_null_mark(field: str) -> bool:
    return field.startswith(_NULL_MARK)


def writes_whole_numbers(field: pa.Field) -> bool:
    """Whether whole numbers of a field of doubles are written without a fraction."""
    return bool(field.metadata) and MIXED_NUMBERS.items() <= field.metadata.items()


@dataclass(frozen=True)
class ValueColumn:
    """The keys, the values, or one header of all rows of a batch."""

    array: pa.Array
    schema: Schema | None = None
    """None: schemaless, or no value at all (an array of Arrow's null type)."""
    encoded: bool = False
    """Whether the array is what the converter would write; see `PolledSourceConnector.accept_json`."""

    def __len__(self) -> int:
        return len(self.array)

    def filter(self, keep: pa.BooleanArray) -> ValueColumn:
        return replace(self, array=self.array.filter(keep))

    def slice(self, first: int, length: int) -> ValueColumn:
        return replace(self, array=self.array.slice(first, length))

    @classmethod
    def of(cls, array: pa.Array, *, optional: bool = False) -> ValueColumn:
        """Arrow data of any type with the schema that follows from the type. Units finer than milliseconds are cut."""
        schema = schema_of(array.type, optional=optional)
        return cls(fitted(array, schema), schema)

    @classmethod
    def nothing(cls, rows: int) -> ValueColumn:
        """A column of nulls, such as the keys of records without keys."""
        return cls(pa.nulls(rows))


def fitted(array: pa.Array, schema: Schema) -> pa.Array:
    """An array with the Arrow type of a schema: cast only if it has another one. Nullability does not count."""
    wanted = arrow_type(schema)
    if array.type.equals(wanted):
        return array
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    wanted = nullable_type(wanted)
    return array if nullable_type(array.type).equals(wanted) else array.cast(wanted, safe=False)


@dataclass(frozen=True)
class HeaderColumn:
    """One header of all rows that have it. A record's headers are in the order of the batch's header columns."""

    name: str
    values: ValueColumn
    present: pa.BooleanArray | None = None
    """The rows that have this header; None: all."""

    def filter(self, keep: pa.BooleanArray) -> HeaderColumn:
        present = None if self.present is None else self.present.filter(keep)
        return HeaderColumn(self.name, self.values.filter(keep), present)

    def slice(self, first: int, length: int) -> HeaderColumn:
        present = None if self.present is None else self.present.slice(first, length)
        return HeaderColumn(self.name, self.values.slice(first, length), present)


@dataclass(frozen=True)
class ConnectBatch:
    """Records of one schema, as columns."""

    topic: pa.Array
    """Strings."""
    key: ValueColumn
    value: ValueColumn
    timestamp: pa.Array
    """Milliseconds since 1970 as int64; null: the time of writing."""
    partition: pa.Array
    """int32; null: the producer chooses."""
    headers: tuple[HeaderColumn, ...] = ()
    origin: pa.RecordBatch | None = None
    """Per row, where it comes from. For a sink: the consumed record with the columns of Spark's source (key, value,
    topic, partition, offset, timestamp, timestampType, headers). For a source: `source_partition` and `source_offset`
    as JSON text, where the connector gives them. Used in error messages, dead letters and by
    InsertField for offsets."""

    @property
    def num_rows(self) -> int:
        return len(self.topic)

    def filter(self, keep: pa.BooleanArray) -> ConnectBatch:
        """The rows where `keep` is true."""
        return ConnectBatch(
            self.topic.filter(keep),
            self.key.filter(keep),
            self.value.filter(keep),
            self.timestamp.filter(keep),
            self.partition.filter(keep),
            tuple(one.filter(keep) for one in self.headers),
            None if self.origin is None else self.origin.filter(keep),
        )

    def slice(self, first: int, length: int) -> ConnectBatch:
        """Adjacent rows, without a copy."""
        return ConnectBatch(
            self.topic.slice(first, length),
            self.key.slice(first, length),
            self.value.slice(first, length),
            self.timestamp.slice(first, length),
            self.partition.slice(first, length),
            tuple(one.slice(first, length) for one in self.headers),
            None if self.origin is None else self.origin.slice(first, length),
        )


def source_batch(
    topic: str,
    value: ValueColumn,
    *,
    key: ValueColumn | None = None,
    timestamp: pa.Array | None = None,
    partition: pa.Array | None = None,
    headers: Sequence[HeaderColumn] = (),
    origin: pa.RecordBatch | None = None,
) -> ConnectBatch:
    """A batch of a source connector, all of it for one topic. What is left out is null."""
    rows = len(value)
    return ConnectBatch(
        pa.repeat(pa.scalar(topic), rows),
        key if key is not None else ValueColumn.nothing(rows),
        value,
        timestamp if timestamp is not None else pa.nulls(rows, pa.int64()),
        partition if partition is not None else pa.nulls(rows, pa.int32()),
        tuple(headers),
        origin,
    )
