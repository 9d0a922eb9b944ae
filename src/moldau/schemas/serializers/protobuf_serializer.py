"""Protobuf serializer and deserializer.

The serializer takes messages of classes that protoc has generated: their file is the schema, and its imports are
registered as references, each under the path of its import. With a schema as text it takes dicts as well, in the form
of Protobuf's JSON mapping.

The deserializer returns messages of the class that is given; without one, of a class made from the writer's schema; or
dicts (`as_dict`).
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from moldau.schemas.errors import SchemaError
from moldau.schemas.registry_client import RegistryClient
from moldau.schemas.schema import Schema, SchemaReference, SchemaType
from moldau.schemas.serializers.schema_deserializer import Decode, SchemaDeserializer
from moldau.schemas.serializers.schema_serializer import Encode, SchemaSerializer
from moldau.schemas.wire_format import message_path, message_path_bytes

if TYPE_CHECKING:
    from google.protobuf.descriptor import FileDescriptor
    from google.protobuf.message import Message

    from moldau.schemas.protobuf.protobuf_schema import ProtobufSchema

KNOWN_FILES: Final = "google/protobuf/"
"""Files that every registry and compiler has: they are no references."""


class ProtobufSerializer(SchemaSerializer):
    """Writes Protobuf. See `SchemaSerializer` for its arguments.

    `message` is the class of the messages, or, with a schema, the name of the message type that dicts have (the first
    one of the file by default).
    """

    schema_type: ClassVar = SchemaType.PROTOBUF

    def __init__(
        self,
        registry: RegistryClient | str | Mapping[str, Any],
        message: type[Message] | str | None = None,
        *,
        schema: str | Schema | None = None,
        **others: Any,
    ) -> None:
        if others.get("use_latest") is None:
            others["use_latest"] = False  # a message has a schema of its own
        super().__init__(registry, schema, **others)
        self._message = message
        self._of_files: dict[str, Schema] = {}

    def _kind(self, data: Any) -> object:
        return _full_name(data)

    def _plain(self, data: Any) -> Any:
        return data if _full_name(data) is not None else super()._plain(data)

    def _schema_of(self, data: Any) -> Schema | None:
        if self._schema is not None:
            return self._schema
        descriptor = getattr(data, "DESCRIPTOR", None) or getattr(self._message, "DESCRIPTOR", None)
        return None if descriptor is None else self._schema_of_file(descriptor.file)

    def _record_name(self, schema: Schema, data: Any) -> str | None:
        parsed = _protobuf(self._registry, schema)
        return str(parsed.message_descriptor(self._type_name(data)).full_name)

    def _encoder(self, schema: Schema, data: Any) -> tuple[Encode, bytes]:
        parsed = _protobuf(self._registry, schema)
        name = self._type_name(data)
        full_name = parsed.message_descriptor(name).full_name
        path = message_path_bytes(parsed.message_path(full_name))
        make = parsed.message_class(full_name)
        from google.protobuf.message import EncodeError

        def encode(value: Any) -> bytes:
            message = value
            if _full_name(value) is None:
                message = _from_dict(value, make())
            elif _full_name(value) != full_name:
                raise SchemaError(f"the value is a message of type {_full_name(value)}, not {full_name}")
            try:
                return bytes(message.SerializeToString())
            except (EncodeError, ValueError) as error:
                raise SchemaError(str(error)) from None

        return encode, path

    def _type_name(self, data: Any) -> str | None:
        if (name := _full_name(data)) is not None:
            return name
        return self._message if isinstance(self._message, str) else _full_name(self._message)

    # -- schemas of generated classes ------------------------------------------------------------------------------

    def _schema_of_file(self, file: FileDescriptor) -> Schema:
        """The schema of a file, after its imports are registered."""
        found = self._of_files.get(file.name)
        if found is None:
            references = tuple(self._reference(one) for one in file.dependencies if not _is_known(one))
            serialized = Schema(b64encode(file.serialized_pb).decode(), SchemaType.PROTOBUF, references)
            # As text: people read it in the registry, and other clients parse it.
            text = _protobuf(self._registry, serialized).canonical()
            found = self._of_files[file.name] = Schema(text, SchemaType.PROTOBUF, references)
        return found

    def _reference(self, file: FileDescriptor) -> SchemaReference:
        schema = self._schema_of_file(file)
        if self._auto_register:
            self._registry.register(file.name, schema, normalize=self._normalize)
        found = self._registry.lookup(file.name, schema, normalize=self._normalize)
        assert found.version is not None
        return SchemaReference(file.name, file.name, found.version)


class ProtobufDeserializer(SchemaDeserializer):
    """Reads Protobuf. `message` is the class of the messages that it returns."""

    schema_type: ClassVar = SchemaType.PROTOBUF

    def __init__(
        self,
        registry: RegistryClient | str | Mapping[str, Any],
        message: type[Message] | None = None,
        *,
        as_dict: bool = False,
        **others: Any,
    ) -> None:
        super().__init__(registry, None, **others)
        self._message = message
        self._as_dict = as_dict

    def _path(self, rest: memoryview) -> tuple[tuple[int, ...], memoryview]:
        path, data = message_path(rest)
        return tuple(path), data

    def _record_name(self, schema: Schema, path: tuple[int, ...]) -> str | None:
        return str(_protobuf(self._registry, schema).message_descriptor(path).full_name)

    def _decoder(self, writer: Schema, reader: Schema | None, path: tuple[int, ...]) -> Decode:
        written = _protobuf(self._registry, writer).message_descriptor(path)
        from google.protobuf.message import DecodeError

        make: Any = self._message
        if make is None and reader is None:
            make = _protobuf(self._registry, writer).message_class(path)
        elif make is None:
            make = _protobuf(self._registry, reader or writer).message_class(written.full_name)
        elif make.DESCRIPTOR.full_name != written.full_name:
            raise SchemaError(f"the data is of type {written.full_name}, not {make.DESCRIPTOR.full_name}")

        def decode(data: memoryview) -> Any:
            message = make()
            try:
                message.ParseFromString(bytes(data))
            except (DecodeError, ValueError) as error:
                raise SchemaError(str(error)) from None
            return _to_dict(message) if self._as_dict else message

        return decode


def _protobuf(registry: RegistryClient, schema: Schema) -> ProtobufSchema:
    parsed: Any = registry.parsed(schema)
    found: ProtobufSchema = parsed
    return found


def _full_name(data: Any) -> str | None:
    """The full name of a message's type, or of a message class; None for everything else."""
    descriptor = getattr(data, "DESCRIPTOR", None)
    return getattr(descriptor, "full_name", None)


def _is_known(file: FileDescriptor) -> bool:
    return str(file.name).startswith(KNOWN_FILES)


def _from_dict(value: Any, message: Message) -> Message:
    from google.protobuf.json_format import ParseDict, ParseError

    if not isinstance(value, dict):
        raise SchemaError(f"the value is neither a message nor a dict but of type {type(value).__name__}")
    try:
        return ParseDict(value, message)
    except ParseError as error:
        raise SchemaError(str(error)) from None


def _to_dict(message: Message) -> dict[str, Any]:
    from google.protobuf.json_format import MessageToDict

    found: dict[str, Any] = MessageToDict(message, preserving_proto_field_name=True)
    return found
