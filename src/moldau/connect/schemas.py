"""Schemas of keys and values: Kafka Connect's data model, and its Arrow types.

A schema describes one key or value. Arrow holds the values of many rows; `arrow_type` gives the type of the array that
belongs to a schema. Logical types (Decimal, Date, Time, Timestamp) are schemas with a name of Kafka Connect; in Arrow
they have Arrow's own types, so that no code has to convert them row by row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final

import pyarrow as pa

DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
DATE: Final = "org.apache.kafka.connect.data.Date"
TIME: Final = "org.apache.kafka.connect.data.Time"
TIMESTAMP: Final = "org.apache.kafka.connect.data.Timestamp"

SCALE: Final = "scale"
"""The parameter of a Decimal schema with the number of digits after the point."""
PRECISION: Final = "connect.decimal.precision"
"""The optional parameter of a Decimal schema with the number of all digits."""
MAX_PRECISION: Final = 38
"""Digits of a Decimal whose schema does not give their number; Arrow's decimals of 128 bits have no more."""


class SchemaType(Enum):
    """The types of Kafka Connect, with their names in JSON schemas."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


@dataclass(frozen=True)
class Field:
    """A field of a struct schema."""

    name: str
    schema: Schema


@dataclass(frozen=True)
class Schema:
    """The schema of a key, a value, or a part of one."""

    type: SchemaType
    optional: bool = False
    default: Any = field(default=None, hash=False)
    """None: no default. Logical types have Python's Decimal, date, time and datetime, structs and maps a dict."""
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict, hash=False)
    fields: tuple[Field, ...] = ()
    """The fields of a struct."""
    key_schema: Schema | None = None
    """The schema of the keys of a map."""
    value_schema: Schema | None = None
    """The schema of the values of a map, or of the elements of an array."""

    def field(self, name: str) -> Field | None:
        return next((one for one in self.fields if one.name == name), None)

    def as_optional(self) -> Schema:
        return replace(self, optional=True)


_PRIMITIVES: Final = {
    SchemaType.INT8: pa.int8(),
    SchemaType.INT16: pa.int16(),
    SchemaType.INT32: pa.int32(),
    SchemaType.INT64: pa.int64(),
    SchemaType.FLOAT32: pa.float32(),
    SchemaType.FLOAT64: pa.float64(),
    SchemaType.BOOLEAN: pa.bool_(),
    SchemaType.STRING: pa.string(),
    SchemaType.BYTES: pa.binary(),
}


def arrow_type(schema: Schema) -> pa.DataType:
    """The type of the Arrow array that holds values of this schema."""
    logical = _logical_type(schema)
    if logical is not None:
        return logical
    if schema.type is SchemaType.STRUCT:
        return pa.struct([arrow_field(one) for one in schema.fields])
    if schema.type is SchemaType.ARRAY:
        assert schema.value_schema is not None
        return pa.list_(pa.field("item", arrow_type(schema.value_schema), schema.value_schema.optional))
    if schema.type is SchemaType.MAP:
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        item = pa.field("value", arrow_type(schema.value_schema), schema.value_schema.optional)
        return pa.map_(pa.field("key", arrow_type(schema.key_schema), False), item)
    return _PRIMITIVES[schema.type]


def nullable_type(kind: pa.DataType) -> pa.DataType:
    """The same Arrow type with nullable fields and elements throughout."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, nullable_type(one.type)) for one in kind])
    if pa.types.is_map(kind):
        return pa.map_(nullable_type(kind.key_type), nullable_type(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(nullable_type(kind.value_type))
    return kind


def arrow_field(one: Field) -> pa.Field:
    return pa.field(one.name, arrow_type(one.schema), nullable=one.schema.optional)


def _logical_type(schema: Schema) -> pa.DataType | None:
    if schema.name == DECIMAL:
        precision = int(schema.parameters.get(PRECISION, MAX_PRECISION))
        decimal = pa.decimal128 if precision <= MAX_PRECISION else pa.decimal256
        return decimal(precision, int(schema.parameters.get(SCALE, 0)))
    return {DATE: pa.date32(), TIME: pa.time32("ms"), TIMESTAMP: pa.timestamp("ms", tz="UTC")}.get(schema.name or "")


def schema_of(kind: pa.DataType, *, optional: bool = True) -> Schema:
    """The schema of Arrow data that has no schema of Kafka Connect, such as the rows of a file or a database.

    The data may have to be cast to `arrow_type` of the schema (timestamps of other units, dictionaries): see
    `ValueColumn.of` in record_batch.py.
    """
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    for schema_type, primitive in _PRIMITIVES.items():
        if kind.equals(primitive):
            return Schema(schema_type, optional)
    if pa.types.is_struct(kind):
        fields = tuple(Field(one.name, schema_of(one.type, optional=one.nullable)) for one in kind)
        return Schema(SchemaType.STRUCT, optional, fields=fields)
    if pa.types.is_map(kind):
        return Schema(
            SchemaType.MAP,
            optional,
            key_schema=schema_of(kind.key_type, optional=False),
            value_schema=schema_of(kind.item_type, optional=kind.item_field.nullable),
        )
    if any(check(kind) for check in _LISTS):
        value_schema = schema_of(kind.value_type, optional=kind.value_field.nullable)
        return Schema(SchemaType.ARRAY, optional, value_schema=value_schema)
    return _schema_of_other(kind, optional)


_LISTS: Final = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,  # no views of lists: pyarrow 26 casts them to empty lists
)


def decimal_schema(precision: int, scale: int, *, optional: bool) -> Schema:
    """The schema of a Decimal."""
    parameters = {SCALE: str(scale), PRECISION: str(precision)}
    return Schema(SchemaType.BYTES, optional, name=DECIMAL, version=1, parameters=parameters)


def _schema_of_other(kind: pa.DataType, optional: bool) -> Schema:
    """The schema of the Arrow types that have no primitive of the same width in Kafka Connect."""
    if pa.types.is_decimal(kind):
        return decimal_schema(kind.precision, kind.scale, optional=optional)
    if pa.types.is_uint64(kind):
        return decimal_schema(20, 0, optional=optional)
    if pa.types.is_date(kind):
        return Schema(SchemaType.INT32, optional, name=DATE, version=1)
    if pa.types.is_time(kind):
        return Schema(SchemaType.INT32, optional, name=TIME, version=1)
    if pa.types.is_timestamp(kind):
        return Schema(SchemaType.INT64, optional, name=TIMESTAMP, version=1)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) or pa.types.is_null(kind):
        return Schema(SchemaType.STRING, optional)
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_binary_view(kind):
        return Schema(SchemaType.BYTES, optional)
    if kind in _WIDER:
        return Schema(_WIDER[kind], optional)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return schema_of(kind.value_type, optional=optional)
    raise TypeError(
        f"Arrow type {kind} has no type in Kafka Connect; convert the column before it leaves the connector"
    )


_WIDER: Final = {
    pa.uint8(): SchemaType.INT16,
    pa.uint16(): SchemaType.INT32,
    pa.uint32(): SchemaType.INT64,
    pa.float16(): SchemaType.FLOAT32,
}
