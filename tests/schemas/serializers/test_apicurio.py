"""Apicurio's Java serializers as judge: Avro and JSON Schema in Confluent's wire format, in both directions.

Apicurio's Protobuf serializer (2.6) writes a message of its own where Confluent's format has the path of the message
type, so it is no judge of that.
"""

from __future__ import annotations

import json
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.schemas import (
    AvroDeserializer,
    AvroSerializer,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    RegistryClient,
)
from moldau.testing import Registry
from tests.compat.apache_kafka.jars import JarsUnavailableError, KafkaJars, fetch_jars

HERE = Path(__file__).parent / "apicurio"

ORDER = """{"type": "record", "name": "Order", "namespace": "shop", "fields": [
  {"name": "id", "type": "long"},
  {"name": "note", "type": ["null", "string"], "default": null},
  {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
      {"name": "article", "type": "string"}, {"name": "count", "type": "int"}]}}},
  {"name": "prices", "type": {"type": "map", "values": "double"}},
  {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
  {"name": "checksum", "type": {"type": "fixed", "name": "Sum", "size": 2}},
  {"name": "raw", "type": "bytes"}]}"""
VALUE = {
    "id": -(2**40),
    "note": "schön",
    "lines": [{"article": "tea", "count": 2}],
    "prices": {"tea": 4.5},
    "state": "PAID",
    "checksum": b"\x00\xff",
    "raw": b"\x01\xfe",
}
AVRO_JSON = {**VALUE, "note": {"string": "schön"}, "checksum": "\x00ÿ", "raw": "\x01þ"}
JSON_ORDER = """{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
  "properties": {"id": {"type": "integer"}, "note": {"type": "string"}}, "required": ["id"]}"""
JSON_VALUE = {"id": 7, "note": "schön", "more": [1.5, None]}

pytestmark = pytest.mark.needs_java


@pytest.fixture(scope="module")
def jars() -> KafkaJars:
    try:
        return fetch_jars(HERE / "pom.xml")
    except JarsUnavailableError as reason:
        pytest.skip(f"Apicurio's jars cannot be had: {reason}")


class Apicurio:
    """A Java process that writes and reads values."""

    def __init__(self, jars: KafkaJars, url: str) -> None:
        self._process = subprocess.Popen(
            ["java", "-cp", f"{jars.directory}/*", str(HERE / "ApicurioSerdes.java"), url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, kind: str, action: str, topic: str, schema: str, data: bytes) -> bytes:
        assert self._process.stdin is not None and self._process.stdout is not None
        columns = (kind, action, topic, b64encode(schema.encode()).decode(), b64encode(data).decode())
        self._process.stdin.write("\t".join(columns) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "Java has ended with an error"
        return b64decode(answer)

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(60)


@pytest.fixture
def apicurio(jars: KafkaJars, registry: Registry) -> Iterator[Apicurio]:
    found = Apicurio(jars, registry.url)
    yield found
    found.close()


@pytest.mark.timeout(240)
def test_apicurio_and_we_read_each_other(client: RegistryClient, apicurio: Apicurio) -> None:
    cases: tuple[tuple[str, str, Any, Any, Any, Any], ...] = (
        ("AVRO", ORDER, AVRO_JSON, VALUE, AvroSerializer(client, ORDER), AvroDeserializer(client)),
        (
            "JSON",
            JSON_ORDER,
            JSON_VALUE,
            JSON_VALUE,
            JsonSchemaSerializer(client, JSON_ORDER),
            JsonSchemaDeserializer(client),
        ),
    )
    for kind, schema, as_json, value, serializer, deserializer in cases:
        topic = f"orders-{kind}"
        ours = serializer.serialize(topic, value)
        assert json.loads(apicurio.ask(kind, "read", topic, "", ours)) == as_json
        theirs = apicurio.ask(kind, "write", topic, schema, json.dumps(as_json).encode())
        assert theirs[:5] == ours[:5], "the same id"
        assert deserializer.deserialize(topic, theirs) == value
        if kind == "AVRO":
            assert theirs == ours
    assert client.subjects() == ["orders-AVRO-value", "orders-JSON-value"]
