"""Casts of columns with Java's rules: narrowing wraps, floating point stops at the bounds.

Rows that cannot be cast raise RowError. Hexadecimal floating-point text and digits other than ASCII are not parsed.
Text of floating-point numbers has the shortest digits that give the number again, as in Java 19 and later.
"""

from __future__ import annotations

import base64
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.schemas import SchemaType
from moldau.connect.transforms.date_patterns import DAY_MS, DatePattern
from moldau.connect.transforms.objects import fail

TARGETS: Final = {
    SchemaType.INT8: pa.int8(),
    SchemaType.INT16: pa.int16(),
    SchemaType.INT32: pa.int32(),
    SchemaType.INT64: pa.int64(),
    SchemaType.FLOAT32: pa.float32(),
    SchemaType.FLOAT64: pa.float64(),
    SchemaType.BOOLEAN: pa.bool_(),
    SchemaType.STRING: pa.string(),
}

_DECIMAL_DIGITS: Final = 38
_INTEGER_TEXT: Final = r"^[+-]?0*[0-9]{1,19}$"
_FLOAT_TEXT: Final = r"^[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)$"
_OUT_OF_RANGE: Final = "was out of range for requested data type"


def cast(array: pa.Array, target: SchemaType) -> pa.Array:
    """The array as the target type. Null stays null."""
    kind = array.type
    if pa.types.is_null(kind):
        return array.cast(TARGETS[target])
    if target is SchemaType.STRING:
        return _to_string(array)
    if pa.types.is_date32(kind):
        array = array.cast(pa.int32())
    elif pa.types.is_time32(kind):
        array = array.cast(pa.time32("ms")).cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        array = _milliseconds(array)
    if pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type):
        fail(
            array.is_valid(), f"Unexpected type in Cast transformation: bytes cannot become {target.value}", len(array)
        )
        return pa.nulls(len(array), TARGETS[target])
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        return _from_string(array.cast(pa.string()), target)
    if target is SchemaType.BOOLEAN:
        return array if pa.types.is_boolean(array.type) else pc.not_equal(_narrowed(array, pa.int64()), 0)
    if target in (SchemaType.FLOAT32, SchemaType.FLOAT64):
        return _to_float(array, TARGETS[target])
    return _narrowed(array, TARGETS[target])


def supported(kind: pa.DataType) -> bool:
    """Numbers, booleans, text, bytes and logical types can be cast; lists, maps and objects cannot."""
    return not pa.types.is_nested(kind)


def _milliseconds(array: pa.Array) -> pa.Array:
    return array.cast(pa.timestamp("ms", tz=array.type.tz), safe=False).cast(pa.int64())


# -- to numbers ------------------------------------------------------------------------------------------------------


def _narrowed(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Numbers and booleans as integers: the low bits of integers, floating point cut at the bounds."""
    if pa.types.is_decimal(array.type):
        array = _low_bits(array)
    if pa.types.is_floating(array.type):
        # A float becomes an int first, and then its low bits a byte or short, as in Java.
        return _narrowed(_saturated(array, pa.int64() if kind.equals(pa.int64()) else pa.int32()), kind)
    if pa.types.is_integer(array.type) and array.type.bit_width > kind.bit_width:
        shift = pa.scalar(array.type.bit_width - kind.bit_width, array.type)
        return pc.shift_right(pc.shift_left(array, shift), shift).cast(kind)
    return array.cast(kind)


def _saturated(array: pa.Array, kind: pa.DataType) -> pa.Array:
    low, high = -(2.0 ** (kind.bit_width - 1)), 2.0 ** (kind.bit_width - 1)
    wide = array.cast(pa.float64())
    wide = pc.if_else(pc.is_nan(wide), 0.0, wide)
    inside = pc.and_(pc.greater(wide, low), pc.less(wide, high))
    whole = pc.trunc(pc.if_else(inside, wide, 0.0)).cast(kind)
    bounds = np.iinfo(kind.to_pandas_dtype())
    whole = pc.if_else(pc.greater_equal(wide, high), pa.scalar(bounds.max, kind), whole)
    return pc.if_else(pc.less_equal(wide, low), pa.scalar(bounds.min, kind), whole)


def _low_bits(array: pa.Array) -> pa.Array:
    """The low 64 bits of the whole part of decimals."""
    whole = pc.trunc(array).cast(pa.decimal128(_DECIMAL_DIGITS, 0))
    words = np.frombuffer(whole.buffers()[1], np.int64)[2 * whole.offset : 2 * (whole.offset + len(whole)) : 2]
    return pa.array(words, mask=whole.is_null().to_numpy(zero_copy_only=False))


def _to_float(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(array.type):
        return array.cast(pa.string()).cast(kind)
    if pa.types.is_boolean(array.type):
        return array.cast(pa.int8()).cast(kind)
    return array.cast(kind, safe=False)


def _from_string(array: pa.Array, target: SchemaType) -> pa.Array:
    kind = TARGETS[target]
    if target is SchemaType.BOOLEAN:
        return pc.equal(pc.ascii_lower(array), "true")
    if pa.types.is_integer(kind):
        matches = pc.match_substring_regex(array, _INTEGER_TEXT)
        number = pc.replace_substring_regex(pc.if_else(matches, array, None), r"^\+", "")
        wide = number.cast(pa.decimal128(_DECIMAL_DIGITS, 0))
        bounds = np.iinfo(kind.to_pandas_dtype())
        inside = pc.and_(
            pc.greater_equal(wide, pa.scalar(int(bounds.min)).cast(wide.type)),
            pc.less_equal(wide, pa.scalar(int(bounds.max)).cast(wide.type)),
        )
        good = pc.fill_null(inside, False)
        fail(pc.and_(array.is_valid(), pc.invert(good)), f"Value {_OUT_OF_RANGE} {target.value}", len(array))
        return wide.cast(kind)
    return _float_of(pc.utf8_trim(array, characters="".join(map(chr, range(33)))), target)


def _float_of(array: pa.Array, target: SchemaType) -> pa.Array:
    matches = pc.match_substring_regex(array, _FLOAT_TEXT)
    fail(pc.and_(array.is_valid(), pc.invert(pc.fill_null(matches, False))), "Value is no number", len(array))
    number = pc.replace_substring_regex(pc.replace_substring_regex(array, r"^\+", ""), r"[fFdD]$", "")
    try:
        return number.cast(TARGETS[target])
    except pa.ArrowInvalid:  # Arrow refuses numbers beyond the range, which are infinity in Java
        texts = pc.fill_null(number, "0").to_numpy(zero_copy_only=False).astype("U")
        with np.errstate(over="ignore"):
            numbers = texts.astype(TARGETS[target].to_pandas_dtype())
        return pa.array(numbers, mask=number.is_null().to_numpy(zero_copy_only=False))


# -- to text ---------------------------------------------------------------------------------------------------------


def _to_string(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_floating(kind):
        return float_text(array)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return base64_text(array.cast(pa.binary()))
    if pa.types.is_timestamp(kind):
        return _time_text(_milliseconds(array))
    if pa.types.is_date32(kind):
        return _time_text(pc.multiply(array.cast(pa.int32()).cast(pa.int64()), DAY_MS))
    if pa.types.is_time32(kind):
        return _time_text(array.cast(pa.time32("ms")).cast(pa.int32()).cast(pa.int64()))
    return array.cast(pa.string())


_TIME: Final = DatePattern("HH:mm:ss.SSS'Z'")
_DATE: Final = DatePattern("yyyy-MM-dd")
_TIMESTAMP: Final = DatePattern("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")


def _time_text(times: pa.Array) -> pa.Array:
    """As Kafka Connect writes times: those within the first day as a time, whole days as a date."""
    days = pc.equal(pc.subtract(times, pc.multiply(pc.divide(times, DAY_MS), DAY_MS)), 0)
    return pc.if_else(
        pc.less(times, DAY_MS), _TIME.format(times), pc.if_else(days, _DATE.format(times), _TIMESTAMP.format(times))
    )


def float_text(array: pa.Array) -> pa.Array:
    """Floating-point numbers as Java writes them: 1.0, 1.5E10, NaN, -Infinity."""
    plain = array.cast(pa.string())
    found = pc.extract_regex(plain, r"^(?P<sign>-?)(?P<whole>\d+)(?:\.(?P<part>\d+))?(?:[eE](?P<exp>[+-]?\d+))?$")
    sign, whole, part, exponent = found.flatten()
    shift = pc.replace_substring_regex(pc.replace_substring_regex(exponent, r"^\+", ""), "^$", "0").cast(pa.int32())
    digits = pc.binary_join_element_wise(whole, part, "")
    point = pc.add(pc.utf8_length(whole), shift)
    stripped = pc.utf8_ltrim(digits, "0")
    point = pc.subtract(point, pc.subtract(pc.utf8_length(digits), pc.utf8_length(stripped)))
    stripped = pc.utf8_rtrim(stripped, "0")
    size = pc.abs(array.cast(pa.float64()))
    decimal = pc.or_(pc.equal(size, 0.0), pc.and_(pc.greater_equal(size, 1e-3), pc.less(size, 1e7)))
    text = pc.if_else(decimal, _decimal_text(stripped, point), _scientific_text(stripped, point))
    text = pc.binary_join_element_wise(sign, text, "")
    infinite = pc.if_else(pc.greater(array, 0), "Infinity", "-Infinity")
    return pc.if_else(pc.is_nan(array), "NaN", pc.if_else(pc.is_inf(array), infinite, text))


def _decimal_text(digits: pa.Array, point: pa.Array) -> pa.Array:
    """Digits with the point after as many of them as `point` says; between -2 and 7, else the result is not used."""
    zeros = pa.array(["", "0", "00", "000", "0000", "00000", "000000", "0000000"])
    before = pc.max_element_wise(pc.min_element_wise(pc.negate(point), 7), 0)
    shifted = pc.binary_join_element_wise(zeros.take(before), digits, "")
    padded = pc.utf8_rpad(shifted, 8, "0")
    whole = pa.nulls(len(digits), pa.string())
    part = whole
    for places in range(8):
        here = pc.equal(pc.max_element_wise(point, 0), places)
        whole = pc.if_else(here, pc.utf8_slice_codeunits(padded, 0, places) if places else "", whole)
        part = pc.if_else(here, pc.utf8_slice_codeunits(padded, places, None), part)
    whole = pc.if_else(pc.equal(whole, ""), "0", whole)
    part = pc.utf8_rtrim(part, "0")
    return pc.binary_join_element_wise(whole, pc.if_else(pc.equal(part, ""), "0", part), ".")


def _scientific_text(digits: pa.Array, point: pa.Array) -> pa.Array:
    rest = pc.utf8_slice_codeunits(digits, 1, None)
    rest = pc.if_else(pc.equal(rest, ""), "0", rest)
    exponent = pc.subtract(point, 1).cast(pa.string())
    return pc.binary_join_element_wise(
        pc.binary_join_element_wise(pc.utf8_slice_codeunits(digits, 0, 1), rest, "."), exponent, "E"
    )


def base64_text(array: pa.BinaryArray) -> pa.Array:
    """Bytes in base64. One call encodes all rows: each begins at a multiple of three bytes, padding is set after it."""
    lengths = pc.fill_null(pc.binary_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    groups = (lengths + 2) // 3
    offsets = np.concatenate([[0], np.cumsum(groups)])
    flat = np.zeros(int(offsets[-1]) * 3, np.uint8)
    source = np.frombuffer(b"".join([_content(array)]), np.uint8)
    starts = np.concatenate([[0], np.cumsum(lengths)])[:-1]
    flat[np.arange(len(source)) + np.repeat(offsets[:-1] * 3 - starts, lengths)] = source
    encoded = np.frombuffer(base64.b64encode(flat.tobytes()), np.uint8).copy()
    ends = offsets[1:] * 4
    encoded[ends[lengths % 3 == 1] - 2] = ord("=")
    encoded[ends[lengths % 3 != 0] - 1] = ord("=")
    text_offsets = pa.py_buffer((offsets * 4).astype(np.int32).tobytes())
    found = pa.StringArray.from_buffers(len(array), text_offsets, pa.py_buffer(encoded.tobytes()))
    return pc.if_else(array.is_valid(), found, None)


def _content(array: pa.BinaryArray) -> bytes:
    """The bytes of all rows that are not null, one after the other."""
    joined: Any = pc.binary_join(pa.ListArray.from_arrays([0, len(array.drop_null())], array.drop_null()), b"")
    return bytes(joined[0].as_py())
