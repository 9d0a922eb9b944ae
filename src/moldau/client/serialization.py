"""Serializers and deserializers: conversion between Python values and the bytes of records.

Each is a function of (topic, data). Settings accept a name ("str"), a Python type (`str`), the name of Kafka's class
(`org.apache.kafka.common.serialization.StringSerializer`), a callable with one argument, or an object with a method
`serialize(topic, data)` or `deserialize(topic, data)`. None stays None: it is a tombstone, not a value.

A method with a third parameter `headers` gets the headers of the record, a list of pairs, that a serializer may change.
An object with a method `for_keys()` is asked for its form for keys. The names "avro", "json-schema" and "protobuf"
stand for the serializers of `moldau.schemas`, with the registry of `schema.registry.url`.

The bytes are those of Kafka's Java serializers: text in UTF-8, numbers big-endian (`int` has eight bytes like Java's
long; "int32" and "int16" are its int and short; `float` is its double), UUIDs as text.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from uuid import UUID

from moldau.client.errors import ConfigurationError

if TYPE_CHECKING:
    from moldau.client.settings import ClientSettings

Serializer = Callable[..., bytes | bytearray | memoryview | None]
"""(topic, data), and headers if `takes_headers` says so."""
Deserializer = Callable[..., Any]
"""(topic, data), and headers if `takes_headers` says so."""

T = TypeVar("T")

_INT64: Final = Struct(">q")
_INT32: Final = Struct(">i")
_INT16: Final = Struct(">h")
_DOUBLE: Final = Struct(">d")
_FLOAT: Final = Struct(">f")


# -- serializers


def bytes_serializer(topic: str, data: Any) -> bytes | bytearray | memoryview | None:
    if data is None or isinstance(data, bytes | bytearray | memoryview):
        return data
    raise TypeError(f"expected bytes, got {type(data).__name__}; set a serializer, for example value_serializer='json'")


def str_serializer(topic: str, data: Any) -> bytes | None:
    if data is None:
        return None
    if not isinstance(data, str):
        raise TypeError(f"expected a str, got {type(data).__name__}")
    return data.encode()


def uuid_serializer(topic: str, data: Any) -> bytes | None:
    if data is None:
        return None
    if not isinstance(data, UUID):
        raise TypeError(f"expected a uuid.UUID, got {type(data).__name__}")
    return str(data).encode()


def json_serializer(topic: str, data: Any) -> bytes | None:
    if data is None:
        return None
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()


def _number_serializer(form: Struct, kind: type) -> Serializer:
    def serialize(topic: str, data: Any) -> bytes | None:
        if data is None:
            return None
        if isinstance(data, bool) or not isinstance(data, kind | int):
            raise TypeError(f"expected a number ({kind.__name__}), got {type(data).__name__}")
        return form.pack(data)

    return serialize


# -- deserializers


def bytes_deserializer(topic: str, data: memoryview | bytes) -> bytes:
    return bytes(data)


def str_deserializer(topic: str, data: memoryview | bytes) -> str:
    return str(data, "utf-8")


def uuid_deserializer(topic: str, data: memoryview | bytes) -> UUID:
    return UUID(str(data, "ascii"))


def json_deserializer(topic: str, data: memoryview | bytes) -> Any:
    return json.loads(bytes(data))


def _number_deserializer(form: Struct) -> Deserializer:
    def deserialize(topic: str, data: memoryview | bytes) -> Any:
        if len(data) != form.size:
            raise ValueError(f"expected {form.size} bytes, got {len(data)}")
        return form.unpack(data)[0]

    return deserialize


# -- names

_SERIALIZERS: Final[dict[str, Serializer]] = {
    "bytes": bytes_serializer,
    "str": str_serializer,
    "int": _number_serializer(_INT64, int),
    "int64": _number_serializer(_INT64, int),
    "int32": _number_serializer(_INT32, int),
    "int16": _number_serializer(_INT16, int),
    "float": _number_serializer(_DOUBLE, float),
    "float32": _number_serializer(_FLOAT, float),
    "uuid": uuid_serializer,
    "json": json_serializer,
}

_DESERIALIZERS: Final[dict[str, Deserializer]] = {
    "bytes": bytes_deserializer,
    "str": str_deserializer,
    "int": _number_deserializer(_INT64),
    "int64": _number_deserializer(_INT64),
    "int32": _number_deserializer(_INT32),
    "int16": _number_deserializer(_INT16),
    "float": _number_deserializer(_DOUBLE),
    "float32": _number_deserializer(_FLOAT),
    "uuid": uuid_deserializer,
    "json": json_deserializer,
}

_JAVA_NAMES: Final = {
    "ByteArray": "bytes",
    "Bytes": "bytes",
    "ByteBuffer": "bytes",
    "String": "str",
    "Long": "int64",
    "Integer": "int32",
    "Short": "int16",
    "Double": "float",
    "Float": "float32",
    "UUID": "uuid",
}
_WITH_REGISTRY: Final = {"KafkaAvro": "avro", "KafkaJsonSchema": "json-schema", "KafkaProtobuf": "protobuf"}
_TYPE_NAMES: Final = {bytes: "bytes", bytearray: "bytes", str: "str", int: "int", float: "float", UUID: "uuid"}


def serializer_of(setting: str, given: object, settings: ClientSettings | None = None) -> Serializer | None:
    """Return the serializer for the value of a setting; None for bytes, which need no conversion.

    `settings` are those of the client, for serializers with a registry.
    """
    if given is None or given in ("bytes", bytes) or _java_name(given, "Serializer") == "bytes":
        return None
    if settings is not None and (kind := _with_registry(given, "Serializer")) is not None:
        from moldau.client.registry_serialization import registry_serializer

        given = registry_serializer(kind, setting, settings)
    found = _named(setting, given, _SERIALIZERS, "Serializer")
    if found is not None:
        return found
    made = _for_part(setting, given() if isinstance(given, type) else given)
    method = getattr(made, "serialize", None)
    if callable(method):
        return cast(Serializer, method)
    if not callable(made):
        raise ConfigurationError(f"{setting}: {given!r} is not callable and has no method `serialize`")
    plain = cast("Callable[[Any], bytes]", made)
    return lambda topic, data: None if data is None else plain(data)


def deserializer_of(setting: str, given: object, settings: ClientSettings | None = None) -> Deserializer | None:
    """Return the deserializer for the value of a setting; None for bytes, which need no conversion.

    `settings` are those of the client, for deserializers with a registry.
    """
    if given is None or given in ("bytes", bytes) or _java_name(given, "Deserializer") == "bytes":
        return None
    if settings is not None and (kind := _with_registry(given, "Deserializer")) is not None:
        from moldau.client.registry_serialization import registry_deserializer

        given = registry_deserializer(kind, setting, settings)
    found = _named(setting, given, _DESERIALIZERS, "Deserializer")
    if found is not None:
        return found
    made = _for_part(setting, given() if isinstance(given, type) else given)
    method = getattr(made, "deserialize", None)
    if callable(method):
        return cast(Deserializer, method)
    if not callable(made):
        raise ConfigurationError(f"{setting}: {given!r} is not callable and has no method `deserialize`")
    plain = cast("Callable[[Any], Any]", made)
    return lambda topic, data: plain(data)


def takes_headers(function: Serializer | Deserializer | None) -> bool:
    """Whether a serializer or deserializer has a third parameter `headers`."""
    if function is None:
        return False
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code is not None and "headers" in code.co_varnames[: code.co_argcount]


def _for_part(setting: str, made: object) -> object:
    """A serializer for keys, if the setting is one of keys and the object makes a difference."""
    for_keys = getattr(made, "for_keys", None) if setting.startswith("key.") else None
    return for_keys() if callable(for_keys) else made


def _with_registry(given: object, suffix: str) -> str | None:
    """ "avro", "json-schema" or "protobuf", by that name or by the name of Confluent's class."""
    if not isinstance(given, str):
        return None
    short = given.rpartition(".")[2]
    return short if short in _WITH_REGISTRY.values() else _WITH_REGISTRY.get(short.removesuffix(suffix))


def _named(setting: str, given: object, table: dict[str, T], suffix: str) -> T | None:
    name = _TYPE_NAMES.get(given) if isinstance(given, type) else None
    if name is None:
        name = _java_name(given, suffix)
    if name is None and isinstance(given, str):
        if given not in table:
            known = ", ".join((*table, *_WITH_REGISTRY.values()))
            raise ConfigurationError(f"{setting}: {given!r} is not known; give one of {known}, or a callable")
        name = given
    return None if name is None else table[name]


def _java_name(given: object, suffix: str) -> str | None:
    """Return our name for a class of Kafka: "int64" for `org.apache.kafka.common.serialization.LongSerializer`."""
    if not isinstance(given, str):
        return None
    short = given.rpartition(".")[2]
    return _JAVA_NAMES.get(short.removesuffix(suffix)) if short.endswith(suffix) else None


SERIALIZATION_FAILURES: Final = (TypeError, ValueError, StructError, LookupError, AttributeError, ArithmeticError)
"""The errors of custom serializers that become SerializationError. Others are bugs and are raised unchanged."""
