"""Rows of a sink's table from records: key columns, value columns, and which records delete. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.connectors.databases.dialect import TableName
from moldau.connect.connectors.databases.sink_settings import KAFKA_FIELDS, PK_KAFKA, PK_KEY, PK_VALUE
from moldau.connect.errors import DataError
from moldau.connect.record_batch import ConnectBatch, ValueColumn
from moldau.connect.schemas import Schema, SchemaType


@dataclass(frozen=True)
class SinkField:
    """A column that records bring."""

    name: str
    schema: Schema
    key: bool = False


@dataclass(frozen=True)
class SinkRows:
    """Adjacent records for one table."""

    table: TableName
    fields: tuple[SinkField, ...]
    """Of a batch of deletes only: the key."""
    rows: pa.Table
    deleted: pa.BooleanArray
    offsets: pa.Array

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields if field.key)

    def __len__(self) -> int:
        return len(self.offsets)

    def filter(self, keep: pa.BooleanArray) -> SinkRows:
        return replace(
            self, rows=self.rows.filter(keep), deleted=self.deleted.filter(keep), offsets=self.offsets.filter(keep)
        )

    def take(self, indices: pa.Array) -> SinkRows:
        return replace(
            self, rows=self.rows.take(indices), deleted=self.deleted.take(indices), offsets=self.offsets.take(indices)
        )

    def after(self, offset: int) -> SinkRows:
        """The records from an offset on: those before it are written already."""
        return self.filter(pc.greater_equal(self.offsets, offset))


def one_topic(batch: ConnectBatch, size: int) -> Iterator[ConnectBatch]:
    """Parts of a batch with one topic and at most `size` rows each, in order."""
    first, rows = 0, batch.num_rows
    topics = batch.topic.to_pylist() if len(pc.unique(batch.topic)) > 1 else None
    while first < rows:
        end = min(first + size, rows)
        if topics is not None:
            end = next((index for index in range(first, end) if topics[index] != topics[first]), end)
        yield batch.slice(first, end - first)
        first = end


def next_offset(batch: ConnectBatch) -> int:
    """The offset after the last record of a batch."""
    assert batch.origin is not None
    return int(batch.origin.column("offset")[-1].as_py()) + 1


def halves(batches: Sequence[ConnectBatch]) -> tuple[list[ConnectBatch], list[ConnectBatch]]:
    """The first and the second half of the rows; of one row, the second half is empty."""
    left = (sum(batch.num_rows for batch in batches) + 1) // 2
    first: list[ConnectBatch] = []
    second: list[ConnectBatch] = []
    for batch in batches:
        taken = min(left, batch.num_rows)
        left -= taken
        if taken:
            first.append(batch.slice(0, taken))
        if taken < batch.num_rows:
            second.append(batch.slice(taken, batch.num_rows - taken))
    return first, second


def rows_of(batch: ConnectBatch, table: TableName, config: Mapping[str, Any]) -> SinkRows:
    """The rows of a batch of one topic. DataError says which setting does not fit the records."""
    assert batch.origin is not None
    topic = batch.topic[0].as_py()
    offsets = batch.origin.column("offset")
    deleted = batch.value.array.is_null()
    has_deletes = pc.any(deleted).as_py()
    if has_deletes and not config["delete.enabled"]:
        first = offsets.filter(deleted)[0].as_py()
        raise DataError(
            f"record at offset {first} of topic {topic} has no value; set delete.enabled=true with pk.mode=record_key "
            "to delete its row, or drop such records with the transform Filter and the predicate RecordIsTombstone"
        )
    keys = key_columns(batch, config, topic)
    values = [] if pc.all(deleted).as_py() else value_columns(batch, config, topic)
    names = {field.name for field, _ in keys}
    columns = [*keys, *((field, array) for field, array in values if field.name not in names)]
    if not columns:
        raise DataError(f"records of topic {topic} have no fields to write; check fields.whitelist and pk.mode")
    zone = config["db.timezone"]
    rows = pa.table([_zoned(array, zone) for _, array in columns], names=[field.name for field, _ in columns])
    return SinkRows(table, tuple(field for field, _ in columns), rows, deleted, offsets)


def _zoned(array: pa.Array, zone: str) -> pa.Array:
    """Points in time carry the time zone in which the database shall show them."""
    if pa.types.is_timestamp(array.type) and zone != "UTC":
        return array.cast(pa.timestamp(array.type.unit, tz=zone))
    return array


def value_columns(batch: ConnectBatch, config: Mapping[str, Any], topic: str) -> list[tuple[SinkField, pa.Array]]:
    """The fields of the values that are written."""
    schema = batch.value.schema
    if schema is None or schema.type is not SchemaType.STRUCT:
        kind = "no schema" if schema is None else f"the schema {schema.type.value}"
        raise DataError(
            f"values of topic {topic} have {kind}; a database sink needs structs with a schema: use a converter with "
            "schemas (JsonConverter with schemas.enable=true, or a format of the schema registry)"
        )
    wanted = set(config["fields.whitelist"])
    return [
        (SinkField(field.name, field.schema), batch.value.array.field(index))
        for index, field in enumerate(schema.fields)
        if not wanted or field.name in wanted
    ]


def key_columns(batch: ConnectBatch, config: Mapping[str, Any], topic: str) -> list[tuple[SinkField, pa.Array]]:
    """The columns of the primary key, as pk.mode says."""
    mode, names = config["pk.mode"], config["pk.fields"]
    if mode == PK_KAFKA:
        assert batch.origin is not None
        kinds = (SchemaType.STRING, SchemaType.INT32, SchemaType.INT64)
        return [
            (SinkField(name, Schema(kind), key=True), batch.origin.column(source))
            for name, kind, source in zip(names or KAFKA_FIELDS, kinds, ("topic", "partition", "offset"), strict=True)
        ]
    if mode == PK_KEY:
        return _parts(batch.key, names, topic, "key")
    if mode == PK_VALUE:
        return _parts(batch.value, names, topic, "value")
    return []


def _parts(column: ValueColumn, names: Sequence[str], topic: str, what: str) -> list[tuple[SinkField, pa.Array]]:
    schema = column.schema
    if schema is None or column.array.null_count:
        problem = (
            f"have no {what}" if pa.types.is_null(column.array.type) or column.array.null_count else "have no schema"
        )
        raise DataError(
            f"records of topic {topic} {problem} for the primary key; use another pk.mode, or give records a {what} "
            "with schema (transform ValueToKey, another converter)"
        )
    if schema.type is not SchemaType.STRUCT:
        if len(names) != 1:
            raise DataError(
                f"the {what} of topic {topic} is one {schema.type.value}: name its column, and no other, in pk.fields"
            )
        return [(SinkField(names[0], schema, key=True), column.array)]
    found = []
    for name in names or [field.name for field in schema.fields]:
        index = next((index for index, field in enumerate(schema.fields) if field.name == name), None)
        if index is None:
            known = ", ".join(field.name for field in schema.fields)
            raise DataError(f"the {what} of topic {topic} has no field {name} (pk.fields); its fields are: {known}")
        found.append((SinkField(name, schema.fields[index].schema, key=True), column.array.field(index)))
    return found


# -- what is left of several records -----------------------------------------------------------------------------------


def merged(parts: Sequence[SinkRows]) -> list[SinkRows]:
    """Adjacent parts of one table and one schema as one part."""
    found: list[SinkRows] = []
    for part in parts:
        last = found[-1] if found else None
        if last is not None and last.table == part.table and last.fields == part.fields:
            found[-1] = replace(
                last,
                rows=pa.concat_tables([last.rows, part.rows]),
                deleted=pa.concat_arrays([last.deleted, part.deleted]),
                offsets=pa.concat_arrays([last.offsets, part.offsets]),
            )
        else:
            found.append(part)
    return found


def last_per_key(part: SinkRows) -> SinkRows:
    """The last record of every key: an earlier one would be overwritten in the same transaction."""
    rows = part.rows.select(part.keys).append_column("\0row", pa.array(range(len(part)), pa.int64()))
    last = rows.group_by(list(part.keys), use_threads=False).aggregate([("\0row", "max")])
    indices = pc.sort_indices(last["\0row_max"])
    return part if last.num_rows == len(part) else part.take(last["\0row_max"].take(indices).combine_chunks())


def runs(part: SinkRows) -> Iterator[tuple[bool, SinkRows]]:
    """Adjacent records that all delete, or all do not."""
    if not pc.any(part.deleted).as_py():
        yield False, part
        return
    marks = part.deleted.to_pylist()
    first = 0
    for index in range(1, len(marks) + 1):
        if index == len(marks) or marks[index] != marks[first]:
            yield marks[first], part.take(pa.array(range(first, index), pa.int64()))
            first = index
