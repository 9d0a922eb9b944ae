"""Cast: fields, or the whole key or value, as another type.

Without a schema, a field of the specification that an object does not have becomes null, as in Kafka. A whole key or
value with a logical type loses the name of the type: Kafka keeps it, and its converters then refuse the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.config_def import ConfigDef, ConfigError, ConfigKey, ConfigType, Importance
from moldau.connect.record_batch import ConnectBatch, ValueColumn
from moldau.connect.schemas import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType
from moldau.connect.transforms.base import PartTransform
from moldau.connect.transforms.java_casts import TARGETS, cast, supported
from moldau.connect.transforms.objects import FieldColumn, ObjectColumn, default_scalar, fail, objects
from moldau.connect.transforms.settings import REPLACE_NULL, REPLACE_NULL_KEY

_PURPOSE: Final = "cast types"
_NAMES: Final = {{"float": "float32", "double": "float64"}.get(one.value, one.value): one for one in SchemaType}


def _specification(mappings: list[str]) -> dict[str | None, SchemaType]:
    """The wanted types by field; the key None is the whole key or value."""
    if not mappings:
        raise ConfigError("Must specify at least one field to cast.")
    found: dict[str | None, SchemaType] = {}
    for mapping in mappings:
        parts = mapping.split(":")
        if len(parts) > 2:
            raise ConfigError(f"Invalid cast mapping: {mapping}")
        kind = _NAMES.get(parts[-1].strip().lower())
        if kind is None:
            raise ConfigError(f"Invalid type found in casting spec: {parts[-1].strip()}")
        if kind not in TARGETS:
            raise ConfigError(
                f"Cast transformation does not support casting to {kind.name}; "
                f"supported types are {', '.join(one.name for one in TARGETS)}"
            )
        found[parts[0].strip() if len(parts) == 2 else None] = kind
    if None in found and len(mappings) > 1:
        raise ConfigError("A type without a field casts the entire value: it must be the only one in the spec")
    return found


def _check(name: str, value: Any) -> str | None:
    try:
        _specification(value)
    except ConfigError as error:
        return f"Invalid value {value} for configuration {name}: {error}"
    return None


class Cast(PartTransform):
    """Changes the types of fields."""

    keeps_null = True
    config_def = ConfigDef(
        [
            ConfigKey(
                "spec",
                ConfigType.LIST,
                "Pairs field:type, or one type for the whole key or value. Types: int8, int16, int32, int64, float32, "
                "float64, boolean, string. Bytes can become string only (base64).",
                importance=Importance.HIGH,
                validator=_check,
            ),
            REPLACE_NULL_KEY,
        ]
    )

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.types = _specification(config["spec"])

    def change(self, column: ValueColumn, batch: ConnectBatch) -> ValueColumn:
        whole = self.types.get(None)
        if whole is not None:
            array = _cast(column.array, column.schema, whole)
            return ValueColumn(array, None if column.schema is None else _schema(column.schema, whole, whole=True))
        found = objects(column, _PURPOSE, nulls=True)
        if found.schema is not None:
            return self._with_schema(found)
        for name, target in self.types.items():
            assert name is not None
            found = found.with_null(name)
            one = found.fields[name]
            array = _whole_first(one.array, target) if one.mixed else _cast(one.array, None, target)
            found = found.with_field(name, replace(one, array=array, mixed=False))
        return found.column()

    def _with_schema(self, found: ObjectColumn) -> ValueColumn:
        assert found.schema is not None
        if found.schema.default is not None:
            fail(
                None, "Cast transformation does not support casting from STRUCT, the default of the schema", found.rows
            )
        fields = dict(found.with_defaults(self.config[REPLACE_NULL]).fields)
        for name, one in fields.items():
            target = self.types.get(name)
            if target is not None and one.schema is not None:
                fields[name] = FieldColumn(_cast(one.array, one.schema, target), _schema(one.schema, target))
        return found.with_fields(fields).column()


def _cast(array: pa.Array, schema: Schema | None, target: SchemaType) -> pa.Array:
    kind = array.type
    plain = schema is not None or not (pa.types.is_temporal(kind) or pa.types.is_decimal(kind))
    if not supported(kind) or not plain:
        name = schema.type.name if schema is not None else str(kind)
        fail(array.is_valid(), f"Cast transformation does not support casting from {name}", len(array))
        return pa.nulls(len(array), TARGETS[target])
    return cast(array, target)


def _whole_first(array: pa.Array, target: SchemaType) -> pa.Array:
    """A column with integers and fractions: each is cast as what it was."""
    whole = pc.equal(array, pc.trunc(array))
    integers = pc.if_else(whole, array, pa.scalar(None, array.type)).cast(pa.int64())
    return pc.coalesce(_cast(integers, None, target), _cast(array, None, target))


def _schema(schema: Schema, target: SchemaType, *, whole: bool = False) -> Schema:
    default = None
    if schema.default is not None:
        default = _cast(pa.repeat(default_scalar(schema), 1), schema, target)[0].as_py()
    if whole and schema.name not in (DATE, DECIMAL, TIME, TIMESTAMP):
        return replace(schema, type=target, default=default, fields=(), key_schema=None, value_schema=None)
    return Schema(target, schema.optional, default)


class CastKey(Cast):
    part = "key"


class CastValue(Cast):
    part = "value"
