"""Avro columns with a registry: several schemas in one column, unknown ids, and data of other serializers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from moldau.schemas import AvroDeserializer, AvroSerializer
from moldau.schemas.avro_columns.registry_columns import AvroColumns
from moldau.schemas.errors import RegistryError, SchemaError
from moldau.schemas.registry_client import RegistryClient
from moldau.schemas.schema import Schema, SchemaType
from moldau.schemas.wire_format import prefix
from moldau.testing import Registry


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
    fields: list[dict[str, Any]] = [{"name": name, "type": "string" if name == "note" else "long"} for name in names]
    for name, default in defaults.items():
        fields.append({"name": name, "type": "string", "default": default})
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


def serialized(client: RegistryClient, topic: str, schema: str, *values: Any) -> list[bytes | None]:
    return [AvroSerializer(client, schema).serialize(topic, one) for one in values]


def binary(*values: bytes | None) -> pa.Array:
    return pa.array(values, pa.binary())


def test_rows_of_several_schemas_have_the_columns_of_the_newest_one(client: RegistryClient) -> None:
    old = serialized(client, "several", order("id"), {"id": 1}, {"id": 3})
    new = serialized(client, "several", order("id", note="none"), {"id": 2, "note": "x"})
    columns = AvroColumns(client)
    found, bad = columns.decode(binary(old[0], new[0], None, old[1]))
    assert bad == {}
    assert found.to_pylist() == [
        {"id": 1, "note": "none"},
        {"id": 2, "note": "x"},
        None,
        {"id": 3, "note": "none"},
    ]
    found, _ = columns.decode(binary(old[0]))  # the columns stay: they do not follow older rows
    assert found.to_pylist() == [{"id": 1, "note": "none"}]
    assert columns.type == found.type


def test_a_given_schema_keeps_the_columns_when_newer_rows_come(client: RegistryClient) -> None:
    new = serialized(client, "given", order("id", "more", note="none"), {"id": 2, "more": 5, "note": "x"})
    columns = AvroColumns(client, order("id"))
    found, bad = columns.decode(binary(*new))
    assert bad == {} and found.to_pylist() == [{"id": 2}]


def test_rows_without_a_known_schema_are_bad_and_the_others_are_read(client: RegistryClient) -> None:
    (good,) = serialized(client, "unknown", order("id"), {"id": 1})
    found, bad = AvroColumns(client).decode(binary(b"\1abcdef", good, prefix(987_654) + b"\2", b"", good[:5]))
    assert found.to_pylist() == [None, {"id": 1}, None, None, None]
    assert list(bad) == [0, 2, 3, 4]
    assert "begins with byte 1" in bad[0]
    assert "987654" in bad[2] or "not found" in bad[2].lower()
    assert "ends too early" in bad[4]


def test_a_schema_that_does_not_resolve_makes_its_rows_bad(client: RegistryClient) -> None:
    old = serialized(client, "unresolved", order("id"), {"id": 1})
    found, bad = AvroColumns(client, order("id", "added")).decode(binary(*old, None))
    assert found.to_pylist() == [None, None] and list(bad) == [0]
    assert "field added" in bad[0]


def test_a_registry_that_is_not_there_is_an_error_not_a_bad_row() -> None:
    with Registry() as gone, RegistryClient({"url": gone.url, "max.retries": 0}) as client:
        values = serialized(client, "gone", order("id"), {"id": 1})
        url = gone.url
        gone.close()
        with RegistryClient({"url": url, "max.retries": 0}) as other, pytest.raises(RegistryError) as error:
            AvroColumns(other).decode(binary(*values))
        assert error.value.status == 0


def test_what_is_encoded_other_deserializers_read(client: RegistryClient) -> None:
    columns = AvroColumns(client, order("id", note="none"))
    values, bad = columns.encode(pa.array([{"id": 7}, None, {"id": None}]), "encoded")
    assert bad == {2: "field id: null for a required value"}
    read = AvroDeserializer(client)
    assert [None if one is None else read.deserialize("encoded", one) for one in values.to_pylist()] == [
        {"id": 7, "note": "none"},
        None,
        None,
    ]
    assert client.versions("encoded-value") == [1]


def test_without_schema_the_latest_of_the_subject_is_written(client: RegistryClient) -> None:
    client.register("latest-value", Schema(order("id")))
    values, _ = AvroColumns(client).encode(pa.array([{"id": 7}]), "latest")
    assert AvroDeserializer(client).deserialize("latest", values[0].as_py()) == {"id": 7}
    with pytest.raises(RegistryError, match=r"(?i)not found"):
        AvroColumns(client).encode(pa.array([{"id": 7}]), "nowhere")


def test_a_schema_of_another_type_is_refused(client: RegistryClient) -> None:
    with pytest.raises(SchemaError, match="JSON, not AVRO"):
        AvroColumns(client, Schema("{}", SchemaType.JSON)).encode(pa.array([{"id": 7}]), "json")
