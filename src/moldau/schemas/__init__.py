"""Schemas: Avro, JSON Schema and Protobuf, the registry's client, and the serializers that use them.

    from moldau.schemas import AvroSerializer, RegistryClient
    registry = RegistryClient({"schema.registry.url": "http://127.0.0.1:8081"})
    producer = Producer(..., value_serializer=AvroSerializer(registry, schema=text))

Nothing heavy is imported here: fastavro, jsonschema, protobuf and httpx come with `pip install 'moldau[schemas]'`, and
a module that needs one of them imports it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.schemas.errors import InvalidSchema, RegistryError, SchemaError
    from moldau.schemas.registry_client import RegistryClient
    from moldau.schemas.schema import RegisteredSchema, Schema, SchemaReference, SchemaType
    from moldau.schemas.serializers.avro_serializer import AvroDeserializer, AvroSerializer
    from moldau.schemas.serializers.json_schema_serializer import JsonSchemaDeserializer, JsonSchemaSerializer
    from moldau.schemas.serializers.protobuf_serializer import ProtobufDeserializer, ProtobufSerializer

_HOMES = {
    "AvroDeserializer": "moldau.schemas.serializers.avro_serializer",
    "AvroSerializer": "moldau.schemas.serializers.avro_serializer",
    "InvalidSchema": "moldau.schemas.errors",
    "JsonSchemaDeserializer": "moldau.schemas.serializers.json_schema_serializer",
    "JsonSchemaSerializer": "moldau.schemas.serializers.json_schema_serializer",
    "ProtobufDeserializer": "moldau.schemas.serializers.protobuf_serializer",
    "ProtobufSerializer": "moldau.schemas.serializers.protobuf_serializer",
    "RegisteredSchema": "moldau.schemas.schema",
    "RegistryClient": "moldau.schemas.registry_client",
    "RegistryError": "moldau.schemas.errors",
    "Schema": "moldau.schemas.schema",
    "SchemaError": "moldau.schemas.errors",
    "SchemaReference": "moldau.schemas.schema",
    "SchemaType": "moldau.schemas.schema",
}

__all__ = [
    "AvroDeserializer",
    "AvroSerializer",
    "InvalidSchema",
    "JsonSchemaDeserializer",
    "JsonSchemaSerializer",
    "ProtobufDeserializer",
    "ProtobufSerializer",
    "RegisteredSchema",
    "RegistryClient",
    "RegistryError",
    "Schema",
    "SchemaError",
    "SchemaReference",
    "SchemaType",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
