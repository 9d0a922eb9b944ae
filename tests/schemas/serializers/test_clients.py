"""Serializers in producers and consumers: by object and by name, keys and values, headers, and what errors say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from moldau import Consumer, Producer
from moldau.client.errors import ConfigurationError, DeserializationError, SerializationError
from moldau.schemas import AvroDeserializer, AvroSerializer, JsonSchemaSerializer, RegistryClient, Schema
from moldau.schemas.wire_format import KEY_ID_HEADER, VALUE_ID_HEADER
from moldau.testing import Registry

ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"int"},{"name":"n","type":"int","default":1}]}'
JSON_ORDER = '{"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}'
WAIT_S = 60.0


@dataclass
class Order:
    id: int
    n: int


def consumed(bootstrap: str, topic: str, count: int, **settings: Any) -> list[Any]:
    """The first records of a topic."""
    found: list[Any] = []
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", **settings) as consumer:
        consumer.assign([(topic, 0)])
        while len(found) < count:
            got = consumer.poll(WAIT_S)
            assert got, f"only {len(found)} of {count} records within {WAIT_S} s"
            found += got
    return found


def test_objects_serialize_keys_and_values(bootstrap: str, topic: str, client: RegistryClient) -> None:
    with Producer(
        bootstrap_servers=bootstrap,
        key_serializer=AvroSerializer(client, '"string"'),
        value_serializer=AvroSerializer(client, ORDER),
    ) as producer:
        producer.send(topic, {"id": 1}, key="a")
        producer.send(topic, Order(2, 5), key="b")
        producer.send(topic, None, key="c")
    assert client.subjects() == [f"{topic}-key", f"{topic}-value"]
    reader = AvroDeserializer(client)
    found = consumed(bootstrap, topic, 3, key_deserializer=reader, value_deserializer=reader)
    assert [(one.key, one.value) for one in found] == [
        ("a", {"id": 1, "n": 1}),
        ("b", {"id": 2, "n": 5}),
        ("c", None),
    ]


@pytest.mark.parametrize(
    ("serializer", "deserializer"),
    [
        ("avro", "avro"),
        ("io.confluent.kafka.serializers.KafkaAvroSerializer", "io.confluent.kafka.serializers.KafkaAvroDeserializer"),
    ],
)
def test_names_and_settings_do_the_same(
    bootstrap: str, topic: str, registry: Registry, serializer: str, deserializer: str
) -> None:
    with Producer(
        {
            "bootstrap.servers": bootstrap,
            "schema.registry.url": registry.url,
            "key.serializer": "str",
            "value.serializer": serializer,
            "value.schema": ORDER,
            "value.subject.name.strategy": "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy",
        }
    ) as producer:
        producer.send(topic, {"id": 7}, key="k")
    assert registry.schema(f"{topic}-Order").registered.id == 1
    found = consumed(
        bootstrap, topic, 1, value_deserializer=deserializer, schema_registry_url=registry.url, key_deserializer="str"
    )
    assert (found[0].key, found[0].value) == ("k", {"id": 7, "n": 1})


def test_a_name_without_a_schema_writes_the_latest_one(bootstrap: str, topic: str, registry: Registry) -> None:
    registry.register(f"{topic}-value", Schema(JSON_ORDER, JsonSchemaSerializer.schema_type))
    settings = {"bootstrap.servers": bootstrap, "schema.registry.url": registry.url}
    with Producer(settings, value_serializer="json-schema") as producer:
        producer.send(topic, {"id": 7})
        with pytest.raises(SerializationError, match=r"does not have schema 1 of subject .*id"):
            producer.send(topic, {"id": "seven"})
    found = consumed(bootstrap, topic, 1, value_deserializer="json-schema", schema_registry_url=registry.url)
    assert found[0].value == {"id": 7}


def test_ids_may_be_in_headers(bootstrap: str, topic: str, registry: Registry) -> None:
    settings = {
        "bootstrap.servers": bootstrap,
        "schema.registry.url": registry.url,
        "key.serializer": "avro",
        "key.schema": '"string"',
        "key.schema.id.serializer": "header",
        "value.serializer": "avro",
        "value.schema": ORDER,
        "value.schema.id.serializer": "io.confluent.kafka.serializers.schema.id.HeaderSchemaIdSerializer",
    }
    mine = [("trace", b"1"), (VALUE_ID_HEADER, b"of an earlier record")]
    with Producer(settings) as producer:
        producer.send(topic, {"id": 1}, key="k", headers=mine)
    assert mine == [("trace", b"1"), (VALUE_ID_HEADER, b"of an earlier record")], "the caller's list is not changed"
    raw = consumed(bootstrap, topic, 1)[0]
    assert (raw.key, raw.value) == (b"\x02k", b"\x02\x02")
    assert [name for name, _ in raw.headers] == ["trace", VALUE_ID_HEADER, KEY_ID_HEADER]
    found = consumed(
        bootstrap, topic, 1, key_deserializer="avro", value_deserializer="avro", schema_registry_url=registry.url
    )[0]
    assert (found.key, found.value) == ("k", {"id": 1, "n": 1})


def test_an_error_names_topic_subject_id_and_offset(bootstrap: str, topic: str, client: RegistryClient) -> None:
    with Producer(bootstrap_servers=bootstrap, value_serializer=AvroSerializer(client, ORDER)) as producer:
        with pytest.raises(
            SerializationError, match=rf"{topic}.*schema 1 of subject '{topic}-value'.*Order.id"
        ) as sent:
            producer.send(topic, {"id": "x"})
        assert sent.value.__cause__ is not None
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"\0\0\0\0\x63rest")
    with pytest.raises(DeserializationError, match=rf"offset 0 .*{topic}.*no schema 99 ") as read:
        consumed(bootstrap, topic, 1, value_deserializer=AvroDeserializer(client))
    assert (read.value.offset, read.value.part) == (0, "value")


def test_a_record_that_cannot_be_read_is_skipped_on_request(bootstrap: str, topic: str, client: RegistryClient) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"no schema here")
        producer.send(topic, AvroSerializer(client, ORDER).serialize(topic, {"id": 3}))
    found = consumed(bootstrap, topic, 1, value_deserializer=AvroDeserializer(client), on_error="skip")
    assert found[0].value == {"id": 3, "n": 1}


def test_a_registry_that_is_away_fails_the_send_and_is_used_when_it_is_back(
    bootstrap: str, topic: str, registry: Registry
) -> None:
    url = registry.url
    serializer = AvroSerializer({"url": url, "max.retries": 0}, ORDER)
    with Producer(bootstrap_servers=bootstrap, value_serializer=serializer) as producer:
        registry.close()
        with pytest.raises(SerializationError, match=f"{topic}-value.*cannot be reached"):
            producer.send(topic, {"id": 1})
        registry.start()
        producer.send(topic, {"id": 1})
        registry.close()
        producer.send(topic, {"id": 2})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"value.serializer": "avro"}, "schema.registry.url: is missing"),
        ({"value.serializer": "avro", "schema.registry.url": "x"}, "schema.registry.url"),
        ({"value.serializer": "avr"}, "avro, json-schema, protobuf"),
        (
            {
                "value.serializer": "avro",
                "schema.registry.url": "http://127.0.0.1:1",
                "value.subject.name.strategy": "alphabet",
            },
            "alphabet.*topic, record, topic-record",
        ),
        (
            {
                "value.serializer": "avro",
                "schema.registry.url": "http://127.0.0.1:1",
                "value.schema.id.serializer": "foot",
            },
            "value.schema.id.serializer: 'foot'",
        ),
    ],
)
def test_a_wrong_setting_is_an_error_at_the_start(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Producer({"bootstrap.servers": "127.0.0.1:1", **settings})
