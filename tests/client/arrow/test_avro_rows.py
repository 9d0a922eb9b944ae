"""Avro in tables: `send_batch` and `poll_arrow` with a registry, together with the serializers of other clients."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer as OtherDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from moldau import Consumer, Producer, TopicPartition, aio
from moldau.client.errors import ArgumentError, ConfigurationError, DeserializationError, SerializationError
from moldau.schemas import AvroSerializer
from moldau.schemas.registry_client import RegistryClient
from moldau.testing import Registry
from tests.client.core.support import run

READ_TIMEOUT_S = 30.0


@pytest.fixture
def registry() -> Iterator[Registry]:
    """A registry for this test only: the ids say which schema is the newest."""
    with Registry(compatibility="NONE") as found:
        yield found


@pytest.fixture
def client(registry: Registry) -> Iterator[RegistryClient]:
    with RegistryClient(registry.url) as found:
        yield found


def order(*names: str, **defaults: Any) -> str:
    fields: list[dict[str, Any]] = [{"name": name, "type": "long"} for name in names]
    for name, default in defaults.items():
        fields.append({"name": name, "type": "string", "default": default})
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


def rows(consumer: Consumer, count: int, **options: Any) -> list[Any]:
    found: list[Any] = []
    while len(found) < count:
        batch = consumer.poll_arrow(timeout=READ_TIMEOUT_S, **options)
        assert batch.num_rows, f"{len(found)} of {count} rows came"
        found += batch.to_pylist()
    return found


def test_columns_are_written_as_avro_and_read_by_another_client(
    bootstrap: str, registry: Registry, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    table = pa.table({"k": [1, 2], "id": [10, 20], "note": ["a", None]})
    schema = json.dumps(
        {
            "type": "record",
            "name": "Order",
            "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
        }
    )
    settings = {"bootstrap.servers": bootstrap, "schema.registry.url": registry.url}
    with Producer(settings) as producer:
        producer.send_batch(
            topic,
            table,
            key="k",
            value=["id", "note"],
            key_format="avro",
            key_schema='"long"',
            value_format="avro",
            value_schema=schema,
        ).result()
    with Consumer(settings, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        plain = rows(consumer, 2)
        consumer.seek_to_beginning()
        found = rows(consumer, 2, key_format="avro", value_format="avro")
    assert [row["value"] for row in found] == [{"id": 10, "note": "a"}, {"id": 20, "note": None}]
    assert [row["key"] for row in found] == [1, 2]
    with SchemaRegistryClient({"url": registry.url}) as other_client:
        other = OtherDeserializer(other_client)
        read = [other(row["value"], SerializationContext(topic, MessageField.VALUE)) for row in plain]
    assert read == [{"id": 10, "note": "a"}, {"id": 20, "note": None}]


def test_rows_of_several_schemas_have_one_type(
    bootstrap: str, client: RegistryClient, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    with Producer(bootstrap_servers=bootstrap) as producer:
        for schema, value in ((order("id"), {"id": 1}), (order("id", note="-"), {"id": 2, "note": "x"})):
            producer.send(topic, AvroSerializer(client, schema).serialize(topic, value)).result()
        producer.send(topic, None, key=b"deleted").result()
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found = rows(consumer, 3, value_format="avro", registry=client)
        assert [row["value"] for row in found] == [{"id": 1, "note": "-"}, {"id": 2, "note": "x"}, None]
        consumer.seek_to_beginning()
        found = rows(consumer, 3, value_format="avro", registry=client, value_schema=order("id"))
        assert [row["value"] for row in found] == [{"id": 1}, {"id": 2}, None]


@pytest.fixture
def damaged(bootstrap: str, client: RegistryClient, new_topic: Callable[..., str]) -> str:
    """A topic with a value that is no Avro data at offset 2."""
    topic = new_topic()
    serializer = AvroSerializer(client, order("id"))
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(4):
            value = b"no avro" if number == 2 else serializer.serialize(topic, {"id": number})
            producer.send(topic, value).result()
    return topic


def test_rows_before_a_bad_one_are_returned_and_then_it_is_raised(
    bootstrap: str, client: RegistryClient, damaged: str
) -> None:
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(damaged, 0)])
        found = rows(consumer, 2, value_format="avro", registry=client)
        assert [row["value"]["id"] for row in found] == [0, 1]
        assert consumer.position((damaged, 0)) == 2
        for _ in range(2):  # the position stays
            with pytest.raises(DeserializationError, match=f"offset 2 of partition 0 of topic '{damaged}'") as error:
                consumer.poll_arrow(timeout=READ_TIMEOUT_S, value_format="avro", registry=client)
            assert (error.value.offset, error.value.part) == (2, "value")
        consumer.seek(error.value.partition, error.value.offset + 1)
        assert [row["offset"] for row in rows(consumer, 1, value_format="avro", registry=client)] == [3]


def test_bad_rows_are_skipped_or_reported(bootstrap: str, client: RegistryClient, damaged: str) -> None:
    errors: list[DeserializationError] = []
    for on_error in ("skip", errors.append):
        with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", on_error=on_error) as consumer:
            consumer.assign([TopicPartition(damaged, 0)])
            found = rows(consumer, 3, value_format="avro", registry=client)
            assert [row["offset"] for row in found] == [0, 1, 3]
            assert consumer.position((damaged, 0)) == 4
    assert [one.offset for one in errors] == [2]
    assert errors[0].record.column("value").to_pylist() == [b"no avro"]  # type: ignore[attr-defined]


def test_the_asyncio_clients_do_the_same(bootstrap: str, client: RegistryClient, new_topic: Callable[..., str]) -> None:
    topic = new_topic()

    async def both() -> list[Any]:
        async with aio.Producer(bootstrap_servers=bootstrap) as producer:
            table = pa.table({"id": [1, 2]})
            sent = await producer.send_batch(
                topic, table, value=["id"], value_format="avro", value_schema=order("id"), registry=client
            )
            await sent
        async with aio.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            await consumer.assign([TopicPartition(topic, 0)])
            batch = await consumer.poll_arrow(timeout=READ_TIMEOUT_S, value_format="avro", registry=client)
            rest = await consumer.poll_arrow(timeout=0, value_format="avro", registry=client)
            assert rest.schema.field("value").type == batch.schema.field("value").type  # also without rows
            return list(batch.column("value").to_pylist())

    assert run(both()) == [{"id": 1}, {"id": 2}]


def test_rows_that_do_not_fit_the_schema_are_refused_as_a_whole(
    bootstrap: str, client: RegistryClient, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    avro: dict[str, Any] = {"value_format": "avro", "value_schema": order("id"), "registry": client}
    with Producer(bootstrap_servers=bootstrap) as producer:
        with pytest.raises(SerializationError, match="row 1: the value cannot be written: field id: null"):
            producer.send_batch(topic, pa.table({"id": [1, None]}), value=["id"], **avro)
        with pytest.raises(SerializationError, match="field more: the Avro record Order has no such field"):
            producer.send_batch(topic, pa.table({"id": [1], "more": [1]}), value=["id", "more"], **avro)
        with pytest.raises(SerializationError, match="there is no column 'ids'; there are id"):
            producer.send_batch(topic, pa.table({"id": [1]}), value=["ids"], **avro)
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        assert consumer.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 0}


def test_an_unknown_format_and_a_missing_registry_are_refused(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    with Producer(bootstrap_servers=bootstrap) as producer:
        with pytest.raises(ArgumentError, match="value_format: expected one of bytes, avro, got 'afro'"):
            producer.send_batch(topic, pa.table({"value": [b""]}), value_format="afro")
        with pytest.raises(ConfigurationError, match=r"schema\.registry\.url"):
            producer.send_batch(topic, pa.table({"value": [{"a": 1}]}), value_format="avro")
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        with pytest.raises(ArgumentError, match="key_format: expected one of bytes, avro, got 'afro'"):
            consumer.poll_arrow(key_format="afro")
        with pytest.raises(ConfigurationError, match=r"schema\.registry\.url"):
            consumer.poll_arrow(timeout=0, value_format="avro")
