"""AvroConverter: Avro data of a registry to columns with Kafka Connect's schemas and back."""

from __future__ import annotations

import decimal
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from moldau.connect.avro_schemas import DEFAULT_NAME, avro_text, connect_schema
from moldau.connect.config_def import ConfigError
from moldau.connect.converters import Converter, converter
from moldau.connect.errors import DataError, RowError
from moldau.connect.record_batch import ValueColumn
from moldau.connect.schemas import DECIMAL, TIMESTAMP, Field, Schema, SchemaType, arrow_type, decimal_schema
from moldau.schemas import AvroDeserializer, AvroSerializer
from moldau.schemas.avro.avro_schema import AvroSchema
from moldau.schemas.registry_client import RegistryClient
from moldau.testing import Registry

CLASS = "io.confluent.connect.avro.AvroConverter"


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with Registry(compatibility="NONE") as found:
        yield found


@pytest.fixture
def client(registry: Registry) -> Iterator[RegistryClient]:
    with RegistryClient(registry.url) as found:
        yield found


@pytest.fixture
def values(registry: Registry) -> Iterator[Converter]:
    made = converter(CLASS, {"schema.registry.url": registry.url}, is_key=False)
    yield made
    made._registry.close()  # type: ignore[attr-defined]


def order(*names: str) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": [{"name": one, "type": "long"} for one in names]})


def test_records_keep_the_schema_with_which_they_were_written(client: RegistryClient, values: Converter) -> None:
    old, new = (AvroSerializer(client, order(*names)) for names in (("id",), ("id", "more")))
    first, second = old.serialize("t", {"id": 1}), new.serialize("t", {"id": 2, "more": 3})
    found = list(values.to_batches(pa.array([None, first, None, second, second], pa.binary()), "t"))
    assert [one.array.to_pylist() for one in found] == [
        [None, {"id": 1}, None],
        [{"id": 2, "more": 3}, {"id": 2, "more": 3}],
    ]
    assert [one.schema.name for one in found if one.schema] == ["Order", "Order"]


def test_bad_rows_are_told_by_number(client: RegistryClient, values: Converter) -> None:
    good = AvroSerializer(client, order("id")).serialize("t", {"id": 1})
    assert good is not None
    with pytest.raises(RowError) as error:
        values.to_batches(pa.array([good, b"no avro", good[:5], b"\0\0\1\0\0x"], pa.binary()), "t")
    assert list(error.value.reasons) == [1, 2, 3]


def test_columns_are_written_with_the_schema_of_their_topic(client: RegistryClient, values: Converter) -> None:
    schema = Schema(
        SchemaType.STRUCT,
        name="shop.Order",
        fields=(
            Field("id", Schema(SchemaType.INT16)),
            Field("at", Schema(SchemaType.INT64, optional=True, name=TIMESTAMP, version=1)),
            Field("price", decimal_schema(9, 2, optional=False)),
            Field("tags", Schema(SchemaType.ARRAY, value_schema=Schema(SchemaType.STRING))),
        ),
    )
    at = datetime(2024, 1, 31, tzinfo=UTC)
    rows: list[Any] = [
        {"id": 1, "at": at, "price": decimal.Decimal("1.50"), "tags": ["x"]},
        None,
        {"id": 2, "at": None, "price": decimal.Decimal("-2.00"), "tags": []},
    ]
    column = ValueColumn(pa.array(rows, arrow_type(schema)), schema)
    written = values.from_column(column, pa.array(["one", "two", "two"]))
    read = AvroDeserializer(client)
    assert read.deserialize("one", written[0].as_py()) == rows[0]
    assert written[1].as_py() is None
    assert read.deserialize("two", written[2].as_py()) == rows[2]
    assert {"one-value", "two-value"} <= set(client.subjects())
    (again,) = values.to_batches(written.slice(0, 1), "one")
    assert again.array.to_pylist() == rows[:1]
    assert again.schema is not None
    assert again.schema.fields[0].schema.type is SchemaType.INT16  # kept by connect.type
    assert again.schema.fields[2].schema.name == DECIMAL


def test_a_null_for_a_required_field_is_a_bad_row(values: Converter) -> None:
    schema = Schema(SchemaType.STRUCT, fields=(Field("id", Schema(SchemaType.INT64)),))
    column = ValueColumn(pa.array([{"id": 1}, {"id": None}], pa.struct({"id": pa.int64()})), schema)
    with pytest.raises(RowError) as error:
        values.from_column(column, pa.array(["nulls", "nulls"]))
    assert error.value.reasons == {1: "field id: null for a required value"}


def test_data_without_schema_is_refused_and_nulls_stay_null(values: Converter) -> None:
    with pytest.raises(DataError, match="this data has none"):
        values.from_column(ValueColumn(pa.array([{"id": 1}])), pa.array(["t"]))
    assert values.from_column(ValueColumn.nothing(2), pa.array(["t", "t"])).to_pylist() == [None, None]


def test_a_converter_without_registry_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"schema\.registry\.url"):
        converter(CLASS, {}, is_key=False)


def test_schemas_of_connect_have_confluents_form_in_avro() -> None:
    inner = Schema(SchemaType.STRUCT, optional=True, fields=(Field("x", Schema(SchemaType.INT8)),))
    default = Schema(SchemaType.STRING, optional=True, default="none")
    outer = Schema(SchemaType.STRUCT, fields=(Field("in", inner), Field("text", default)))
    found = json.loads(avro_text(outer))
    assert found["name"] == DEFAULT_NAME
    assert found["fields"][0] == {
        "name": "in",
        "type": [
            "null",
            {
                "type": "record",
                "name": f"{DEFAULT_NAME}2",
                "fields": [{"name": "x", "type": {"type": "int", "connect.type": "int8"}}],
            },
        ],
        "default": None,
    }
    assert found["fields"][1] == {"name": "text", "type": ["string", "null"], "default": "none"}
    parsed = AvroSchema(json.dumps(found))  # it is a valid schema
    assert connect_schema(parsed.root).fields[1].schema.default == "none"


def test_a_map_without_string_keys_is_refused() -> None:
    keys = Schema(SchemaType.MAP, key_schema=Schema(SchemaType.INT32), value_schema=Schema(SchemaType.INT32))
    with pytest.raises(DataError, match="keys are not strings"):
        avro_text(keys)
