"""Avro schemas of Kafka Connect's schemas and back, as Confluent's AvroConverter maps them.

Types that Avro does not have keep their name in attributes: `connect.type` for int8 and int16, `connect.name` for
logical types and names. A union of several types becomes a struct with an optional field per branch. Maps whose keys
are not strings are refused.
"""

from __future__ import annotations

import json
from typing import Any, Final

from moldau.connect.errors import DataError
from moldau.connect.schemas import (
    DATE,
    DECIMAL,
    MAX_PRECISION,
    PRECISION,
    SCALE,
    TIME,
    TIMESTAMP,
    Field,
    Schema,
    SchemaType,
    decimal_schema,
)
from moldau.schemas.avro.types import (
    NO_DEFAULT,
    ArrayType,
    AvroType,
    EnumType,
    FixedType,
    MapType,
    RecordField,
    RecordType,
    UnionType,
)
from moldau.schemas.avro_columns.arrow_types import branch_names, branches, is_decimal

DEFAULT_NAME: Final = "io.confluent.connect.avro.ConnectDefault"
UNION_NAME: Final = "io.confluent.connect.avro.Union"

_PRIMITIVES: Final = {
    "boolean": SchemaType.BOOLEAN,
    "int": SchemaType.INT32,
    "long": SchemaType.INT64,
    "float": SchemaType.FLOAT32,
    "double": SchemaType.FLOAT64,
    "bytes": SchemaType.BYTES,
    "string": SchemaType.STRING,
    "null": SchemaType.STRING,
}
_SMALL: Final = {"int8": SchemaType.INT8, "int16": SchemaType.INT16}
_LOGICAL: Final = {
    ("int", "date"): Schema(SchemaType.INT32, name=DATE, version=1),
    ("int", "time-millis"): Schema(SchemaType.INT32, name=TIME, version=1),
    ("long", "time-micros"): Schema(SchemaType.INT32, name=TIME, version=1),
    ("long", "timestamp-millis"): Schema(SchemaType.INT64, name=TIMESTAMP, version=1),
    ("long", "timestamp-micros"): Schema(SchemaType.INT64, name=TIMESTAMP, version=1),
    ("long", "timestamp-nanos"): Schema(SchemaType.INT64, name=TIMESTAMP, version=1),
}


# -- from Avro ---------------------------------------------------------------------------------------------------------


def connect_schema(kind: AvroType, *, optional: bool = False) -> Schema:
    """The schema of Kafka Connect for data that was decoded into Arrow columns."""
    match kind:
        case RecordType():
            fields = tuple(Field(one.name, _field_schema(one)) for one in kind.fields)
            return Schema(SchemaType.STRUCT, optional, name=kind.name.full, doc=kind.doc, fields=fields)
        case UnionType():
            return _of_union(kind, optional)
        case ArrayType():
            return Schema(SchemaType.ARRAY, optional, value_schema=connect_schema(kind.items))
        case MapType():
            key = Schema(SchemaType.STRING)
            return Schema(SchemaType.MAP, optional, key_schema=key, value_schema=connect_schema(kind.values))
        case EnumType():
            return Schema(SchemaType.STRING, optional, name=kind.name.full, doc=kind.doc)
    if is_decimal(kind):
        assert kind.logical is not None
        return decimal_schema(kind.logical.precision or MAX_PRECISION, kind.logical.scale, optional=optional)
    if isinstance(kind, FixedType):
        return Schema(SchemaType.BYTES, optional, name=kind.name.full, doc=kind.doc)
    logical = _LOGICAL.get((kind.kind, kind.logical.name)) if kind.logical is not None else None
    if logical is not None:
        return Schema(logical.type, optional, name=logical.name, version=1)
    small = _SMALL.get(str(kind.props.get("connect.type"))) if kind.kind == "int" else None
    return Schema(small or _PRIMITIVES[kind.kind], optional or kind.kind == "null")


def _of_union(kind: UnionType, optional: bool) -> Schema:
    rest, with_null = branches(kind)
    if not rest:
        return Schema(SchemaType.STRING, optional=True)
    if len(rest) == 1:
        return connect_schema(rest[0], optional=optional or with_null)
    names = branch_names(rest)
    fields = tuple(Field(name, connect_schema(one, optional=True)) for name, one in zip(names, rest, strict=True))
    return Schema(SchemaType.STRUCT, optional or with_null, name=UNION_NAME, fields=fields)


def _field_schema(one: RecordField) -> Schema:
    """The schema of a field. Defaults of plain values are kept; others have no form here."""
    found = connect_schema(one.type)
    plain = found.name is None and isinstance(one.default, bool | int | float | str)
    if one.default is NO_DEFAULT or not plain or found.type is SchemaType.BYTES:
        return found
    return Schema(**{**found.__dict__, "default": one.default})


# -- to Avro -----------------------------------------------------------------------------------------------------------


def avro_text(schema: Schema) -> str:
    """The Avro schema of data with a schema of Kafka Connect. Raises DataError."""
    return json.dumps(_Names().avro(schema, inner=False), separators=(",", ":"))


class _Names:
    """The named types of one Avro schema: each is defined once, and meant by its name afterwards."""

    def __init__(self) -> None:
        self._known: dict[str, Schema] = {}

    def avro(self, schema: Schema, *, inner: bool = True) -> Any:
        """The Avro type; an optional one, except the whole value, is a union with null."""
        found = self._required(schema)
        return ["null", found] if schema.optional and inner else found

    def _required(self, schema: Schema) -> Any:
        match schema.type:
            case SchemaType.STRUCT:
                return self._record(schema)
            case SchemaType.ARRAY:
                assert schema.value_schema is not None
                return {"type": "array", "items": self.avro(schema.value_schema)}
            case SchemaType.MAP:
                assert schema.key_schema is not None
                assert schema.value_schema is not None
                if schema.key_schema.type is not SchemaType.STRING or schema.key_schema.optional:
                    raise DataError("a map whose keys are not strings has no Avro schema here")
                return {"type": "map", "values": self.avro(schema.value_schema)}
        if schema.name in _TO_LOGICAL:
            return {**_TO_LOGICAL[schema.name], "connect.version": 1, "connect.name": schema.name}
        if schema.name == DECIMAL:
            return _decimal(schema)
        plain = _TO_AVRO[schema.type]
        if schema.type in (SchemaType.INT8, SchemaType.INT16):
            return {"type": plain, "connect.type": schema.type.value}
        return {"type": plain, "connect.name": schema.name} if schema.name else plain

    def _record(self, schema: Schema) -> Any:
        name = schema.name or (DEFAULT_NAME if not self._known else f"{DEFAULT_NAME}{len(self._known) + 1}")
        known = self._known.get(name)
        if known is not None:
            if known.fields != schema.fields:
                raise DataError(f"two structs with different fields have the name {name}; Avro needs different names")
            return name
        self._known[name] = schema
        found: dict[str, Any] = {"type": "record", "name": name}
        if schema.doc:
            found["doc"] = schema.doc
        found["fields"] = [self._field(one) for one in schema.fields]
        return found

    def _field(self, one: Field) -> dict[str, Any]:
        found: dict[str, Any] = {"name": one.name, "type": self.avro(one.schema)}
        default = one.schema.default
        if isinstance(default, bool | int | float | str) and one.schema.name is None:
            found["default"] = default
            if one.schema.optional:
                found["type"] = found["type"][::-1]  # a default belongs to the first branch
        elif one.schema.optional and default is None:
            found["default"] = None
        return found


def _decimal(schema: Schema) -> dict[str, Any]:
    scale = int(schema.parameters.get(SCALE, 0))
    return {
        "type": "bytes",
        "scale": scale,
        "precision": int(schema.parameters.get(PRECISION, MAX_PRECISION)),
        "connect.version": 1,
        "connect.parameters": dict(schema.parameters),
        "connect.name": DECIMAL,
        "logicalType": "decimal",
    }


_TO_AVRO: Final = {
    SchemaType.INT8: "int",
    SchemaType.INT16: "int",
    SchemaType.INT32: "int",
    SchemaType.INT64: "long",
    SchemaType.FLOAT32: "float",
    SchemaType.FLOAT64: "double",
    SchemaType.BOOLEAN: "boolean",
    SchemaType.STRING: "string",
    SchemaType.BYTES: "bytes",
}
_TO_LOGICAL: Final[dict[str | None, dict[str, Any]]] = {
    DATE: {"type": "int", "logicalType": "date"},
    TIME: {"type": "int", "logicalType": "time-millis"},
    TIMESTAMP: {"type": "long", "logicalType": "timestamp-millis"},
}
