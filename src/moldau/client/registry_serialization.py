"""Serializers with a schema registry from the settings of a client: `value_serializer="avro"`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from moldau.client.errors import ConfigurationError
from moldau.client.settings.schemas import REGISTRY
from moldau.schemas.registry_client import RegistryClient
from moldau.schemas.registry_settings import registry_settings
from moldau.settings.setting import SettingError

if TYPE_CHECKING:
    from moldau.client.settings import ClientSettings
    from moldau.schemas.serializers.schema_deserializer import SchemaDeserializer
    from moldau.schemas.serializers.schema_serializer import SchemaSerializer

ID_PLACES = {
    "prefix": False,
    "PrefixSchemaIdSerializer": False,
    "header": True,
    "HeaderSchemaIdSerializer": True,
}
"""Names of the place of a schema id, and whether it is in a header."""


def registry_serializer(kind: str, setting: str, settings: ClientSettings) -> SchemaSerializer:
    """The serializer of a kind ("avro") for a setting ("key.serializer"). Raises ConfigurationError."""
    arguments = serializer_arguments(setting.partition(".")[0], settings)
    if kind == "json-schema":
        arguments["validate"] = settings["json.fail.invalid.schema"]
    try:
        return _serializer_class(kind)(registry_client(setting, settings), **arguments)
    except ValueError as error:  # an unknown strategy, a schema of another type
        raise ConfigurationError(f"{setting}: {error}") from None


def serializer_arguments(part: str, settings: ClientSettings) -> dict[str, Any]:
    """The arguments of a serializer for the "key" or the "value". Raises ConfigurationError."""
    use_id: int = settings["use.schema.id"]
    return {
        "schema": settings[f"{part}.schema"] or None,
        "is_key": part == "key",
        "auto_register": settings["auto.register.schemas"],
        "use_latest": True if settings["use.latest.version"] else None,
        "use_id": None if use_id < 0 else use_id,
        "latest_strict": settings["latest.compatibility.strict"],
        "normalize": settings["normalize.schemas"],
        "id_in_header": _id_in_header(f"{part}.schema.id.serializer", settings),
        "subject_name": settings[f"{part}.subject.name.strategy"],
    }


def registry_deserializer(kind: str, setting: str, settings: ClientSettings) -> SchemaDeserializer:
    """The deserializer of a kind ("avro") for a setting ("value.deserializer"). Raises ConfigurationError."""
    part = setting.partition(".")[0]
    arguments: dict[str, Any] = {
        "is_key": part == "key",
        "use_latest": settings["use.latest.version"],
        "subject_name": settings[f"{part}.subject.name.strategy"],
    }
    if kind == "json-schema":
        arguments["validate"] = settings["json.fail.invalid.schema"]
    try:
        return _deserializer_class(kind)(registry_client(setting, settings), **arguments)
    except ValueError as error:
        raise ConfigurationError(f"{setting}: {error}") from None


def registry_client(setting: str, settings: ClientSettings) -> RegistryClient:
    """The client of `schema.registry.url`, for a setting that needs it. Raises ConfigurationError."""
    given = {one.name: settings[one.name] for one in REGISTRY if one.name in settings.given}
    try:
        return RegistryClient(registry_settings(given, resolve=False))
    except SettingError as error:
        raise ConfigurationError(f"{setting}: {error}") from None


def _id_in_header(name: str, settings: ClientSettings) -> bool:
    given = settings[name]
    place = ID_PLACES.get(str(given).rpartition(".")[2])
    if place is None:
        raise ConfigurationError(f"{name}: {given!r} is not known; give prefix or header")
    return place


def _serializer_class(kind: str) -> Callable[..., SchemaSerializer]:
    from moldau.schemas import AvroSerializer, JsonSchemaSerializer, ProtobufSerializer

    return {"avro": AvroSerializer, "json-schema": JsonSchemaSerializer, "protobuf": ProtobufSerializer}[kind]


def _deserializer_class(kind: str) -> Callable[..., SchemaDeserializer]:
    from moldau.schemas import AvroDeserializer, JsonSchemaDeserializer, ProtobufDeserializer

    return {"avro": AvroDeserializer, "json-schema": JsonSchemaDeserializer, "protobuf": ProtobufDeserializer}[kind]
