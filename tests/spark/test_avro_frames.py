"""Avro in Spark: decoded and encoded by a registry's schemas, while schemas change."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from moldau import Consumer, TopicPartition
from moldau.schemas import AvroDeserializer, AvroSerializer
from moldau.schemas.registry_client import RegistryClient
from moldau.spark import from_moldau, to_moldau
from moldau.testing import Registry
from tests.spark.topics import send

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with Registry(compatibility="NONE") as found:
        yield found


@pytest.fixture
def client(registry: Registry) -> Iterator[RegistryClient]:
    with RegistryClient(registry.url) as found:
        yield found


FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "long"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}]},
]


def order(*more: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": [*FIELDS, *more]})


def value(number: int, **more: Any) -> dict[str, Any]:
    return {"id": number, "at": 1_700_000_000_000, "tags": ["a"] * number, "price": None, **more}


def frame_of(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    return spark.readStream.format("moldau").options(**options).load()


def test_a_running_query_keeps_its_columns_while_newer_schemas_are_written(
    spark: SparkSession, bootstrap: str, client: RegistryClient, new_topic: Callable[..., str], checkpoint: str
) -> None:
    topic = new_topic()
    first, second = order(), order({"name": "note", "type": "string", "default": "-"})
    send(bootstrap, topic, [AvroSerializer(client, first).serialize(topic, value(1)), None])
    decoded = from_moldau(frame_of(spark, bootstrap, topic), registry=client, subject=f"{topic}-value")
    query = (
        decoded.select("offset", "value.*")
        .writeStream.format("memory")
        .queryName("avro_orders")
        .option("checkpointLocation", checkpoint)
        .start()
    )
    try:
        query.processAllAvailable()
        send(bootstrap, topic, [AvroSerializer(client, second).serialize(topic, value(2, note="new"))])
        query.processAllAvailable()
    finally:
        query.stop()
    table = spark.table("avro_orders")
    assert table.columns == ["offset", "id", "at", "tags", "price"]
    rows = sorted(table.collect())
    assert [row.id for row in rows] == [1, None, 2]
    assert rows[2].tags == ["a", "a"]
    again = from_moldau(frame_of(spark, bootstrap, topic), registry=client, subject=f"{topic}-value")
    assert again.select("value.*").columns == ["id", "at", "tags", "price", "note"]  # a new query sees the new field


def test_columns_become_values_that_other_deserializers_read(
    spark: SparkSession, bootstrap: str, client: RegistryClient, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    rows = spark.sql("SELECT 7L AS id, timestamp_millis(1700000000000) AS at, array('x') AS tags, 1.50BD AS price")
    written = to_moldau(rows, topic, registry=client, schema=order(), key="id", key_schema='"long"')
    options = {"kafka.bootstrap.servers": bootstrap, "topic": topic}
    written.write.format("moldau").mode("append").options(**options).save()
    place = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([place])
        (record,) = consumer.poll(timeout=60)
    read = AvroDeserializer(client).deserialize(topic, record.value)
    assert (read["id"], read["tags"], str(read["price"])) == (7, ["x"], "1.50")
    assert AvroDeserializer(client).for_keys().deserialize(topic, record.key) == 7


def test_a_value_that_is_no_avro_ends_the_query_or_is_null(
    spark: SparkSession, client: RegistryClient, new_topic: Callable[..., str]
) -> None:
    rows = spark.sql("SELECT CAST('no avro' AS BINARY) AS value")
    given: dict[str, Any] = {"registry": client, "schema": '"string"'}
    assert [row.value for row in from_moldau(rows, options={"mode": "PERMISSIVE"}, **given).collect()] == [None]
    with pytest.raises(Exception, match="1 of 1 values cannot be read: the value begins with byte 110"):
        from_moldau(rows, **given).collect()
    with pytest.raises(ValueError, match="mode: expected FAILFAST or PERMISSIVE"):
        from_moldau(rows, options={"mode": "DROPMALFORMED"}, **given)
