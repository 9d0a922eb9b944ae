"""Texts of values as Java and Kafka Connect write them, for whole columns.

Two styles: that of Java's `toString`, which StringConverter uses (`Struct{a=1}`, `[1, 2]`), and that of header values
(`{"a":1}`, `[1,2]`), which SimpleHeaderConverter can parse again. Bytes are base64 in both; Java's own text of an array
of bytes says nothing about its content.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect import json_columns
from moldau.connect.record_batch import is_null_mark, null_mark
from moldau.connect.schemas import Schema

_MILLIS_PER_DAY: Final = 86_400_000


@dataclass(frozen=True)
class Style:
    """How containers are written."""

    quoted: bool
    """Strings within containers are in double quotes."""
    separator: str
    pair: str
    """What is between the key and the value of a map entry."""


TO_STRING: Final = Style(quoted=False, separator=", ", pair="=")
HEADER: Final = Style(quoted=True, separator=",", pair=":")


def text_of(array: pa.Array, schema: Schema | None, style: Style) -> pa.Array:
    """The texts of all rows; null rows stay null."""
    return _text(array, schema, style, inner=False)


def _text(array: pa.Array, schema: Schema | None, style: Style, *, inner: bool) -> pa.Array:
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return array.storage.cast(pa.string()) if style.quoted else _json_text(array, style)
    if pa.types.is_null(kind):
        return pa.nulls(len(array), pa.string())
    if pa.types.is_struct(kind):
        return _struct(array, schema, style)
    if pa.types.is_map(kind):
        return _map(array, schema, style)
    if pa.types.is_list(kind):
        element = None if schema is None else schema.value_schema
        texts = _shown(_text(array.values, element, style, inner=True))
        return _wrapped("[", _joined(array, texts, style.separator), "]")
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _quoted(array) if inner and style.quoted else array.cast(pa.string())
    if pa.types.is_temporal(kind):
        return _date(array, style)
    return _without_quotes(json_columns.encode(array, numeric_decimals=True).cast(pa.string()))


def _json_text(array: pa.Array, style: Style) -> pa.Array:
    """Values that are kept as JSON text, read again in runs of one type."""
    runs = json_columns.decode(array.storage)
    if any(isinstance(one.type, pa.BaseExtensionType) for one in runs):
        return array.storage.cast(pa.string())
    return pa.concat_arrays([_text(one, None, style, inner=True) for one in runs])


def _without_quotes(texts: pa.Array) -> pa.Array:
    """JSON has quotes around bytes and numbers that are not finite."""
    return pc.replace_substring(texts, '"', "")


def _quoted(array: pa.Array) -> pa.Array:
    escaped = pc.replace_substring(pc.replace_substring(array, "\\", "\\\\"), '"', '\\"')
    return _wrapped('"', escaped, '"')


def _wrapped(before: str, texts: pa.Array, after: str) -> pa.Array:
    return pc.binary_join_element_wise(before, texts, after, "")


def _shown(texts: pa.Array) -> pa.Array:
    return texts.fill_null("null")


def _joined(array: pa.Array, texts: pa.Array, separator: str) -> pa.Array:
    """The texts of the elements of each list, with a separator between them."""
    validity, offsets = array.buffers()[:2]
    lists = pa.Array.from_buffers(
        pa.list_(pa.string()), len(array), [validity, offsets], offset=array.offset, children=[texts]
    )
    return pc.binary_join(lists, separator)


def _map(array: pa.Array, schema: Schema | None, style: Style) -> pa.Array:
    keys = _shown(_text(array.keys, None if schema is None else schema.key_schema, style, inner=True))
    items = _shown(_text(array.items, None if schema is None else schema.value_schema, style, inner=True))
    entries = pc.binary_join_element_wise(keys, items, style.pair)
    return _wrapped("{", _joined(array, entries, style.separator), "}")


def _struct(array: pa.Array, schema: Schema | None, style: Style) -> pa.Array:
    """A struct; without schema, an object: there a field that is missing is left out."""
    marks = {one.name: i for i, one in enumerate(array.type) if is_null_mark(one.name)}
    is_java_struct = schema is not None and not style.quoted
    parts = []
    for i, one in enumerate(array.type):
        if one.name in marks:
            continue
        child = None if schema is None else schema.fields[i].schema
        texts = _text(array.field(i), child, style, inner=True)
        if schema is None:
            if null_mark(one.name) in marks:
                marked = array.field(marks[null_mark(one.name)])
                texts = pc.if_else(marked, "null", texts)
        elif style.quoted:
            texts = _shown(texts)
        name = _quoted(pa.array([one.name]))[0].as_py() if style.quoted else one.name
        parts.append(pc.binary_join_element_wise(f"{name}{style.pair}", texts, ""))
    separator = "," if is_java_struct else style.separator
    empty = pa.repeat(pa.scalar(""), len(array))
    if parts:
        # The first element is there so that rows without any field are empty texts and not null.
        body = pc.binary_join_element_wise(empty, *parts, separator, null_handling="skip")
        body = pc.replace_substring_regex(body, f"^{separator}", "")
    else:
        body = empty
    texts = _wrapped("Struct{" if is_java_struct else "{", body, "}")
    return pc.if_else(array.is_valid(), texts, pa.scalar(None, pa.string())) if array.null_count else texts


def _date(array: pa.Array, style: Style) -> pa.Array:
    """Dates and times: Java's text of a Date in UTC, or one of the three ISO forms, by the size of the value."""
    if pa.types.is_time(array.type):
        millis = array.cast(pa.int32()).cast(pa.int64())
    elif pa.types.is_date(array.type):
        millis = pc.multiply(array.cast(pa.int32()).cast(pa.int64()), _MILLIS_PER_DAY)
    else:
        millis = array.cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64())
    moments = millis.cast(pa.timestamp("ms", tz="UTC"))
    seconds = moments.cast(pa.timestamp("s", tz="UTC"), safe=False)
    if not style.quoted:
        return pc.strftime(seconds, format="%a %b %d %H:%M:%S UTC %Y")
    days = pc.multiply(pc.divide(millis, _MILLIS_PER_DAY), _MILLIS_PER_DAY)
    dates = pc.strftime(seconds, format="%Y-%m-%d")
    times = pc.strftime(moments, format="%H:%M:%SZ")
    return pc.if_else(
        pc.less(millis, _MILLIS_PER_DAY),
        times,
        pc.if_else(pc.equal(millis, days), dates, pc.binary_join_element_wise(dates, times, "T")),
    )
