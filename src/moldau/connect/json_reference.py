"""JSON to Arrow and back, one row at a time with Python's json module: the readable twin of the native code.

The functions have the names and results of `_json_decode.pyx` and `_json_encode.pyx`, which `json_columns.py` prefers.
They also do the work for what the native code does not know: decimals of more than 38 digits, and defaults of structs,
arrays and maps. About fifty times slower.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from moldau.connect import json_schemas
from moldau.connect.errors import DataError
from moldau.connect.json_layout import EXACT_INTEGERS, MAX_DEPTH, MAX_FIELDS, MAX_NUMBER, MAX_SPLITS, describe
from moldau.connect.record_batch import MIXED_NUMBERS, is_null_mark, null_mark, writes_whole_numbers
from moldau.connect.schemas import Schema, arrow_type, schema_of

MISSING: Final = object()
"""The value of a field that an object does not have."""


class JsonText(str):
    """A text that is JSON already."""

    __slots__ = ()


# -- texts to Python's values ----------------------------------------------------------------------------------------


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a JSON value")


def _number(text: str) -> int:
    if len(text) > MAX_NUMBER:
        raise ValueError(f"number of more than {MAX_NUMBER} characters")
    return int(text)


def _decoder(real: Callable[[str], Any]) -> json.JSONDecoder:
    return json.JSONDecoder(parse_constant=_no_constant, parse_int=_number, parse_float=real)


_FLOATS: Final = _decoder(float)
_DECIMALS: Final = _decoder(Decimal)


_LEADING_ZEROS: Final = re.compile(r'("(?:[^"\\]|\\.)*")|(?<![\w.+-])(-?)0+(?=\d)')


def parse(text: bytes, *, decimals: bool = False) -> Any:
    """The value of a JSON text; an empty one is null, as in Kafka. DataError says what is wrong with it."""
    decoder = _DECIMALS if decimals else _FLOATS
    try:
        decoded = text.decode("utf-8-sig")
        if not decoded.strip(" \t\r\n"):
            return None
        try:
            return decoder.decode(decoded)
        except json.JSONDecodeError:
            return decoder.decode(_LEADING_ZEROS.sub(r"\1\2", decoded))
    except RecursionError:
        raise DataError("invalid JSON: too many levels of nesting") from None
    except UnicodeDecodeError as error:
        raise DataError(describe("text is not UTF-8", error.start)) from None
    except json.JSONDecodeError as error:
        raise DataError(describe(error.msg, len(error.doc[: error.pos].encode()))) from None
    except ValueError as error:
        raise DataError(f"invalid JSON: {error}") from None


def _text(value: str) -> str:
    """A string without lone surrogates: Arrow's strings are UTF-8."""
    if value.isascii():
        return value
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


# -- schemaless values to Arrow ----------------------------------------------------------------------------------------

Shape = Any
"""None (only nulls), the name of a kind, ("list", shape of the elements), or ("object", shapes by field name)."""
_NUMBERS: Final = {
    frozenset({"int", "long"}): "long",
    frozenset({"int", "real"}): "mixed",
    frozenset({"int", "mixed"}): "mixed",
    frozenset({"real", "mixed"}): "mixed",
}
_TYPES: Final = {
    "bool": pa.bool_(),
    "int": pa.int64(),
    "long": pa.int64(),
    "real": pa.float64(),
    "mixed": pa.float64(),
    "text": pa.string(),
}


class _Conflict(Exception):
    """Two values that no Arrow type has both of."""


def _shape(value: Any, depth: int = 0) -> Shape:
    if value is None:
        return None
    if depth > MAX_DEPTH:
        return "any"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int" if abs(value) <= EXACT_INTEGERS else "long"
    if isinstance(value, float):
        return "real"
    if isinstance(value, str):
        return "text"
    if isinstance(value, list):
        item: Shape = None
        for one in value:
            item = _merge(item, _shape(one, depth + 1), strict=False)
        return ("list", item)
    if len(value) > MAX_FIELDS or any(name.startswith("\0") for name in value):
        return "any"
    return ("object", {_text(name): _shape(one, depth + 1) for name, one in value.items()})


def _merge(one: Shape, other: Shape, *, strict: bool) -> Shape:
    """The shape that holds the values of both. A conflict is raised, or makes the smallest part JSON text."""
    if one is None or other is None or one == other:
        return other if one is None else one
    if "any" in (one, other):
        return "any"
    if isinstance(one, str) and isinstance(other, str) and frozenset({one, other}) in _NUMBERS:
        return _NUMBERS[frozenset({one, other})]
    if isinstance(one, tuple) and isinstance(other, tuple) and one[0] == other[0]:
        if one[0] == "list":
            return ("list", _merge(one[1], other[1], strict=strict))
        merged = dict(one[1])
        for name, shape in other[1].items():
            merged[name] = _merge(merged.get(name), shape, strict=strict)
        if len(merged) <= MAX_FIELDS:
            return ("object", merged)
    if strict:
        raise _Conflict
    return "any"


def decode(array: pa.Array, max_splits: int = MAX_SPLITS) -> tuple[list[pa.Array], dict[int, str]]:
    """The runs of rows that fit one Arrow type, and the reasons of bad rows by their number."""
    runs: list[pa.Array] = []
    errors: dict[int, str] = {}
    values: list[Any] = []
    shape: Shape = None
    for row, text in enumerate(array.to_pylist()):
        try:
            value = None if text is None else parse(text)
        except DataError as error:
            errors[row] = str(error)
            value = None
        found = _shape(value)
        try:
            shape = _merge(shape, found, strict=len(runs) < max_splits)
        except _Conflict:
            runs.append(_build(shape, values))
            values, shape = [], found
        values.append(value)
    runs.append(_build(shape, values))
    return runs, errors


def _build(shape: Shape, values: Sequence[Any]) -> pa.Array:
    present = [None if one is MISSING else one for one in values]
    if shape is None:
        return pa.nulls(len(values))
    if shape == "any":
        texts = pa.array([None if one is None else dumps(one) for one in present], pa.string())
        return pa.ExtensionArray.from_storage(pa.json_(), texts)
    if shape in ("int", "long"):
        return pa.array([None if one is None else _wrapped(one) for one in present], pa.int64())
    if shape == "text":
        return pa.array([None if one is None else _text(one) for one in present], pa.string())
    if isinstance(shape, str):
        return pa.array(present, _TYPES[shape])
    return _build_list(shape[1], present) if shape[0] == "list" else _build_object(shape[1], present)


def _wrapped(value: int) -> int:
    """The low 64 bits, as Java's BigInteger.longValue."""
    low = value & (2**64 - 1)
    return low - 2**64 if low >> 63 else low


def _build_list(shape: Shape, values: Sequence[list[Any] | None]) -> pa.Array:
    offsets = [0]
    for one in values:
        offsets.append(offsets[-1] + (0 if one is None else len(one)))
    item = _build(shape, [one for row in values if row is not None for one in row])
    arrow = pa.list_(_field("item", item.type, shape))
    buffers = [_validity(values), pa.array(offsets, pa.int32()).buffers()[1]]
    return pa.Array.from_buffers(arrow, len(values), buffers, children=[item])


def _build_object(shapes: dict[str, Shape], values: Sequence[dict[str, Any] | None]) -> pa.Array:
    fields, arrays = [], []
    named = [None if row is None else {_text(name): one for name, one in row.items()} for row in values]
    for name, shape in shapes.items():
        found = [MISSING if row is None else row.get(name, MISSING) for row in named]
        arrays.append(_build(shape, found))
        fields.append(_field(name, arrays[-1].type, shape))
        if any(one is None for one in found):
            arrays.append(pa.array([one is None for one in found]))
            fields.append(pa.field(null_mark(name), pa.bool_()))
    return pa.Array.from_buffers(pa.struct(fields), len(values), [_validity(values)], children=arrays)


def _field(name: str, arrow: pa.DataType, shape: Shape) -> pa.Field:
    return pa.field(name, arrow, metadata=MIXED_NUMBERS if shape == "mixed" else None)


def _validity(values: Iterable[Any]) -> pa.Buffer | None:
    valid = [one is not None for one in values]
    return None if all(valid) else pa.array(valid).buffers()[1]


# -- values with schemas to Arrow --------------------------------------------------------------------------------------


def decode_typed(array: pa.Array, schema: Schema, replace_null: bool) -> tuple[pa.Array, dict[int, str]]:
    """The Arrow array of values of a schema, and the reasons of bad rows by their number."""
    arrow = arrow_type(schema)
    values: list[Any] = []
    errors: dict[int, str] = {}
    for row, text in enumerate(array.to_pylist()):
        value = None
        if text is not None:
            try:
                value = json_schemas.value_from_json(schema, parse(text, decimals=True), replace_null=replace_null)
                pa.scalar(value, arrow)
            except (DataError, pa.ArrowInvalid, OverflowError) as error:
                errors[row] = str(error)
                value = None
        values.append(value)
    return pa.array(values, arrow), errors


def split_envelopes(array: pa.Array) -> tuple[pa.Array, list[tuple[int, bytes]], dict[int, str]]:
    """The payloads of all rows, the schema texts of runs of rows as (first row, text), and the reasons of bad rows."""
    payloads: list[bytes | None] = []
    runs: list[tuple[int, bytes]] = []
    errors: dict[int, str] = {}
    for row, text in enumerate(array.to_pylist()):
        payload = None
        if text is not None:
            try:
                found = parse(text, decimals=True)
                if not isinstance(found, dict) or found.keys() != {"schema", "payload"}:
                    raise DataError(NO_ENVELOPE)
                payload = dumps(found["payload"]).encode()
                schema = dumps(found["schema"]).encode()
                if not runs or runs[-1][1] != schema:
                    runs.append((row if runs else 0, schema))
            except DataError as error:
                errors[row] = str(error)
                payload = b""
        payloads.append(payload)
    return pa.array(payloads, pa.binary()), runs, errors


NO_ENVELOPE: Final = (
    "no object with the fields schema and payload and no others; "
    "for JSON without schemas set schemas.enable=false in the converter's settings"
)


# -- Arrow to texts ----------------------------------------------------------------------------------------------------


def encode(
    array: pa.Array, schema: Schema | None, numeric: bool, prefix: bytes, suffix: bytes
) -> tuple[pa.Array, list[int]]:
    """The texts of all rows, each between `prefix` and `suffix`; rows that are null stay null. And the bad rows."""
    texts: list[bytes | None] = []
    errors = []
    values = rows(array, numeric=numeric) if schema is None else array.to_pylist()
    for row, value in enumerate(values):
        if value is None:
            texts.append(None)
            continue
        try:
            if schema is not None:
                value = json_schemas.value_to_json(schema, value, numeric_decimals=numeric, replace_null=False)
            texts.append(prefix + dumps(value).encode() + suffix)
        except DataError:
            errors.append(row)
            texts.append(None)
    return pa.array(texts, pa.binary()), errors


def rows(array: pa.Array, *, whole: bool = False, numeric: bool = False) -> list[Any]:
    """The values of schemaless Arrow data: objects without the fields that they do not have, and without marks."""
    arrow = array.type
    if isinstance(arrow, pa.BaseExtensionType):
        return [None if one is None else JsonText(one) for one in array.storage.to_pylist()]
    if pa.types.is_struct(arrow):
        return _objects(array, numeric)
    if pa.types.is_map(arrow):
        keys, items = rows(array.keys, numeric=numeric), rows(array.items, numeric=numeric)
        pairs = [list(zip(keys[a:b], items[a:b], strict=True)) for a, b in _ranges(array)]
        objects = [dict(one) if pa.types.is_string(arrow.key_type) else [list(pair) for pair in one] for one in pairs]
        return [one if valid else None for one, valid in zip(objects, array.is_valid().to_pylist(), strict=True)]
    if pa.types.is_list(arrow):
        values = rows(array.values, whole=writes_whole_numbers(arrow.value_field), numeric=numeric)
        valid = array.is_valid().to_pylist()
        return [values[a:b] if there else None for (a, b), there in zip(_ranges(array), valid, strict=True)]
    found: list[Any] = array.to_pylist()
    if pa.types.is_floating(arrow) and whole:
        return [int(one) if _is_whole(one) else one for one in found]
    if pa.types.is_float32(arrow):
        return [None if one is None else json_schemas.shortest_float(one) for one in found]
    if pa.types.is_temporal(arrow) or pa.types.is_decimal(arrow) or pa.types.is_binary(arrow):
        leaf = schema_of(arrow)
        return [json_schemas.value_to_json(leaf, one, numeric_decimals=numeric) for one in found]
    return found


def _is_whole(value: float | None) -> bool:
    return value is not None and abs(value) <= EXACT_INTEGERS and value == int(value)


def _ranges(array: pa.Array) -> list[tuple[int, int]]:
    offsets = array.offsets.to_pylist()
    return list(itertools.pairwise(offsets))


def _objects(array: pa.Array, numeric: bool) -> list[dict[str, Any] | None]:
    found: list[dict[str, Any] | None] = [{} if valid else None for valid in array.is_valid().to_pylist()]
    marks = {one.name: array.field(i).to_pylist() for i, one in enumerate(array.type) if is_null_mark(one.name)}
    for i, one in enumerate(array.type):
        if one.name in marks:
            continue
        marked = marks.get(null_mark(one.name), ())
        for row, value in enumerate(rows(array.field(i), whole=writes_whole_numbers(one), numeric=numeric)):
            into = found[row]
            if into is not None and (value is not None or (marked and marked[row])):
                into[one.name] = value
    return found


def dumps(value: Any) -> str:
    """JSON text. Numbers that are not finite are strings, as Jackson writes them."""
    if isinstance(value, JsonText):
        return value
    if isinstance(value, dict):
        return "{" + ",".join(f"{dumps(str(name))}:{dumps(one)}" for name, one in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(dumps, value)) + "]"
    if isinstance(value, Decimal):
        return str(value) if "E+" in str(value) else format(value, "f")  # 1E+5 is no whole number to Kafka
    if isinstance(value, float):
        return _java_text(value)
    if isinstance(value, str):
        value = _text(value)
    return json.dumps(value, ensure_ascii=False)


def _java_text(value: float) -> str:
    """A number as Java writes it: plain from 10^-3 to below 10^7, otherwise d.dddE±x."""
    if not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, numerals, exponent = Decimal(repr(value)).normalize().as_tuple()
    digits = "".join(map(str, numerals))
    assert isinstance(exponent, int)
    return f"{'-' if sign else ''}{digits[0]}.{digits[1:] or '0'}E{exponent + len(digits) - 1}"
