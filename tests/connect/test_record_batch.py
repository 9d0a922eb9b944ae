"""Schemas and batches: the Arrow types of schemas, schemas of Arrow data, and parts of batches."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from moldau.connect.record_batch import HeaderColumn, ValueColumn, fitted, source_batch
from moldau.connect.schemas import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, SchemaType, arrow_type, schema_of

NOW = datetime.datetime(2024, 1, 2, 3, 4, 5, 678901)  # noqa: DTZ001 - databases give times without zone
UTC = NOW.replace(tzinfo=datetime.UTC, microsecond=678000)


@pytest.mark.parametrize(
    ("array", "schema_type", "name", "values"),
    [
        (pa.array([NOW], pa.timestamp("us")), SchemaType.INT64, TIMESTAMP, [UTC]),
        (pa.array([NOW], pa.timestamp("ns", "Europe/Prague")), SchemaType.INT64, TIMESTAMP, [UTC]),
        (pa.array([datetime.time(1, 2, 3, 456789)]), SchemaType.INT32, TIME, [datetime.time(1, 2, 3, 456000)]),
        (pa.array([datetime.date(2024, 1, 1)], pa.date64()), SchemaType.INT32, DATE, [datetime.date(2024, 1, 1)]),
        (pa.array(["a"]).dictionary_encode(), SchemaType.STRING, None, ["a"]),
        (pa.array(["a"], pa.large_string()), SchemaType.STRING, None, ["a"]),
        (pa.array(["a"], pa.string_view()), SchemaType.STRING, None, ["a"]),
        (pa.array([b"12"], pa.binary(2)), SchemaType.BYTES, None, [b"12"]),
        (pa.array([2**64 - 1], pa.uint64()), SchemaType.BYTES, DECIMAL, [Decimal(2**64 - 1)]),
        (pa.array([2**32 - 1], pa.uint32()), SchemaType.INT64, None, [2**32 - 1]),
        (pa.array([1.5], pa.float16()), SchemaType.FLOAT32, None, [1.5]),
        (pa.array([[1, 2]], pa.list_(pa.uint8(), 2)), SchemaType.ARRAY, None, [[1, 2]]),
        (pa.array([[("a", NOW)]], pa.map_(pa.string(), pa.timestamp("us"))), SchemaType.MAP, None, [[("a", UTC)]]),
        (pa.array([{"a": NOW}], pa.struct([("a", pa.timestamp("us"))])), SchemaType.STRUCT, None, [{"a": UTC}]),
        (pa.nulls(2), SchemaType.STRING, None, [None, None]),
        (pa.ExtensionArray.from_storage(pa.json_(), pa.array(["1"])), SchemaType.STRING, None, ["1"]),
    ],
)
def test_arrow_data_of_any_type_gets_a_schema_and_its_type(
    array: pa.Array, schema_type: SchemaType, name: str | None, values: list[Any]
) -> None:
    column = ValueColumn.of(array, optional=True)
    assert column.schema is not None
    assert (column.schema.type, column.schema.name, column.schema.optional) == (schema_type, name, True)
    assert column.array.to_pylist() == values
    assert fitted(column.array, column.schema) is column.array
    assert hash(column.schema) == hash(schema_of(array.type))


@pytest.mark.parametrize("kind", [pa.month_day_nano_interval(), pa.list_view(pa.int8()), pa.duration("s")])
def test_arrow_types_without_a_counterpart_are_refused_by_name(kind: pa.DataType) -> None:
    with pytest.raises(TypeError, match="has no type in Kafka Connect"):
        schema_of(kind)


def test_required_parts_are_not_nullable_in_arrow() -> None:
    text, optional = Schema(SchemaType.STRING), Schema(SchemaType.STRING, optional=True)
    entries = Schema(SchemaType.MAP, key_schema=text, value_schema=text)
    schema = Schema(
        SchemaType.STRUCT,
        fields=(
            Field("a", text),
            Field("b", optional),
            Field("c", Schema(SchemaType.ARRAY, value_schema=text)),
            Field("d", entries),
        ),
    )
    found = arrow_type(schema)
    assert [field.nullable for field in found] == [False, True, False, False]
    assert not found.field("c").type.value_field.nullable
    assert not found.field("d").type.item_field.nullable
    assert schema_of(found, optional=False) == schema


def test_data_is_not_cast_where_only_the_nullability_differs() -> None:
    schema = Schema(SchemaType.STRUCT, fields=(Field("a", Schema(SchemaType.STRING)),))
    array = pa.array([{"a": "x"}])
    assert array.type != arrow_type(schema)
    assert fitted(array, schema) is array


def test_slices_and_filters_keep_all_columns_together() -> None:
    headers = [HeaderColumn("h", ValueColumn(pa.array([1, 2, 3])), pa.array([True, False, True]))]
    origin = pa.record_batch({"offset": [7, 8, 9]})
    batch = source_batch("t", ValueColumn(pa.array(["a", "b", "c"])), headers=headers, origin=origin)
    assert batch.topic.to_pylist() == ["t"] * 3 and batch.num_rows == 3
    assert batch.key.array.null_count == batch.partition.null_count == batch.timestamp.null_count == 3
    for part in (batch.slice(1, 2), batch.filter(pa.array([False, True, True]))):
        assert part.num_rows == 2
        assert part.value.array.to_pylist() == ["b", "c"]
        assert part.headers[0].values.array.to_pylist() == [2, 3]
        assert part.headers[0].present is not None and part.headers[0].present.to_pylist() == [False, True]
        assert part.origin is not None and part.origin.column("offset").to_pylist() == [8, 9]
