"""Avro serializer and deserializer, with fastavro.

Values are dicts, lists, numbers, texts, bytes and what logical types stand for: `datetime`, `date`, `time`, `Decimal`,
`UUID`. A branch of a union that the value alone does not decide is given as a pair: ("org.example.Order", {...}).

A value is checked before it is written (`validate`): fastavro alone would cut 1.5 to an int, and write an int that
Java cannot read. A field that the schema does not have is an error, a field without value gets its default.

Values of the plain type "bytes" are written as they are, without a length, as Confluent's serializers do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any, ClassVar

from moldau.schemas.errors import SchemaError
from moldau.schemas.registry_client import RegistryClient
from moldau.schemas.schema import Schema, SchemaType
from moldau.schemas.serializers.schema_deserializer import Decode, SchemaDeserializer
from moldau.schemas.serializers.schema_serializer import Encode, SchemaSerializer

if TYPE_CHECKING:
    from moldau.schemas.avro.avro_schema import AvroSchema

FAILURES = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, EOFError, RecursionError)
"""What fastavro raises for a value that does not have the schema, and for data that is cut or changed."""
MAX_SHOWN = 500
"""Characters of what fastavro says that an error shows."""
MAX_SHOWN_VALUE = 80
"""Characters of a wrong value that an error shows."""


class AvroSerializer(SchemaSerializer):
    """Writes Avro. See `SchemaSerializer` for its arguments.

    `from_json` takes values as JSON has them: see `moldau.schemas.avro.json_values`.
    """

    schema_type: ClassVar = SchemaType.AVRO

    def __init__(
        self,
        registry: RegistryClient | str | Mapping[str, Any],
        schema: str | Schema | None = None,
        *,
        validate: bool = True,
        from_json: bool = False,
        **others: Any,
    ) -> None:
        super().__init__(registry, schema, **others)
        self._validate = validate
        self._from_json = from_json

    def _record_name(self, schema: Schema, data: Any) -> str | None:
        return _name(self._registry, schema)

    def _encoder(self, schema: Schema, data: Any) -> tuple[Encode, bytes]:
        parsed = _avro(self._registry, schema)
        if parsed.root.kind == "bytes":
            encode: Encode = _plain_bytes
        else:
            encode = _record_encoder(_fastavro().parse_schema(parsed.expanded()), self._validate)
        if self._from_json:
            from moldau.schemas.avro.json_values import from_json

            return lambda value: encode(from_json(parsed.root, value)), b""
        return encode, b""


class AvroDeserializer(SchemaDeserializer):
    """Reads Avro. With a reader's schema, values are converted by Avro's rules of schema resolution.

    `return_record_name` returns records of a union with more than one record as (name, record).
    """

    schema_type: ClassVar = SchemaType.AVRO

    def __init__(
        self,
        registry: RegistryClient | str | Mapping[str, Any],
        reader_schema: str | Schema | None = None,
        *,
        return_record_name: bool = False,
        **others: Any,
    ) -> None:
        super().__init__(registry, reader_schema, **others)
        self._return_record_name = return_record_name

    def _record_name(self, schema: Schema, path: tuple[int, ...]) -> str | None:
        return _name(self._registry, schema)

    def _decoder(self, writer: Schema, reader: Schema | None, path: tuple[int, ...]) -> Decode:
        parsed = _avro(self._registry, writer)
        if parsed.root.kind == "bytes" and reader is None:
            return bytes
        fastavro = _fastavro()
        wanted = None if reader is None else fastavro.parse_schema(_avro(self._registry, reader).expanded())
        if parsed.root.kind == "bytes":
            return _bytes_decoder(parsed, wanted)
        return _record_decoder(fastavro.parse_schema(parsed.expanded()), wanted, self._return_record_name)


def _fastavro() -> Any:
    try:
        import fastavro
    except ImportError:
        raise SchemaError("Avro needs fastavro: pip install 'moldau[schemas]'") from None
    return fastavro


def _avro(registry: RegistryClient, schema: Schema) -> AvroSchema:
    parsed: Any = registry.parsed(schema)
    found: AvroSchema = parsed
    return found


def _name(registry: RegistryClient, schema: Schema) -> str | None:
    parsed = _avro(registry, schema)
    return None if parsed.root.kind in ("union", "array", "map") else parsed.name


def _plain_bytes(data: Any) -> bytes:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise SchemaError(f"the schema is bytes, and the value is of type {type(data).__name__}")
    return bytes(data)


def _record_encoder(schema: Any, validate: bool) -> Encode:
    fastavro = _fastavro()
    write: Callable[..., None] = fastavro.schemaless_writer
    check: Callable[..., bool] = fastavro.validate

    def encode(data: Any) -> bytes:
        out = BytesIO()
        try:
            if validate and not check(data, schema, raise_errors=False):
                raise SchemaError(_why_invalid(data, schema))
            write(out, schema, data, strict_allow_default=True)
        except SchemaError:
            raise
        except FAILURES as error:
            raise SchemaError(_shown(error)) from None
        return out.getvalue()

    return encode


def _record_decoder(writer: Any, reader: Any, return_record_name: bool) -> Decode:
    read: Callable[..., Any] = _fastavro().schemaless_reader

    def decode(data: memoryview) -> Any:
        source = BytesIO(data)
        try:
            value = read(source, writer, reader, return_record_name=return_record_name)
        except FAILURES as error:
            raise SchemaError(
                f"the data ends too early or is damaged, or the reader's schema does not fit: {_shown(error)}"
            ) from None
        if source.read(1):
            raise SchemaError("bytes are left after the value: it was written with another schema, or is damaged")
        return value

    return decode


def _bytes_decoder(parsed: AvroSchema, reader: Any) -> Decode:
    """Bytes for a reader with another schema: through Avro's own form, which has the length."""
    decode = _record_decoder(_fastavro().parse_schema(parsed.expanded()), reader, False)

    def decode_bytes(data: memoryview) -> Any:
        out = BytesIO()
        _fastavro().schemaless_writer(out, "bytes", bytes(data))
        return decode(memoryview(out.getvalue()))

    return decode_bytes


def _why_invalid(data: Any, schema: Any) -> str:
    from fastavro.validation import ValidationError

    try:
        _fastavro().validate(data, schema)
    except ValidationError as error:
        problems = [
            f"{one.field or 'the value'} is {_cut(repr(one.datum), MAX_SHOWN_VALUE)}, and the schema has "
            f"{_type_name(one.schema)}"
            for one in error.errors
            if not isinstance(one, str)
        ]
        return _cut("; ".join(problems) or str(error), MAX_SHOWN)
    return "the value does not have the schema"


def _type_name(schema: Any) -> str:
    if isinstance(schema, list):
        return " or ".join(map(_type_name, schema))
    if isinstance(schema, dict):
        return " ".join(str(part) for part in (schema.get("type"), schema.get("name")) if part)
    return str(schema)


def _shown(error: BaseException) -> str:
    return _cut(" ".join(str(error).split()) or type(error).__name__, MAX_SHOWN)


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else text[:size] + " …"
