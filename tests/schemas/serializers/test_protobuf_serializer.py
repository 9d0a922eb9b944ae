"""Protobuf serializers: generated classes and texts, references, paths of message types; confluent-kafka as judge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    SchemaRegistryClient,
    header_schema_id_serializer,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
    topic_subject_name_strategy,
)
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer as TheirDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer as TheirSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from moldau.schemas import (
    ProtobufDeserializer,
    ProtobufSerializer,
    RegistryClient,
    Schema,
    SchemaError,
    SchemaType,
)
from moldau.testing import Registry
from tests.schemas.serializers.proto_classes import message_classes

STRATEGIES = {
    "topic": (topic_subject_name_strategy, "orders-value"),
    "record": (record_subject_name_strategy, "shop.Order"),
    "topic-record": (topic_record_subject_name_strategy, "orders-shop.Order"),
}
CONTEXT = SerializationContext("orders", MessageField.VALUE)
POINT = 'syntax = "proto3"; message Unused { int32 n = 1; } message Point { int32 x = 1; repeated string tags = 2; }'


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return message_classes(tmp_path_factory.mktemp("protos"))


@pytest.fixture
def theirs(registry: Registry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as found:
        yield found


def order(classes: dict[str, Any]) -> Any:
    message = classes["Order"](id=-7, note="schön", prices={"tea": 4.5}, state=1, checksum=b"\0\xff", card="visa")
    message.lines.add(article="tea", count=2)
    message.at.FromJsonString("2026-11-18T15:30:00.250Z")
    message.total.currency, message.total.cents = "CZK", -5
    return message


def test_messages_of_either_are_read_by_the_other(
    client: RegistryClient, theirs: SchemaRegistryClient, classes: dict[str, Any]
) -> None:
    value = order(classes)
    ours = ProtobufSerializer(client).serialize("orders", value)
    assert client.subjects() == ["orders-value", "shop/common.proto"]
    written = TheirSerializer(classes["Order"], theirs)(value, CONTEXT)
    assert written == ours, "the same schema, the same id, the same bytes"
    assert client.versions("orders-value") == client.versions("shop/common.proto") == [1]
    assert TheirDeserializer(classes["Order"], {}, theirs)(ours, CONTEXT) == value
    assert ProtobufDeserializer(client, classes["Order"]).deserialize("orders", written) == value


def test_what_they_register_we_read_without_a_class(
    client: RegistryClient, theirs: SchemaRegistryClient, classes: dict[str, Any]
) -> None:
    written = TheirSerializer(classes["Order"], theirs)(order(classes), CONTEXT)
    assert written is not None
    message = ProtobufDeserializer(client).deserialize("orders", written)
    assert message.DESCRIPTOR.full_name == "shop.Order"
    assert (message.id, message.total.cents, message.WhichOneof("payment")) == (-7, -5, "card")
    as_dict = ProtobufDeserializer(client, as_dict=True).deserialize("orders", written)
    assert as_dict["lines"] == [{"article": "tea", "count": 2}] and as_dict["at"] == "2026-11-18T15:30:00.250Z"


@pytest.mark.parametrize("name", ["Customer", "Order.Line", "Customer.Address", "Customer.Address.Country"])
def test_the_path_of_a_message_type_is_the_same(
    client: RegistryClient, theirs: SchemaRegistryClient, classes: dict[str, Any], name: str
) -> None:
    value = classes[name]()
    value.ParseFromString(b"\x0a\x01x")  # field 1 of each of them is a text
    ours = ProtobufSerializer(client).serialize("orders", value)
    assert TheirSerializer(classes[name], theirs)(value, CONTEXT) == ours
    assert TheirDeserializer(classes[name], {}, theirs)(ours, CONTEXT) == value
    assert ProtobufDeserializer(client).deserialize("orders", ours).DESCRIPTOR.full_name == f"shop.{name}"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_subjects_are_the_same(
    client: RegistryClient, theirs: SchemaRegistryClient, classes: dict[str, Any], strategy: str
) -> None:
    their_strategy, subject = STRATEGIES[strategy]
    ours = ProtobufSerializer(client, subject_name=strategy).serialize("orders", order(classes))
    assert client.subjects() == sorted([subject, "shop/common.proto"])
    conf = {"subject.name.strategy": their_strategy}
    assert TheirSerializer(classes["Order"], theirs, conf=conf)(order(classes), CONTEXT) == ours
    assert client.subjects() == sorted([subject, "shop/common.proto"])


def test_ids_and_paths_in_headers_are_the_same(
    client: RegistryClient, theirs: SchemaRegistryClient, classes: dict[str, Any]
) -> None:
    headers: list[tuple[str, bytes]] = []
    ours = ProtobufSerializer(client, id_in_header=True).serialize("orders", order(classes), headers)
    their_headers: list[tuple[str, bytes]] = []
    context = SerializationContext("orders", MessageField.VALUE, their_headers)
    conf = {"schema.id.serializer": header_schema_id_serializer}
    written = TheirSerializer(classes["Order"], theirs, conf=conf)(order(classes), context)
    assert (written, their_headers) == (ours, headers)
    assert TheirDeserializer(classes["Order"], {}, theirs)(ours, context) == order(classes)
    assert ProtobufDeserializer(client, classes["Order"]).deserialize("orders", ours, headers) == order(classes)


def test_dicts_have_the_schema_that_is_given(client: RegistryClient) -> None:
    serializer = ProtobufSerializer(client, "Point", schema=POINT)
    data = serializer.serialize("points", {"x": 3, "tags": ["a", "b"]})
    assert data is not None and data[5:7] == b"\x02\x02", "the path [1]"
    assert ProtobufDeserializer(client, as_dict=True).deserialize("points", data) == {"x": 3, "tags": ["a", "b"]}
    with pytest.raises(SchemaError, match=r"value for topic 'points' .* schema 1 of subject 'points-value'.*y"):
        serializer.serialize("points", {"y": 3})
    with pytest.raises(SchemaError, match="neither a message nor a dict"):
        serializer.serialize("points", "x=3")


def test_dicts_may_have_the_latest_schema(client: RegistryClient) -> None:
    client.register("points-value", Schema(POINT, SchemaType.PROTOBUF))
    data = ProtobufSerializer(client, "Point").serialize("points", {"x": 3})
    assert ProtobufDeserializer(client, as_dict=True).deserialize("points", data) == {"x": 3}


def test_a_message_type_that_the_schema_does_not_have_is_an_error(
    client: RegistryClient, classes: dict[str, Any]
) -> None:
    with pytest.raises(SchemaError, match='no message "Line"'):
        ProtobufSerializer(client, "Line", schema=POINT).serialize("points", {"x": 3})
    serializer = ProtobufSerializer(client, schema=POINT)
    with pytest.raises(SchemaError, match=r"shop\.Order"):
        serializer.serialize("points", order(classes))


def test_a_class_for_another_message_type_is_an_error(client: RegistryClient, classes: dict[str, Any]) -> None:
    data = ProtobufSerializer(client).serialize("orders", order(classes))
    with pytest.raises(SchemaError, match=r"shop\.Order, not shop\.Customer"):
        ProtobufDeserializer(client, classes["Customer"]).deserialize("orders", data)


@pytest.mark.parametrize(
    "rest", [b"", b"\x02", b"\x02\x12", b"\x02\x01", b"\x05\x00", b"\x00\x0a\x05ab", b"\x00\xff", b"\xff" * 12]
)
def test_damaged_data_is_an_error(client: RegistryClient, rest: bytes) -> None:
    schema_id = client.register("points-value", Schema(POINT, SchemaType.PROTOBUF)).id
    with pytest.raises(SchemaError, match="topic 'points'"):
        ProtobufDeserializer(client).deserialize("points", b"\0" + schema_id.to_bytes(4) + rest)


def test_a_newer_schema_is_read_with_an_older_class(client: RegistryClient, classes: dict[str, Any]) -> None:
    newer = 'syntax = "proto3"; package shop; message Money { string currency = 1; sint64 cents = 2; bool gift = 3; }'
    data = ProtobufSerializer(client, schema=newer).serialize("prices", {"currency": "EUR", "cents": 7, "gift": True})
    found = ProtobufDeserializer(client, classes["Money"]).deserialize("prices", data)
    assert (found.currency, found.cents) == ("EUR", 7)
