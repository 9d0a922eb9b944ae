"""Avro schemas of Kafka Connect's schemas, and Arrow types of Avro schemas."""

from __future__ import annotations

import re
from typing import Any, Final

import pyarrow as pa

from moldau.connect.errors import DataError
from moldau.connect.schemas import DATE, DECIMAL, MAX_PRECISION, PRECISION, SCALE, TIME, TIMESTAMP, Schema, SchemaType

RECORD_NAME: Final = "ConnectDefault"
"""The name of a record whose schema has none, as Confluent's Avro converter gives it."""

_PRIMITIVES: Final = {
    SchemaType.INT8: {"type": "int", "connect.type": "int8"},
    SchemaType.INT16: {"type": "int", "connect.type": "int16"},
    SchemaType.INT32: "int",
    SchemaType.INT64: "long",
    SchemaType.FLOAT32: "float",
    SchemaType.FLOAT64: "double",
    SchemaType.BOOLEAN: "boolean",
    SchemaType.STRING: "string",
    SchemaType.BYTES: "bytes",
}
_LOGICAL: Final = {
    DATE: {"type": "int", "logicalType": "date"},
    TIME: {"type": "int", "logicalType": "time-millis"},
    TIMESTAMP: {"type": "long", "logicalType": "timestamp-millis"},
}


def avro_schema(schema: Schema, name: str = RECORD_NAME) -> Any:
    """The Avro schema, as fastavro takes it. Names of records inside of records follow from the fields' names."""
    plain = _plain(schema, name)
    return ["null", plain] if schema.optional else plain


def _plain(schema: Schema, name: str) -> Any:
    if schema.name == DECIMAL:
        precision, scale = int(schema.parameters.get(PRECISION, MAX_PRECISION)), int(schema.parameters.get(SCALE, 0))
        return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    if schema.name in _LOGICAL:
        return _LOGICAL[schema.name]
    if schema.type is SchemaType.STRUCT:
        full = re.sub(r"[^A-Za-z0-9_.]", "_", schema.name or name)
        return {"type": "record", "name": full, "fields": [_field(one.name, one.schema, full) for one in schema.fields]}
    if schema.type is SchemaType.ARRAY:
        assert schema.value_schema is not None
        return {"type": "array", "items": avro_schema(schema.value_schema, f"{name}_item")}
    if schema.type is SchemaType.MAP:
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        if schema.key_schema.type is not SchemaType.STRING:
            raise DataError(f"Avro has maps of text keys only, not of {schema.key_schema.type.value}")
        return {"type": "map", "values": avro_schema(schema.value_schema, f"{name}_value")}
    return _PRIMITIVES[schema.type]


def _field(name: str, schema: Schema, record: str) -> dict[str, Any]:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise DataError(f"{name!r} is no field name of Avro: letters, digits and underscores; rename the field")
    field = {"name": name, "type": avro_schema(schema, f"{record}_{name}")}
    return {**field, "default": None} if schema.optional else field


# -- reading -----------------------------------------------------------------------------------------------------------

_ARROW: Final = {
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "null": pa.null(),
}
_ARROW_LOGICAL: Final = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "uuid": pa.string(),
}


def arrow_of_avro(schema: Any, known: dict[str, pa.DataType] | None = None) -> pa.Field:
    """The Arrow type of an Avro schema as fastavro has parsed it, in a field that says whether it may be null."""
    known = {} if known is None else known
    if isinstance(schema, list):
        others = [one for one in schema if one != "null"]
        if len(others) != 1:
            raise DataError(f"an Avro union of several types has no type in Kafka Connect: {schema}")
        return arrow_of_avro(others[0], known).with_nullable(len(others) < len(schema))
    if isinstance(schema, str):
        found = _ARROW.get(schema) or known.get(schema)
        if found is None:
            raise DataError(f"Avro type {schema} refers to itself or is unknown: it has no type in Kafka Connect")
        return pa.field("", found, nullable=schema == "null")
    return pa.field("", _complex(schema, known), nullable=False)


def _complex(schema: dict[str, Any], known: dict[str, pa.DataType]) -> pa.DataType:
    logical, kind = schema.get("logicalType"), schema["type"]
    if logical == "decimal":
        return pa.decimal128(schema["precision"], schema.get("scale", 0))
    if logical in _ARROW_LOGICAL:
        return _ARROW_LOGICAL[logical]
    found: pa.DataType
    if kind in ("record", "error"):
        fields = [arrow_of_avro(one["type"], known).with_name(one["name"]) for one in schema["fields"]]
        found = pa.struct(fields)
    elif kind == "array":
        found = pa.list_(arrow_of_avro(schema["items"], known).with_name("item"))
    elif kind == "map":
        value = arrow_of_avro(schema["values"], known)
        found = pa.map_(pa.string(), value.type)
    elif kind == "enum":
        found = pa.string()
    elif kind == "fixed":
        found = pa.binary(schema["size"])
    else:
        return arrow_of_avro(kind, known).type
    if "name" in schema:
        known[schema["name"]] = found
    return found
