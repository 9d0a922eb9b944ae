"""Formats of the console tools with a schema registry: lines of JSON become Avro, JSON Schema or Protobuf."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableSequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from moldau.cli.registry_options import DEFAULT_URL

if TYPE_CHECKING:
    from moldau.schemas import RegistryClient

REGISTRY_VARIABLE: Final = "MOLDAU_REGISTRY_URL"
URL_SETTING: Final = "schema.registry.url"


class DataFormat(StrEnum):
    """The format of keys or values in the topic."""

    BYTES = "bytes"
    AVRO = "avro"
    JSON_SCHEMA = "json-schema"
    PROTOBUF = "protobuf"


ValueFormatOption = Annotated[
    DataFormat,
    typer.Option("--value-format", help="The format of values in the topic. All but bytes are JSON in lines."),
]
KeyFormatOption = Annotated[DataFormat, typer.Option("--key-format", help="The format of keys in the topic.")]
SchemaOption = Annotated[
    str | None,
    typer.Option(
        "--schema",
        "--value-schema",
        metavar="FILE|TEXT",
        help="The schema of values. Without it, the latest one of the subject.",
    ),
]
KeySchemaOption = Annotated[
    str | None, typer.Option("--key-schema", metavar="FILE|TEXT", help="The schema of keys, likewise.")
]
MessageOption = Annotated[
    str | None,
    typer.Option("--message", metavar="NAME", help="The message type of values in a Protobuf schema with several."),
]
RegistryOption = Annotated[
    str | None,
    typer.Option(
        "--registry",
        envvar=REGISTRY_VARIABLE,
        metavar="URL",
        help=f"The schema registry ({DEFAULT_URL} by default).",
    ),
]


def schema_text(given: str | None) -> str | None:
    """The schema of an option: the content of a file, or the text itself. ValueError if the file is not there."""
    if given is None:
        return None
    text = given.strip()
    if text.startswith(("{", "[", '"')) or "\n" in text or ";" in text:
        return text
    try:
        return Path(given).read_text()
    except (OSError, UnicodeError) as error:
        raise ValueError(f"the schema {given!r} is no text of a schema, and no file: {error}") from None


class Formats(NamedTuple):
    """The options of a command about formats in the topic."""

    value: DataFormat = DataFormat.BYTES
    key: DataFormat = DataFormat.BYTES
    registry: str | None = None
    schema: str | None = None
    key_schema: str | None = None
    message: str | None = None

    def checked(self) -> Formats:
        """The options with the texts of schemas. ValueError if they do not belong together, or a file is not there."""
        for option, given, kind in (
            ("--schema", self.schema, self.value),
            ("--message", self.message, self.value),
            ("--key-schema", self.key_schema, self.key),
        ):
            if given is not None and kind is DataFormat.BYTES:
                needed = "--key-format" if option == "--key-schema" else "--value-format"
                raise ValueError(f"{option} needs {needed}: avro, json-schema or protobuf")
        return self._replace(schema=schema_text(self.schema), key_schema=schema_text(self.key_schema))

    def serializers(self, settings: dict[str, Any]) -> dict[str, Any]:
        """The settings `key.serializer` and `value.serializer` of a producer. Raises ConfigurationError."""
        found: dict[str, Any] = {}
        for part, kind, schema in (("value", self.value, self.schema), ("key", self.key, self.key_schema)):
            if kind is not DataFormat.BYTES:
                message = self.message if part == "value" else None
                with _configuration_errors(f"--{part}-format"):
                    found[f"{part}.serializer"] = JsonTextSerializer(
                        _registry(settings, self.registry),
                        kind,
                        schema,
                        settings,
                        is_key=part == "key",
                        message=message,
                    )
        return found

    def deserializers(self, settings: dict[str, Any]) -> dict[str, Any]:
        """The settings `key.deserializer` and `value.deserializer` of a consumer. Raises ConfigurationError."""
        found: dict[str, Any] = {}
        for part, kind in (("value", self.value), ("key", self.key)):
            if kind is not DataFormat.BYTES:
                with _configuration_errors(f"--{part}-format"):
                    found[f"{part}.deserializer"] = JsonTextDeserializer(
                        _registry(settings, self.registry), kind, settings, is_key=part == "key"
                    )
        return found


@contextmanager
def _configuration_errors(option: str) -> Iterator[None]:
    """Report an unknown subject name strategy or a wrong setting of the registry as an error of the option."""
    from moldau.client.errors import ConfigurationError

    try:
        yield
    except ValueError as error:
        raise ConfigurationError(f"{option}: {error}") from None


def _registry(settings: dict[str, Any], url: str | None) -> RegistryClient:
    """A client of the registry, with the settings `schema.registry.*` of the command."""
    from moldau.client.settings.schemas import REGISTRY
    from moldau.schemas import RegistryClient

    given = {setting.name: settings[setting.name] for setting in REGISTRY if setting.name in settings}
    if url is not None:
        given[URL_SETTING] = url
    given.setdefault(URL_SETTING, DEFAULT_URL)
    return RegistryClient(given)


class JsonTextSerializer:
    """Serializes lines of JSON."""

    def __init__(
        self,
        registry: RegistryClient,
        kind: DataFormat,
        schema: str | None,
        settings: Mapping[str, Any],
        *,
        is_key: bool,
        message: str | None = None,
    ) -> None:
        from moldau.schemas import AvroSerializer, JsonSchemaSerializer, ProtobufSerializer

        arguments = _serializer_arguments(settings, is_key)
        self._serializer: Any
        match kind:
            case DataFormat.PROTOBUF:
                self._serializer = ProtobufSerializer(registry, message, schema=schema, **arguments)
            case DataFormat.AVRO:
                self._serializer = AvroSerializer(registry, schema, from_json=True, **arguments)
            case _:
                self._serializer = JsonSchemaSerializer(registry, schema, **arguments)

    def serialize(
        self, topic: str, data: bytes | None, headers: MutableSequence[tuple[str, Any]] | None = None
    ) -> bytes | None:
        if data is None:
            return None
        try:
            value = json.loads(data)
        except ValueError as error:
            raise ValueError(f"not JSON: {error}") from None
        found: bytes | None = self._serializer.serialize(topic, value, headers)
        return found


class JsonTextDeserializer:
    """Deserializes to lines of JSON."""

    def __init__(
        self, registry: RegistryClient, kind: DataFormat, settings: Mapping[str, Any], *, is_key: bool
    ) -> None:
        from moldau.schemas import AvroDeserializer, JsonSchemaDeserializer, ProtobufDeserializer
        from moldau.schemas.avro.json_values import to_json

        arguments: dict[str, Any] = {"is_key": is_key}
        if (strategy := settings.get(_strategy_name(is_key))) is not None:
            arguments["subject_name"] = strategy
        if str(settings.get("use.latest.version", "")).lower() == "true":
            arguments["use_latest"] = True
        self._deserializer: Any
        match kind:
            case DataFormat.PROTOBUF:
                self._deserializer = ProtobufDeserializer(registry, as_dict=True, **arguments)
            case DataFormat.AVRO:
                self._deserializer = AvroDeserializer(registry, from_dict=to_json, **arguments)
            case _:
                self._deserializer = JsonSchemaDeserializer(registry, validate=False, **arguments)

    def deserialize(self, topic: str, data: bytes, headers: list[tuple[str, Any]] | None = None) -> bytes:
        value = self._deserializer.deserialize(topic, data, headers)
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _serializer_arguments(settings: Mapping[str, Any], is_key: bool) -> dict[str, Any]:
    """Arguments of a serializer, from the settings of a producer as text."""
    from moldau.client.registry_serialization import serializer_arguments
    from moldau.client.settings import PRODUCER, ClientSettings

    arguments = serializer_arguments("key" if is_key else "value", ClientSettings.of(PRODUCER, settings))
    del arguments["schema"]
    return arguments


def _strategy_name(is_key: bool) -> str:
    return f"{'key' if is_key else 'value'}.subject.name.strategy"
