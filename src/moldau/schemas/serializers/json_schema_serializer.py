"""JSON Schema serializer and deserializer.

Values are what JSON knows: dicts, lists, texts, numbers, bools, None inside. Both sides validate them with the schema,
unless `validate` is False.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from moldau.schemas.errors import SchemaError
from moldau.schemas.registry_client import RegistryClient
from moldau.schemas.schema import Schema, SchemaType
from moldau.schemas.serializers.schema_deserializer import Decode, SchemaDeserializer
from moldau.schemas.serializers.schema_serializer import Encode, SchemaSerializer

if TYPE_CHECKING:
    from moldau.schemas.json_schema.json_schema import JsonSchema


class JsonSchemaSerializer(SchemaSerializer):
    """Writes JSON. See `SchemaSerializer` for its arguments."""

    schema_type: ClassVar = SchemaType.JSON

    def __init__(
        self,
        registry: RegistryClient | str | Mapping[str, Any],
        schema: str | Schema | None = None,
        *,
        validate: bool = True,
        **others: Any,
    ) -> None:
        super().__init__(registry, schema, **others)
        self._validate = validate

    def _record_name(self, schema: Schema, data: Any) -> str | None:
        return _json_schema(self._registry, schema).name

    def _encoder(self, schema: Schema, data: Any) -> tuple[Encode, bytes]:
        parsed = _json_schema(self._registry, schema)

        def encode(value: Any) -> bytes:
            if self._validate:
                parsed.validate(value)
            try:
                return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
            except (TypeError, ValueError, RecursionError) as error:
                raise SchemaError(f"the value cannot be written as JSON: {error}") from None

        return encode, b""


class JsonSchemaDeserializer(SchemaDeserializer):
    """Reads JSON, and validates it with the reader's schema, or with the one that it was written with."""

    schema_type: ClassVar = SchemaType.JSON

    def __init__(
        self,
        registry: RegistryClient | str | Mapping[str, Any],
        reader_schema: str | Schema | None = None,
        *,
        validate: bool = True,
        **others: Any,
    ) -> None:
        super().__init__(registry, reader_schema, **others)
        self._validate = validate

    def _record_name(self, schema: Schema, path: tuple[int, ...]) -> str | None:
        return _json_schema(self._registry, schema).name

    def _decoder(self, writer: Schema, reader: Schema | None, path: tuple[int, ...]) -> Decode:
        parsed = _json_schema(self._registry, reader or writer) if self._validate else None

        def decode(data: memoryview) -> Any:
            try:
                value = json.loads(bytes(data))
            except (ValueError, RecursionError) as error:
                raise SchemaError(f"it is not JSON: {error}") from None
            if parsed is not None:
                parsed.validate(value)
            return value

        return decode


def _json_schema(registry: RegistryClient, schema: Schema) -> JsonSchema:
    parsed: Any = registry.parsed(schema)
    found: JsonSchema = parsed
    return found
