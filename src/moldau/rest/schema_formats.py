"""Keys and values with a schema: Avro, JSON Schema and Protobuf, written and read by way of the schema registry.

The JSON of Avro is that of its specification (a union is `{"string": "x"}`), the JSON of Protobuf is Protobuf's own.
The client of the registry blocks: what may need a request runs in a thread, what is known already does not.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from moldau.host.threads import Threads
from moldau.rest.avro_json import avro_from_json, avro_to_json
from moldau.rest.errors import BAD_SCHEMA, CONVERSION, RETRY_AFTER, TRY_AGAIN, ProxyError, bad_request, unprocessable
from moldau.rest.record_formats import RecordFormat
from moldau.schemas.avro.avro_schema import AvroSchema
from moldau.schemas.errors import InvalidSchema, RegistryError, SchemaError
from moldau.schemas.registry_client import RegistryClient
from moldau.schemas.schema import RegisteredSchema, Schema, SchemaType
from moldau.schemas.serializers.avro_serializer import AvroDeserializer, AvroSerializer
from moldau.schemas.serializers.json_schema_serializer import JsonSchemaDeserializer, JsonSchemaSerializer
from moldau.schemas.serializers.protobuf_serializer import ProtobufDeserializer, ProtobufSerializer
from moldau.schemas.serializers.schema_deserializer import SchemaDeserializer
from moldau.schemas.serializers.schema_serializer import SchemaSerializer
from moldau.schemas.serializers.subject_names import subject_name_strategy
from moldau.schemas.wire_format import split

SCHEMA_FIELDS: Final = ("schema", "schema_id", "schema_version", "subject", "subject_name_strategy")
TYPES: Final = {
    RecordFormat.AVRO: SchemaType.AVRO,
    RecordFormat.JSONSCHEMA: SchemaType.JSON,
    RecordFormat.PROTOBUF: SchemaType.PROTOBUF,
}
FORMATS: Final = {kind: found for found, kind in TYPES.items()}
THREADS: Final = 8
"""Requests to the registry at the same time."""
LANE: Final = "registry"
CLOSE_TIMEOUT_S: Final = 2.0
MAX_KNOWN: Final = 10_000
"""Schemas that are remembered; then all are forgotten."""


class SchemaFormats:
    """Writes and reads keys and values with a schema. Errors are ProxyErrors."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """`settings` are those of the registry's client. SettingError: one is wrong."""
        self._registry = RegistryClient(settings)
        self._threads = Threads(THREADS, per_lane=THREADS)
        self._serializers: dict[tuple[int, bool], SchemaSerializer] = {}
        self._deserializers: dict[tuple[RecordFormat, bool], SchemaDeserializer] = {}
        self._chosen: dict[tuple[Any, ...], RegisteredSchema] = {}
        self._warm: set[tuple[Any, ...]] = set()
        """What needs no request: (topic, part, id) to write, (format, part, id) to read."""

    async def close(self) -> None:
        self._registry.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._threads.close()

    # -- writing -------------------------------------------------------------------------------------------------------

    async def encoded(
        self, topic: str, part: str, kind: RecordFormat | None, given: Mapping[str, Any]
    ) -> tuple[str, bytes | None]:
        """The format and the bytes of the field `data`. `given` says which schema it has."""
        data = given.get("data")
        number = given.get("schema_id")
        if isinstance(number, int) and (topic, part, kind, number) in self._warm:
            return self._write(topic, part, kind, self._chosen[(number,)], data)
        chosen = await self._called(self._choose, topic, part, kind, given)
        found: tuple[str, bytes | None] = await self._called(self._write, topic, part, kind, chosen, data)
        if isinstance(number, int):
            self._remember((topic, part, kind, number))
            self._chosen[(number,)] = chosen
        return found

    async def registered(self, topic: str, part: str, kind: RecordFormat, text: str) -> int:
        """The id of a schema that is given as text. It is registered for the topic."""
        chosen = await self._called(self._choose, topic, part, kind, {"schema": text})
        return int(chosen.id)

    def _choose(self, topic: str, part: str, kind: RecordFormat | None, given: Mapping[str, Any]) -> RegisteredSchema:
        """The schema that a request names: by id, by text, by a version of a subject, or the latest of the subject."""
        number, text, version = given.get("schema_id"), given.get("schema"), given.get("schema_version")
        if number is not None:
            return RegisteredSchema(
                _number(number, "schema_id"), self._registry.get_schema(_number(number, "schema_id"))
            )
        if text is not None:
            if kind is None or not isinstance(text, str):
                raise bad_request(f"{part}: a schema is a text, and needs a type: AVRO, JSONSCHEMA or PROTOBUF")
            schema = Schema(text, TYPES[kind])
            return self._registry.register(self._subject(topic, part, given, schema), schema)
        subject = self._subject(topic, part, given, None)
        if version is not None:
            return self._registry.version(subject, _number(version, "schema_version"))
        return self._registry.latest(subject)

    def _subject(self, topic: str, part: str, given: Mapping[str, Any], schema: Schema | None) -> str:
        subject, strategy = given.get("subject"), given.get("subject_name_strategy")
        if subject is not None:
            if not isinstance(subject, str) or not subject:
                raise bad_request(f"{part}/subject: is no text")
            return subject
        if strategy is None or strategy == "TOPIC_NAME":
            return f"{topic}-{part}"
        if strategy not in ("RECORD_NAME", "TOPIC_RECORD_NAME"):
            raise bad_request(f"{part}/subject_name_strategy: {strategy!r} is not known")
        parsed: Any = None if schema is None else self._registry.parsed(schema)
        name = getattr(parsed, "name", None)
        if name is None and hasattr(parsed, "message_descriptor"):
            name = parsed.message_descriptor().full_name
        found = subject_name_strategy(strategy.removesuffix("_NAME"))
        return found(topic, part == "key", name)

    def _write(
        self, topic: str, part: str, kind: RecordFormat | None, chosen: RegisteredSchema, data: Any
    ) -> tuple[str, bytes | None]:
        found = FORMATS[chosen.schema.type]
        if kind is not None and kind is not found:
            raise unprocessable(f"schema {chosen.id} is {found}, not {kind}", CONVERSION)
        if data is None:
            return found, None
        if found is RecordFormat.AVRO:
            data = avro_from_json(self._avro(chosen.schema), data)
        serializer = self._serializers.get((chosen.id, part == "key"))
        if serializer is None:
            serializer = _serializer(found, self._registry, chosen.id, part == "key")
            if len(self._serializers) >= MAX_KNOWN:
                self._serializers.clear()
            self._serializers[chosen.id, part == "key"] = serializer
        return found, serializer.serialize(topic, data)

    # -- reading -------------------------------------------------------------------------------------------------------

    async def decoded(self, topic: str, part: str, kind: RecordFormat, data: bytes) -> Any:
        """The JSON value of the bytes of a record."""
        try:
            number = split(data)[0]
        except SchemaError as error:
            raise unprocessable(f"the {part}: {error}", CONVERSION) from None
        known = (kind, part, number)
        if known in self._warm:
            return self._read(topic, part, kind, number, data)
        found = await self._called(self._read, topic, part, kind, number, data)
        self._remember(known)
        return found

    def _read(self, topic: str, part: str, kind: RecordFormat, number: int, data: bytes) -> Any:
        try:
            found = self._deserializer(kind, part).deserialize(topic, data)
            if kind is not RecordFormat.AVRO:
                return found
            return avro_to_json(self._avro(self._registry.get_schema(number)), found)
        except SchemaError as error:
            raise proxy_error(error) from None

    def _deserializer(self, kind: RecordFormat, part: str) -> SchemaDeserializer:
        found = self._deserializers.get((kind, part == "key"))
        if found is None:
            found = _deserializer(kind, self._registry, part == "key")
            self._deserializers[kind, part == "key"] = found
        return found

    # -- own parts -----------------------------------------------------------------------------------------------------

    def _avro(self, schema: Schema) -> AvroSchema:
        parsed: Any = self._registry.parsed(schema)
        found: AvroSchema = parsed
        return found

    def _remember(self, known: tuple[Any, ...]) -> None:
        if len(self._warm) >= MAX_KNOWN:
            self._warm.clear()
            self._chosen.clear()
        self._warm.add(known)

    async def _called(self, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return await self._threads.run(LANE, call, *arguments)
        except SchemaError as error:
            raise proxy_error(error) from None


def proxy_error(error: SchemaError) -> ProxyError:
    """The answer to a request that failed because of a schema, of data, or of the registry."""
    if isinstance(error, RegistryError) and (error.status == 0 or error.status >= 500):
        return ProxyError(503, TRY_AGAIN, str(error), RETRY_AFTER)
    if isinstance(error, RegistryError | InvalidSchema):
        return unprocessable(str(error), BAD_SCHEMA)
    return unprocessable(str(error), CONVERSION)


def _number(given: Any, name: str) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or not 0 <= given < 1 << 31:
        raise bad_request(f"{name}: is no number from 0 to 2147483647")
    return given


def _serializer(kind: RecordFormat, registry: RegistryClient, number: int, is_key: bool) -> SchemaSerializer:
    if kind is RecordFormat.AVRO:
        return AvroSerializer(registry, use_id=number, is_key=is_key)
    if kind is RecordFormat.JSONSCHEMA:
        return JsonSchemaSerializer(registry, use_id=number, is_key=is_key)
    return ProtobufSerializer(registry, use_id=number, is_key=is_key)


def _deserializer(kind: RecordFormat, registry: RegistryClient, is_key: bool) -> SchemaDeserializer:
    if kind is RecordFormat.AVRO:
        return AvroDeserializer(registry, is_key=is_key, return_record_name=True)
    if kind is RecordFormat.JSONSCHEMA:
        return JsonSchemaDeserializer(registry, is_key=is_key)
    return ProtobufDeserializer(registry, is_key=is_key, as_dict=True)
