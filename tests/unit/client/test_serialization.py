"""Serialisers and deserialisers: round trips, and the bytes of Java's serialisers."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from moldau.client.errors import ConfigurationError
from moldau.client.serialization import deserializer_of, serializer_of, takes_headers

AN_ID = UUID("123e4567-e89b-12d3-a456-426614174000")


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("str", "Vltava, čistá", "Vltava, čistá".encode()),
        ("int", 258, b"\0\0\0\0\0\0\1\2"),
        ("int64", -1, b"\xff" * 8),
        ("int32", 258, b"\0\0\1\2"),
        ("int16", -2, b"\xff\xfe"),
        ("float", 1.0, b"\x3f\xf0\0\0\0\0\0\0"),
        ("float32", 1.0, b"\x3f\x80\0\0"),
        ("uuid", AN_ID, b"123e4567-e89b-12d3-a456-426614174000"),
        ("json", {"a": [1, "č"]}, '{"a":[1,"č"]}'.encode()),
    ],
)
def test_serialised_data_equals_kafkas_bytes_and_is_read_back(name: str, data: Any, expected: bytes) -> None:
    serialize, deserialize = serializer_of("value.serializer", name), deserializer_of("value.deserializer", name)
    assert serialize is not None and deserialize is not None
    assert serialize("t", data) == expected
    assert deserialize("t", expected) == data
    assert deserialize("t", memoryview(expected)) == data
    assert serialize("t", None) is None


@pytest.mark.parametrize("given", [None, "bytes", bytes, "org.apache.kafka.common.serialization.ByteArraySerializer"])
def test_bytes_need_no_serialiser(given: object) -> None:
    assert serializer_of("key.serializer", given) is None


@pytest.mark.parametrize(
    ("given", "data", "expected"),
    [
        (str, "a", b"a"),
        (int, 1, b"\0\0\0\0\0\0\0\1"),
        ("org.apache.kafka.common.serialization.IntegerSerializer", 1, b"\0\0\0\1"),
        ("StringSerializer", "a", b"a"),
        (lambda text: text.upper().encode(), "a", b"A"),
    ],
)
def test_serialisers_are_given_in_many_ways(given: object, data: Any, expected: bytes) -> None:
    serialize = serializer_of("value.serializer", given)
    assert serialize is not None and serialize("t", data) == expected


class Named:
    """An object with the methods of Java's interface."""

    def serialize(self, topic: str, data: str) -> bytes:
        return f"{topic}:{data}".encode()

    def deserialize(self, topic: str, data: bytes) -> str:
        return f"{topic}:{bytes(data).decode()}"


class Signed:
    """An object that reads and writes headers, and has another form for keys."""

    def __init__(self, part: str = "value") -> None:
        self.part = part

    def for_keys(self) -> Signed:
        return Signed("key")

    def serialize(self, topic: str, data: str, headers: list[tuple[str, bytes]]) -> bytes:
        headers.append((self.part, b"signed"))
        return data.encode()

    def deserialize(self, topic: str, data: bytes, headers: list[tuple[str, bytes]] | None = None) -> str:
        return f"{self.part} {headers}"


def test_headers_are_for_those_who_ask_for_them() -> None:
    signed = serializer_of("value.serializer", Signed())
    assert takes_headers(signed) and takes_headers(deserializer_of("value.deserializer", Signed))
    for given in ("str", "json", "int", Named(), lambda value: value):
        assert not takes_headers(serializer_of("value.serializer", given))
    assert not takes_headers(None)


def test_an_object_is_asked_for_its_form_for_keys() -> None:
    headers: list[tuple[str, bytes]] = []
    for part in ("key", "value"):
        serialize = serializer_of(f"{part}.serializer", Signed())
        deserialize = deserializer_of(f"{part}.deserializer", Signed())
        assert serialize is not None and deserialize is not None
        serialize("t", "a", headers)
        assert deserialize("t", b"", None) == f"{part} None"
    assert headers == [("key", b"signed"), ("value", b"signed")]


@pytest.mark.parametrize("given", [Named, Named()])
def test_a_custom_serialiser_gets_the_topic(given: object) -> None:
    serialize, deserialize = serializer_of("value.serializer", given), deserializer_of("value.deserializer", given)
    assert serialize is not None and deserialize is not None
    assert serialize("t", "a") == b"t:a"
    assert deserialize("t", b"a") == "t:a"


@pytest.mark.parametrize(("name", "data"), [("str", b"a"), ("int", "1"), ("int", True), ("uuid", "x"), ("float", "1")])
def test_data_of_another_kind_is_refused(name: str, data: Any) -> None:
    serialize = serializer_of("value.serializer", name)
    assert serialize is not None
    with pytest.raises(TypeError, match="expected"):
        serialize("t", data)


@pytest.mark.parametrize("given", ["strng", 17])
def test_an_invalid_serialiser_is_reported(given: object) -> None:
    with pytest.raises(ConfigurationError, match=r"value\.serializer"):
        serializer_of("value.serializer", given)
    with pytest.raises(ConfigurationError, match=r"value\.deserializer"):
        deserializer_of("value.deserializer", given)


@pytest.mark.parametrize("name", ["int", "int32", "float", "uuid", "json"])
def test_bytes_that_cannot_be_read_are_an_error(name: str) -> None:
    deserialize = deserializer_of("value.deserializer", name)
    assert deserialize is not None
    with pytest.raises(ValueError, match=r".*"):
        deserialize("t", b"{")
