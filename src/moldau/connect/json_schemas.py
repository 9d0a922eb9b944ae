"""Schemas in JSON: the `schema` part of the envelope that Kafka's JsonConverter writes and reads."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from struct import Struct
from typing import Any, Final

from moldau.connect.errors import DataError
from moldau.connect.schemas import DATE, DECIMAL, SCALE, TIME, TIMESTAMP, Field, Schema, SchemaType

_TYPES: Final = {one.value: one for one in SchemaType}
_EPOCH_DAY: Final = datetime.date(1970, 1, 1)
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_DECIMALS: Final = Context(prec=2000)
"""Wide enough for every number of at most 1000 characters: nothing is rounded."""
_FLOAT: Final = Struct("f")
_MILLISECOND: Final = datetime.timedelta(milliseconds=1)


def to_json(schema: Schema, *, numeric_decimals: bool = False) -> dict[str, Any]:
    """The JSON object of a schema, with its fields in the order of Kafka's."""
    found: dict[str, Any] = {"type": schema.type.value}
    if schema.type is SchemaType.ARRAY:
        assert schema.value_schema is not None
        found["items"] = to_json(schema.value_schema, numeric_decimals=numeric_decimals)
    elif schema.type is SchemaType.MAP:
        assert schema.key_schema is not None and schema.value_schema is not None
        found["keys"] = to_json(schema.key_schema, numeric_decimals=numeric_decimals)
        found["values"] = to_json(schema.value_schema, numeric_decimals=numeric_decimals)
    elif schema.type is SchemaType.STRUCT:
        found["fields"] = [
            {**to_json(one.schema, numeric_decimals=numeric_decimals), "field": one.name} for one in schema.fields
        ]
    found["optional"] = schema.optional
    for name in ("name", "version", "doc"):
        if getattr(schema, name) is not None:
            found[name] = getattr(schema, name)
    if schema.parameters:
        found["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        found["default"] = value_to_json(schema, schema.default, numeric_decimals=numeric_decimals)
    return found


def from_json(found: Any) -> Schema | None:
    """The schema of a JSON object; None for null. DataError says what is wrong with it."""
    if found is None:
        return None
    if not isinstance(found, dict):
        raise DataError(f"a schema must be a JSON object, not {_shown(found)}")
    kind = found.get("type")
    if not isinstance(kind, str) or kind not in _TYPES:
        raise DataError(f"unknown schema type: {_shown(kind)}")
    schema_type = _TYPES[kind]
    plain = Schema(
        schema_type,
        optional=_checked(found, "optional", bool, False),
        name=_checked(found, "name", str, None),
        version=_checked(found, "version", int, None),
        doc=_checked(found, "doc", str, None),
        parameters=_parameters(found),
        fields=_fields(found) if schema_type is SchemaType.STRUCT else (),
        key_schema=_required_schema(found, "keys") if schema_type is SchemaType.MAP else None,
        value_schema=_value_schema(found, schema_type),
    )
    if found.get("default") is None:
        return plain
    default = value_from_json(plain, found["default"])
    return Schema(**{**plain.__dict__, "default": default})


def _checked(found: Mapping[str, Any], name: str, wanted: type, default: Any) -> Any:
    """A part of a schema; one of the wrong type is ignored, as in Kafka."""
    value = found.get(name)
    return value if isinstance(value, wanted) and not (wanted is int and isinstance(value, bool)) else default


def _parameters(found: Mapping[str, Any]) -> dict[str, str]:
    parameters = _checked(found, "parameters", dict, {})
    if not all(isinstance(value, str) for value in parameters.values()):
        raise DataError("the parameters of a schema must be strings")
    return dict(parameters)


def _fields(found: Mapping[str, Any]) -> tuple[Field, ...]:
    fields = found.get("fields")
    if not isinstance(fields, list):
        raise DataError("a struct schema must have an array of fields")
    result = []
    for one in fields:
        name = one.get("field") if isinstance(one, dict) else None
        if not isinstance(name, str):
            raise DataError("a field of a struct schema has no name")
        schema = from_json(one)
        assert schema is not None
        result.append(Field(name, schema))
    if len({one.name for one in result}) < len(result):
        raise DataError("a struct schema has two fields of the same name")
    return tuple(result)


def _value_schema(found: Mapping[str, Any], schema_type: SchemaType) -> Schema | None:
    if schema_type is SchemaType.ARRAY:
        return _required_schema(found, "items")
    return _required_schema(found, "values") if schema_type is SchemaType.MAP else None


def _required_schema(found: Mapping[str, Any], name: str) -> Schema:
    schema = from_json(found.get(name))
    if schema is None:
        raise DataError(f"a schema of type {found['type']} must have {name}")
    return schema


# -- single values: defaults, and the reference of the native code ---------------------------------------------------


def value_to_json(schema: Schema, value: Any, *, numeric_decimals: bool = False, replace_null: bool = True) -> Any:
    """A value of a schema as JSON: dicts, lists, texts and numbers."""
    if value is None:
        if schema.default is not None and replace_null:
            value = schema.default
        elif schema.optional:
            return None
        else:
            raise DataError("null for a required value")

    def inner(schema: Schema, value: Any) -> Any:
        return value_to_json(schema, value, numeric_decimals=numeric_decimals, replace_null=replace_null)

    if schema.name == DECIMAL:
        return value if numeric_decimals else base64.b64encode(unscaled_bytes(value, _scale(schema))).decode()
    if schema.name == DATE:
        return (value - _EPOCH_DAY).days
    if schema.name == TIME:
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000
    if schema.name == TIMESTAMP:
        return (value - _EPOCH) // _MILLISECOND
    if schema.type is SchemaType.BYTES:
        return base64.b64encode(value).decode()
    if schema.type is SchemaType.FLOAT32:
        return shortest_float(value)
    if schema.type is SchemaType.STRUCT:
        return {one.name: inner(one.schema, value.get(one.name)) for one in schema.fields}
    if schema.type is SchemaType.ARRAY:
        assert schema.value_schema is not None
        return [inner(schema.value_schema, one) for one in value]
    if schema.type is SchemaType.MAP:
        assert schema.key_schema is not None and schema.value_schema is not None
        pairs = [
            (inner(schema.key_schema, key), inner(schema.value_schema, one))
            for key, one in (value.items() if isinstance(value, dict) else value)
        ]
        return dict(pairs) if schema.key_schema.type is SchemaType.STRING else [list(pair) for pair in pairs]
    return value


def value_from_json(schema: Schema, value: Any, *, replace_null: bool = True) -> Any:
    """The value of a schema, as Python's objects: Decimal, date, time, datetime, dict, list, map as list of pairs."""
    if value is None:
        if schema.default is not None and replace_null:
            return schema.default
        if schema.optional:
            return None
        raise DataError("null for a required value")
    if schema.name in _LOGICAL:
        return _LOGICAL[schema.name](schema, value)
    if schema.type is SchemaType.STRUCT:
        if not isinstance(value, dict):
            raise _mismatch(schema, value)
        return {
            one.name: value_from_json(one.schema, value.get(one.name), replace_null=replace_null)
            for one in schema.fields
        }
    if schema.type is SchemaType.ARRAY:
        if not isinstance(value, list):
            raise _mismatch(schema, value)
        assert schema.value_schema is not None
        return [value_from_json(schema.value_schema, one, replace_null=replace_null) for one in value]
    if schema.type is SchemaType.MAP:
        return _map_from_json(schema, value, replace_null)
    return _primitive_from_json(schema, value)


def _map_from_json(schema: Schema, value: Any, replace_null: bool) -> list[tuple[Any, Any]]:
    assert schema.key_schema is not None and schema.value_schema is not None
    if schema.key_schema.type is SchemaType.STRING:
        if not isinstance(value, dict):
            raise _mismatch(schema, value)
        pairs = list(value.items())
    else:
        if not isinstance(value, list) or not all(isinstance(one, list) and len(one) == 2 for one in value):
            raise _mismatch(schema, value)
        pairs = [(one[0], one[1]) for one in value]
    return [
        (
            value_from_json(schema.key_schema, key, replace_null=replace_null),
            value_from_json(schema.value_schema, one, replace_null=replace_null),
        )
        for key, one in pairs
    ]


_BITS: Final = {SchemaType.INT8: 8, SchemaType.INT16: 16, SchemaType.INT32: 32, SchemaType.INT64: 64}


def _primitive_from_json(schema: Schema, value: Any) -> Any:
    is_number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    if schema.type in _BITS and is_number:
        if not isinstance(value, int) and not -9.2e18 < value < 9.2e18:
            raise DataError("number is too large for the schema")
        bits = _BITS[schema.type]
        low = int(value) & (2**bits - 1)
        return low - 2**bits if low >> (bits - 1) else low
    if schema.type in (SchemaType.FLOAT32, SchemaType.FLOAT64) and is_number:
        return to_float(value)
    if schema.type is SchemaType.BOOLEAN and isinstance(value, bool):
        return value
    if schema.type is SchemaType.STRING and isinstance(value, str):
        return value
    if schema.type is SchemaType.BYTES and isinstance(value, str):
        return _base64(value)
    raise _mismatch(schema, value)


def shortest_float(value: float) -> float:
    """The double with the fewest digits that is the same float."""
    texts = (float(f"{value:.{digits}g}") for digits in range(1, 10))
    return next((one for one in texts if _as_float(one) == value), value)


def _as_float(value: float) -> float:
    try:
        return float(_FLOAT.unpack(_FLOAT.pack(value))[0])
    except OverflowError:
        return float("inf")


def to_float(value: Any) -> float:
    """The nearest double; infinite if the number is too large."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise DataError("text is not base64") from None


def _decimal(schema: Schema, value: Any) -> Decimal:
    scale = _scale(schema)
    if isinstance(value, str):
        data = _base64(value)
        if not data:
            raise DataError("decimal without bytes")
        return _DECIMALS.scaleb(Decimal(int.from_bytes(data, "big", signed=True)), -scale)
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return Decimal(value) if isinstance(value, (int, Decimal)) else Decimal(repr(value))
    raise _mismatch(schema, value)


def _integer(schema: Schema, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _mismatch(schema, value)
    return value


def _date(schema: Schema, value: Any) -> datetime.date:
    try:
        return _EPOCH_DAY + datetime.timedelta(days=_integer(schema, value))
    except OverflowError:
        raise DataError("number is too large for the schema") from None


def _time(schema: Schema, value: Any) -> datetime.time:
    millis = _integer(schema, value)
    if not 0 <= millis < 86_400_000:
        raise DataError("time is not within a day")
    return (_EPOCH + millis * _MILLISECOND).time()


def _timestamp(schema: Schema, value: Any) -> datetime.datetime:
    try:
        return _EPOCH + _integer(schema, value) * _MILLISECOND
    except OverflowError:
        raise DataError("number is too large for the schema") from None


_LOGICAL: Final[dict[str | None, Callable[[Schema, Any], Any]]] = {
    DECIMAL: _decimal,
    DATE: _date,
    TIME: _time,
    TIMESTAMP: _timestamp,
}


def unscaled_bytes(value: Decimal, scale: int) -> bytes:
    """The unscaled integer of a decimal as Java's BigInteger.toByteArray writes it."""
    number = int(_DECIMALS.scaleb(value, scale))
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(size, "big", signed=True)


def _scale(schema: Schema) -> int:
    try:
        return int(schema.parameters[SCALE])
    except (KeyError, ValueError):
        raise DataError("a Decimal schema must have the parameter scale with a whole number") from None


def _mismatch(schema: Schema, value: Any) -> DataError:
    name = schema.name if schema.name in _LOGICAL else schema.type.value
    return DataError(f"value does not have the type of the schema ({name}): {_shown(value)}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
