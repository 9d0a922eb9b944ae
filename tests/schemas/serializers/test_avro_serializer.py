"""Avro serializers: values that do not fit, schemas that are not registered, latest versions, damaged data."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from moldau.schemas import (
    AvroDeserializer,
    AvroSerializer,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    ProtobufSerializer,
    RegistryClient,
    RegistryError,
    Schema,
    SchemaError,
    SchemaType,
)
from moldau.schemas.avro.avro_schema import AvroSchema
from moldau.schemas.avro.json_values import from_json, to_json
from moldau.testing import Registry

ORDER = (
    '{"type":"record","name":"Order","fields":[{"name":"id","type":"int"},'
    '{"name":"note","type":["null","string"],"default":null},{"name":"tags","type":{"type":"array","items":"string"},'
    '"default":[]}]}'
)
JSON_ORDER = '{"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}'


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"id": 2**31}, "Order.id is 2147483648, and the schema has int"),
        ({"id": 1.5}, "Order.id is 1.5"),
        ({"id": True}, "Order.id is True"),
        ({"id": "1"}, "Order.id is '1'"),
        ({}, "Order.id is None"),
        ({"id": 1, "nota": "x"}, "nota"),
        ({"id": 1, "note": 5}, "Order.note is 5"),
        ({"id": 1, "tags": [1]}, "Order.tags is 1"),
        ([1], "the schema has record Order"),
    ],
)
def test_a_value_that_does_not_fit_is_not_written(client: RegistryClient, value: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=rf"topic 'orders' .* schema 1 of subject 'orders-value': .*{message}"):
        AvroSerializer(client, ORDER).serialize("orders", value)


def test_a_tombstone_needs_no_registry() -> None:
    nowhere = {"url": "http://127.0.0.1:1", "max.retries": 0}
    assert AvroSerializer(nowhere, ORDER).serialize("orders", None) is None
    assert AvroDeserializer(nowhere).deserialize("orders", None) is None


def test_a_value_costs_no_request_after_the_first(registry: Registry, client: RegistryClient) -> None:
    serializer, deserializer = AvroSerializer(client, ORDER), AvroDeserializer(client)
    data = serializer.serialize("orders", {"id": 1})
    deserializer.deserialize("orders", data)
    registry.requests.clear()
    for number in range(100):
        deserializer.deserialize("orders", serializer.serialize("orders", {"id": number}))
    assert not registry.requests


def test_prepare_makes_the_requests_in_advance(registry: Registry, client: RegistryClient) -> None:
    serializer = AvroSerializer(client, ORDER)
    serializer.prepare("orders")
    registry.requests.clear()
    serializer.serialize("orders", {"id": 1})
    assert not registry.requests and client.subjects() == ["orders-value"]


def test_a_schema_that_is_not_registered_is_an_error_without_auto_register(client: RegistryClient) -> None:
    serializer = AvroSerializer(client, ORDER, auto_register=False)
    with pytest.raises(RegistryError, match="topic 'orders', subject 'orders-value'") as caught:
        serializer.serialize("orders", {"id": 1})
    assert caught.value.code == 40401 and client.subjects() == []
    client.register("orders-value", Schema(ORDER))
    assert serializer.serialize("orders", {"id": 1}) is not None


def test_an_incompatible_schema_is_not_registered(client: RegistryClient) -> None:
    client.register("orders-value", Schema(ORDER))
    with pytest.raises(RegistryError, match="orders-value") as caught:
        AvroSerializer(client, '"string"').serialize("orders", "x")
    assert caught.value.status == 409


def test_the_latest_version_must_read_what_the_own_schema_writes(client: RegistryClient) -> None:
    client.register("orders-value", Schema('"string"'))
    with pytest.raises(SchemaError, match="version 1 of subject 'orders-value', the latest one, cannot read the value"):
        AvroSerializer(client, ORDER, use_latest=True).serialize("orders", {"id": 1})
    lenient = AvroSerializer(client, ORDER, use_latest=True, latest_strict=False)
    assert lenient.serialize("orders", "x") == b"\0\0\0\0\x01\x02x"


def test_a_new_latest_version_is_used_when_the_cache_has_expired(registry: Registry) -> None:
    registry.register("orders-value", '{"type":"record","name":"R","fields":[]}')
    with RegistryClient({"url": registry.url, "latest.cache.ttl.sec": 0}) as client:
        serializer, deserializer = AvroSerializer(client), AvroDeserializer(client, use_latest=True)
        first = serializer.serialize("orders", {})
        assert deserializer.deserialize("orders", first) == {}
        registry.register(
            "orders-value", '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":7}]}'
        )
        assert serializer.serialize("orders", {"a": 1}) == b"\0\0\0\0\x02\x02"
        assert deserializer.deserialize("orders", first) == {"a": 7}


def test_the_schema_of_an_id_is_written(client: RegistryClient) -> None:
    schema_id = client.register("elsewhere", Schema('"int"')).id
    assert AvroSerializer(client, use_id=schema_id).serialize("orders", 1) == b"\0\0\0\0\x01\x02"
    assert client.subjects() == ["elsewhere"]
    with pytest.raises(RegistryError, match=r"topic 'orders': .*Schema 99 not found"):
        AvroSerializer(client, use_id=99).serialize("orders", 1)


def test_a_schema_of_another_type_is_an_error(client: RegistryClient) -> None:
    client.register("orders-value", Schema(JSON_ORDER, SchemaType.JSON))
    with pytest.raises(SchemaError, match="is of type JSON, and AvroSerializer writes AVRO"):
        AvroSerializer(client).serialize("orders", {"id": 1})
    with pytest.raises(SchemaError, match="AvroSerializer needs a schema of type AVRO"):
        AvroSerializer(client, Schema(JSON_ORDER, SchemaType.JSON))
    data = JsonSchemaSerializer(client, JSON_ORDER).serialize("orders", {"id": 1})
    with pytest.raises(SchemaError, match="topic 'orders' cannot be read with schema 1: it is of type JSON"):
        AvroDeserializer(client).deserialize("orders", data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "topic 'orders' has no schema id: the value has 0 bytes"),
        (b"\0\0\0\0", "has no schema id"),
        (b"\1\0\0\0\1x", "begins with byte 1"),
        (b'{"id": 1}', "begins with byte 123"),
        (b"\0\0\0\0\1", "schema 1"),
        (b"\0\0\0\0\1\x02\x02\xff", "schema 1"),
        (b"\0\0\0\0\1\x02\x04", "schema 1"),
        (b"\0\0\0\0\1\x02\0\0more", "bytes are left after the value"),
        (b"\0\0\0\0\2", "no schema 2 for the value of topic 'orders'"),
        (b"\0\xff\xff\xff\xff", "no schema -1 "),
    ],
)
def test_damaged_data_is_an_error(client: RegistryClient, data: bytes, message: str) -> None:
    client.register("orders-value", Schema(ORDER))
    with pytest.raises(SchemaError, match=message):
        AvroDeserializer(client).deserialize("orders", data)


@pytest.mark.parametrize("value", [b"", b"\1short", b"\7" + bytes(16)])
def test_a_damaged_header_is_an_error(client: RegistryClient, value: bytes) -> None:
    with pytest.raises(SchemaError, match="__value_schema_id has neither a schema id nor a GUID"):
        AvroDeserializer(client).deserialize("orders", b"\0", [("__value_schema_id", value)])


def test_a_header_is_needed_where_the_id_belongs_in_one(client: RegistryClient) -> None:
    with pytest.raises(SchemaError, match="gave no headers"):
        AvroSerializer(client, ORDER, id_in_header=True).serialize("orders", {"id": 1})


def test_the_strategy_record_needs_a_name(client: RegistryClient) -> None:
    with pytest.raises(SchemaError, match="'orders' has no name"):
        AvroSerializer(client, '["null","int"]', subject_name="record").serialize("orders", 1)
    with pytest.raises(SchemaError, match="'orders' has no name"):
        JsonSchemaSerializer(client, JSON_ORDER, subject_name="topic-record").serialize("orders", {"id": 1})
    with pytest.raises(ValueError, match="'records' is not known"):
        ProtobufSerializer(client, subject_name="records")


def test_contexts_are_named_by_the_strategy(client: RegistryClient) -> None:
    def in_context(topic: str, is_key: bool, name: str | None) -> str:
        return f":.eu:{topic}-value"

    client.register("first", Schema('"string"'))
    data = AvroSerializer(client, '"int"', subject_name=in_context).serialize("orders", 5)
    assert data == b"\0\0\0\0\x01\x0a", "ids of a context begin again"
    assert AvroDeserializer(client, subject_name=in_context).deserialize("orders", data) == 5


def test_one_serializer_is_used_by_many_threads(client: RegistryClient) -> None:
    serializer, deserializer = AvroSerializer(client, ORDER), AvroDeserializer(client)

    def there_and_back(number: int) -> int:
        topic = f"t{number % 5}"
        found: int = deserializer.deserialize(topic, serializer.serialize(topic, {"id": number}))["id"]
        return found

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(there_and_back, range(400))) == list(range(400))
    assert len(client.subjects()) == 5


def test_json_that_does_not_have_the_schema_is_not_written_and_not_read(client: RegistryClient) -> None:
    serializer = JsonSchemaSerializer(client, JSON_ORDER)
    with pytest.raises(SchemaError, match=r"topic 'orders' .* schema 1 of subject 'orders-value': .*id"):
        serializer.serialize("orders", {"id": "x"})
    for wrong in ({"id": float("nan")}, {"id": 1, "set": {1, 2}}):
        with pytest.raises(SchemaError):
            JsonSchemaSerializer(client, JSON_ORDER, validate=False).serialize("orders", wrong)
    bad = JsonSchemaSerializer(client, JSON_ORDER, validate=False).serialize("orders", {"id": "x"})
    with pytest.raises(SchemaError, match="topic 'orders' cannot be read with schema 1"):
        JsonSchemaDeserializer(client).deserialize("orders", bad)
    assert JsonSchemaDeserializer(client, validate=False).deserialize("orders", bad) == {"id": "x"}
    with pytest.raises(SchemaError, match="it is not JSON"):
        JsonSchemaDeserializer(client).deserialize("orders", b"\0\0\0\0\1{")


# -- JSON of people ----------------------------------------------------------------------------------------------------

ALL = """{"type": "record", "name": "All", "fields": [
  {"name": "u", "type": ["null", "string", "long", {"type": "record", "name": "In", "fields": [
      {"name": "n", "type": "int"}]}]},
  {"name": "b", "type": "bytes"},
  {"name": "f", "type": {"type": "fixed", "name": "F", "size": 2}},
  {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
  {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
  {"name": "day", "type": {"type": "int", "logicalType": "date"}},
  {"name": "time", "type": {"type": "int", "logicalType": "time-millis"}},
  {"name": "g", "type": {"type": "string", "logicalType": "uuid"}},
  {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
  {"name": "m", "type": {"type": "map", "values": {"type": "array", "items": "double"}}}]}"""
SHOWN = {
    "u": {"n": 3},
    "b": "\u0000ÿ",
    "f": "ab",
    "d": "12.50",
    "t": "2026-11-18T15:30:00.000001+00:00",
    "day": "2026-11-18",
    "time": "15:30:00.250000",
    "g": "12345678-1234-5678-1234-567812345678",
    "e": "B",
    "m": {"x": [1.0, 2.5]},
}


@pytest.mark.parametrize("branch", [None, "text", 7, {"n": 3}])
def test_values_are_shown_as_json_and_read_again(client: RegistryClient, branch: Any) -> None:
    shown = {**SHOWN, "u": branch}
    data = AvroSerializer(client, ALL, from_json=True).serialize("t", shown)
    found = to_json(AvroDeserializer(client).deserialize("t", data))
    assert found == shown and json.loads(json.dumps(found)) == shown


@pytest.mark.parametrize(("tagged", "plain"), [({"string": "x"}, "x"), ({"In": {"n": 1}}, {"n": 1}), ({"long": 1}, 1)])
def test_branches_of_unions_may_be_named_as_in_avros_json(client: RegistryClient, tagged: Any, plain: Any) -> None:
    serializer = AvroSerializer(client, ALL, from_json=True)
    assert serializer.serialize("t", {**SHOWN, "u": tagged}) == serializer.serialize("t", {**SHOWN, "u": plain})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"u": 1.5}, "field u: no branch"),
        ({"b": "š"}, "field b: a character"),
        ({"b": 5}, "field b: expected a text"),
        ({"f": "abc"}, "field f: expected a text of 2"),
        ({"d": "many"}, "field d: 'many' is not of type decimal"),
        ({"t": "tomorrow"}, "field t: 'tomorrow' is not of type timestamp-micros"),
        ({"e": "C"}, "field e: expected one of A, B"),
        ({"m": {"x": [1, "y"]}}, r"field m\.x\[1\]: expected a number"),
        ({"m": []}, "field m: expected an object"),
        ({"more": 1}, "has no field 'more'"),
    ],
)
def test_json_that_does_not_fit_is_an_error_with_the_field(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        from_json(AvroSchema(ALL).root, {**SHOWN, **change})
