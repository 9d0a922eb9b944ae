"""Keys and values with a schema: what the proxy writes, our clients read, and the other way round."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from moldau import Consumer, Producer
from moldau.schemas.serializers.avro_serializer import AvroDeserializer, AvroSerializer
from moldau.testing import Broker, Registry
from tests.rest.rest_proxy import ServedProxy, served
from tests.rest.test_v2 import create, produce, records

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "org.example",
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "note", "type": ["null", "string"], "default": None},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "raw", "type": "bytes"},
            {"name": "ratio", "type": "double"},
        ],
    }
)
ORDER = {"id": 1, "note": {"string": "x"}, "day": 20_000, "raw": "\u00ff", "ratio": 0.5}
JSON_SCHEMA = json.dumps({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
PROTOBUF = 'syntax = "proto3"; message M { string s = 1; int32 n = 2; }'
CASES = [
    ("avro", AVRO, ORDER, {"id": "x"}),
    ("jsonschema", JSON_SCHEMA, {"a": 1}, {"a": "x"}),
    ("protobuf", PROTOBUF, {"s": "x", "n": 2}, {"n": "many"}),
]


@pytest.mark.parametrize(("kind", "schema", "good", "bad"), CASES)
def test_v2_writes_and_reads(
    proxy: ServedProxy, topic: str, new_name: Callable[[str], str], kind: str, schema: str, good: Any, bad: Any
) -> None:
    answer = produce(proxy.http, topic, [{"value": good, "partition": 0}, {"value": bad}], kind, value_schema=schema)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["offsets"][0]["error_code"] is None
    assert found["offsets"][1]["error_code"] == 42203
    by_id = produce(
        proxy.http, topic, [{"value": good}, {"value": None}], kind, value_schema_id=found["value_schema_id"]
    )
    assert [one["error_code"] for one in by_id.json()["offsets"]] == [None, None]
    instance = create(proxy.http, new_name("group"), format=kind, **{"auto.offset.reset": "earliest"})
    proxy.http.post(f"{instance}/subscription", json={"topics": [topic]})
    values = [one["value"] for one in records(proxy.http, instance, 3)]
    assert sorted(map(json.dumps, values)) == sorted(map(json.dumps, [good, good, None]))
    proxy.http.delete(instance)
    query = {"from": "earliest", "limit": 1, "format": kind, "partition": 0}
    text = proxy.http.get(f"/topics/{topic}/events", params=query).text
    assert json.loads(text.partition("data: ")[2].partition("\n")[0])["value"] == good


@pytest.mark.parametrize(("kind", "schema", "good", "bad"), CASES)
def test_v3_names_the_schema_in_each_way(
    proxy: ServedProxy, topic: str, kind: str, schema: str, good: Any, bad: Any
) -> None:
    place = f"{proxy.cluster}/topics/{topic}/records"

    def status(**value: Any) -> int:
        return proxy.http.post(place, json={"value": value}).status_code

    assert status(type=kind.upper(), schema=schema, data=good) == 200
    assert status(subject=f"{topic}-value", data=good) == 200
    assert status(subject=f"{topic}-value", schema_version=1, data=good) == 200
    assert status(type=kind.upper(), data=good) == 200
    assert status(type=kind.upper(), schema=schema, data=bad) == 422
    assert status(subject=f"{topic}-value", schema_version=7, data=good) == 422
    assert status(schema_id=999_999, data=good) == 422
    assert status(type=kind.upper(), schema="{", data=good) == 422
    other = "JSONSCHEMA" if kind == "avro" else "AVRO"
    assert status(type=other, subject=f"{topic}-value", data=good) == 422


def test_our_clients_and_the_proxy_read_each_other(
    proxy: ServedProxy, rest_broker: Broker, rest_registry: Registry, topic: str
) -> None:
    servers = rest_broker.bootstrap_servers
    produce(proxy.http, topic, [{"value": ORDER, "partition": 0}], "avro", value_schema=AVRO)
    reader = AvroDeserializer(rest_registry.url)
    with Consumer(
        topic, bootstrap_servers=servers, auto_offset_reset="earliest", value_deserializer=reader
    ) as consumer:
        (record,) = consumer.poll(60.0)
    assert (record.value["id"], record.value["note"], record.value["raw"]) == (1, "x", b"\xff")
    with Producer(bootstrap_servers=servers, value_serializer=AvroSerializer(rest_registry.url, AVRO)) as producer:
        producer.send(topic, {**record.value, "ratio": float("nan")}, partition=0)
    query = {"from": "0:1,1:0", "limit": 1, "format": "avro"}
    text = proxy.http.get(f"/topics/{topic}/events", params=query).text
    assert '"value":{"id":1,"note":{"string":"x"},"day":20000,"raw":"ÿ","ratio":"NaN"}' in text


def test_a_registry_that_does_not_answer_is_503(rest_broker: Broker, topic: str) -> None:
    settings = {"bootstrap.servers": rest_broker.bootstrap_servers, "schema.registry.url": "http://127.0.0.1:9"}
    with served(settings) as proxy:
        answer = produce(proxy.http, topic, [{"value": ORDER}], "avro", value_schema=AVRO)
        assert (answer.status_code, answer.json()["error_code"]) == (503, 50003)


def test_without_a_registry_schemas_are_refused(rest_broker: Broker, topic: str) -> None:
    with served({"bootstrap.servers": rest_broker.bootstrap_servers}) as proxy:
        answer = produce(proxy.http, topic, [{"value": ORDER}], "avro", value_schema=AVRO)
        assert (answer.status_code, "schema.registry.url" in answer.json()["message"]) == (422, True)
