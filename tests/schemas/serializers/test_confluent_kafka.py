"""confluent-kafka's serializers as judge: what they write we read, what we write they read, under the same subjects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka.schema_registry import (
    Schema as TheirSchema,
)
from confluent_kafka.schema_registry import (
    SchemaReference as TheirReference,
)
from confluent_kafka.schema_registry import (
    SchemaRegistryClient,
    header_schema_id_serializer,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
    topic_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer as TheirAvroDeserializer
from confluent_kafka.schema_registry.avro import AvroSerializer as TheirAvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from moldau.schemas import (
    AvroDeserializer,
    AvroSerializer,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    RegistryClient,
    Schema,
    SchemaReference,
    SchemaType,
)
from moldau.testing import Registry

ORDER = """{"type": "record", "name": "Order", "namespace": "shop", "fields": [
  {"name": "id", "type": "long"},
  {"name": "note", "type": ["null", "string"], "default": null},
  {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
      {"name": "article", "type": "string"}, {"name": "count", "type": "int", "default": 1}]}}},
  {"name": "prices", "type": {"type": "map", "values": "double"}},
  {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
  {"name": "checksum", "type": {"type": "fixed", "name": "Sum", "size": 4}},
  {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
  {"name": "day", "type": {"type": "int", "logicalType": "date"}},
  {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
  {"name": "token", "type": {"type": "string", "logicalType": "uuid"}}]}"""
ORDER_VALUE = {
    "id": -(2**40),
    "note": "schön",
    "lines": [{"article": "tea", "count": 2}, {"article": "pot", "count": 1}],
    "prices": {"tea": 4.5, "pot": -0.25},
    "state": "PAID",
    "checksum": b"\x00\xff\x01\x02",
    "at": datetime(2026, 11, 18, 15, 30, 1, 250_000, tzinfo=UTC),
    "day": date(2026, 11, 18),
    "total": Decimal("1234567.89"),
    "token": UUID("12345678-1234-5678-1234-567812345678"),
}
AVRO = {
    "record": (ORDER, ORDER_VALUE),
    "string": ('"string"', "text"),
    "long": ('{"type": "long"}', 2**62),
    "bytes": ('"bytes"', b"\x00\x01raw"),
    "union": ('["null", "string", {"type": "array", "items": "int"}]', [1, -2, 3]),
    "boolean": ('"boolean"', False),
}
JSON_ORDER = """{"$schema": "http://json-schema.org/draft-07/schema#", "title": "shop.Order", "type": "object",
  "properties": {"id": {"type": "integer"}, "note": {"type": ["string", "null"]},
                 "lines": {"type": "array", "items": {"type": "object", "required": ["article"]}}},
  "required": ["id"]}"""
JSON_VALUE = {"id": 7, "note": "schön", "lines": [{"article": "tea", "price": 4.5}]}

STRATEGIES = {
    "topic": (topic_subject_name_strategy, "orders-value"),
    "record": (record_subject_name_strategy, "shop.Order"),
    "topic-record": (topic_record_subject_name_strategy, "orders-shop.Order"),
}


@pytest.fixture
def theirs(registry: Registry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as found:
        yield found


def context(field: MessageField = MessageField.VALUE, headers: Any = None) -> SerializationContext:
    return SerializationContext("orders", field, headers)


@pytest.mark.parametrize(("schema", "value"), AVRO.values(), ids=AVRO)
def test_avro_of_either_is_read_by_the_other_and_has_the_same_bytes(
    client: RegistryClient, theirs: SchemaRegistryClient, schema: str, value: Any
) -> None:
    our_bytes = AvroSerializer(client, schema).serialize("orders", value)
    their_bytes = TheirAvroSerializer(theirs, schema)(value, context())
    assert our_bytes == their_bytes and our_bytes is not None
    assert TheirAvroDeserializer(theirs)(our_bytes, context()) == value
    assert AvroDeserializer(client).deserialize("orders", their_bytes) == value


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", ["avro", "json"])
def test_subjects_are_the_same(
    registry: Registry, client: RegistryClient, theirs: SchemaRegistryClient, strategy: str, kind: str
) -> None:
    their_strategy, subject = STRATEGIES[strategy]
    make: Callable[..., Any] = AvroSerializer if kind == "avro" else JsonSchemaSerializer
    schema, value = (ORDER, ORDER_VALUE) if kind == "avro" else (JSON_ORDER, JSON_VALUE)
    ours = make(client, schema, subject_name=strategy).serialize("orders", value)
    assert client.subjects() == [subject]
    conf = {"subject.name.strategy": their_strategy}
    if kind == "avro":
        theirs_bytes = TheirAvroSerializer(theirs, schema, conf=conf)(value, context())
    else:
        theirs_bytes = JSONSerializer(schema, theirs, conf=conf)(value, context())
    assert client.subjects() == [subject] and theirs_bytes is not None
    assert theirs_bytes[:5] == ours[:5]


def test_keys_have_a_subject_of_their_own(client: RegistryClient, theirs: SchemaRegistryClient) -> None:
    ours = AvroSerializer(client, '"string"').for_keys().serialize("orders", "k")
    assert client.subjects() == ["orders-key"]
    assert TheirAvroSerializer(theirs, '"string"')("k", context(MessageField.KEY)) == ours
    assert client.subjects() == ["orders-key"]


@pytest.mark.parametrize("is_key", [False, True])
def test_ids_in_headers_are_read_by_the_other(
    client: RegistryClient, theirs: SchemaRegistryClient, is_key: bool
) -> None:
    field = MessageField.KEY if is_key else MessageField.VALUE
    headers: list[tuple[str, bytes]] = []
    serializer = AvroSerializer(client, ORDER, is_key=is_key, id_in_header=True)
    ours = serializer.serialize("orders", ORDER_VALUE, headers)
    assert TheirAvroDeserializer(theirs)(ours, context(field, headers)) == ORDER_VALUE
    their_headers: list[tuple[str, bytes]] = []
    conf = {"schema.id.serializer": header_schema_id_serializer}
    written = TheirAvroSerializer(theirs, ORDER, conf=conf)(ORDER_VALUE, context(field, their_headers))
    assert (written, their_headers) == (ours, headers)
    assert AvroDeserializer(client, is_key=is_key).deserialize("orders", written, their_headers) == ORDER_VALUE


def test_a_readers_schema_gives_the_same_values(client: RegistryClient, theirs: SchemaRegistryClient) -> None:
    old = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"gone","type":"string"}]}'
    new = (
        '{"type":"record","name":"R","fields":[{"name":"b","type":"double","aliases":["a"]},'
        '{"name":"more","type":"string","default":"none"}]}'
    )
    data = AvroSerializer(client, old).serialize("orders", {"a": 3, "gone": "x"})
    assert data is not None
    found = AvroDeserializer(client, new).deserialize("orders", data)
    assert found == TheirAvroDeserializer(theirs, new)(data, context()) == {"b": 3.0, "more": "none"}


def test_the_latest_version_is_used_by_both(client: RegistryClient, theirs: SchemaRegistryClient) -> None:
    client.register("orders-value", Schema('{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'))
    latest = client.register(
        "orders-value",
        Schema(
            '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":"int","default":5}]}'
        ),
    )
    ours = AvroSerializer(client).serialize("orders", {"a": 1})
    conf = {"auto.register.schemas": False, "use.latest.version": True}
    assert TheirAvroSerializer(theirs, conf=conf)({"a": 1}, context()) == ours
    assert ours is not None and int.from_bytes(ours[1:5]) == latest.id
    assert AvroDeserializer(client).deserialize("orders", ours) == {"a": 1, "b": 5}


def test_avro_with_references_is_read_by_the_other(client: RegistryClient, theirs: SchemaRegistryClient) -> None:
    client.register("line", Schema('{"type":"record","name":"Line","fields":[{"name":"n","type":"int"}]}'))
    text = '{"type":"record","name":"Order","fields":[{"name":"first","type":"Line"},{"name":"next","type":"Line"}]}'
    value = {"first": {"n": 1}, "next": {"n": 2}}
    ours = AvroSerializer(client, text, references=[SchemaReference("Line", "line", 1)]).serialize("orders", value)
    their_schema = TheirSchema(text, "AVRO", [TheirReference("Line", "line", 1)])
    assert TheirAvroSerializer(theirs, their_schema)(value, context()) == ours
    assert TheirAvroDeserializer(theirs)(ours, context()) == value
    assert AvroDeserializer(client).deserialize("orders", ours) == value


def test_json_of_either_is_read_by_the_other(client: RegistryClient, theirs: SchemaRegistryClient) -> None:
    ours = JsonSchemaSerializer(client, JSON_ORDER).serialize("orders", JSON_VALUE)
    written = JSONSerializer(JSON_ORDER, theirs)(JSON_VALUE, context())
    assert ours is not None and written is not None and ours[:5] == written[:5]
    assert JSONDeserializer(None, schema_registry_client=theirs)(ours, context()) == JSON_VALUE
    assert JsonSchemaDeserializer(client).deserialize("orders", written) == JSON_VALUE


def test_json_with_references_is_read_by_the_other(client: RegistryClient, theirs: SchemaRegistryClient) -> None:
    line = '{"$id": "http://shop/line.json", "type": "object", "required": ["n"]}'
    client.register("line", Schema(line, SchemaType.JSON))
    text = '{"type": "object", "properties": {"first": {"$ref": "http://shop/line.json"}}}'
    value = {"first": {"n": 1}}
    reference = SchemaReference("http://shop/line.json", "line", 1)
    ours = JsonSchemaSerializer(client, text, references=[reference]).serialize("orders", value)
    their_schema = TheirSchema(text, "JSON", [TheirReference("http://shop/line.json", "line", 1)])
    written = JSONSerializer(their_schema, theirs)(value, context())
    assert ours is not None and written is not None and ours[:5] == written[:5]
    assert JSONDeserializer(their_schema, schema_registry_client=theirs)(ours, context()) == value
    assert JsonSchemaDeserializer(client).deserialize("orders", written) == value
