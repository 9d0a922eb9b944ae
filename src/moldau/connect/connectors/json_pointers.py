"""JSON pointers (RFC 6901) into columns of schemaless data: the values at one place of every row."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect import json_columns


def parse_pointer(text: str) -> tuple[str, ...]:
    """The names of a pointer such as `/data/items`; an empty text points to the whole value. Raises ValueError."""
    if not text:
        return ()
    if not text.startswith("/"):
        raise ValueError(f"{text} is no JSON pointer: it must be empty or begin with /")
    return tuple(one.replace("~1", "/").replace("~0", "~") for one in text[1:].split("/"))


def pointed(values: pa.Array, names: tuple[str, ...]) -> pa.Array:
    """The value at a pointer in every row; null where it is missing. A number selects an element of an array."""
    for name in names:
        values = _child(_read_again(values), name)
    return _read_again(values)


def _child(values: pa.Array, name: str) -> pa.Array:
    if pa.types.is_struct(values.type) and name in values.type.names:
        return pc.struct_field(values, name)
    if pa.types.is_list(values.type) and name.isdecimal():
        enough = pc.greater(pc.list_value_length(values), int(name)).fill_null(False)
        if pc.any(enough).as_py():
            rows = pc.if_else(enough, pa.array(range(len(values))), pa.scalar(None, pa.int64()))
            found = pc.list_element(values.filter(enough), int(name))
            at = pc.subtract(pc.cumulative_sum(enough.cast(pa.int64())), 1)
            return found.take(pc.if_else(rows.is_valid(), at, pa.scalar(None, pa.int64())))
    return pa.nulls(len(values))


def _read_again(values: pa.Array) -> pa.Array:
    """JSON text as values, if all rows have one type; otherwise it stays text."""
    if not isinstance(values.type, pa.BaseExtensionType):
        return values
    runs = json_columns.decode(values.storage)
    return runs[0] if len(runs) == 1 else values


def elements(value: pa.Array) -> list[pa.Array]:
    """The records at the pointer of one response, in runs of one type: those of an array, or one object."""
    if pa.types.is_list(value.type):
        value = value.flatten()
    value = value.drop_null()
    if not len(value):
        return []
    return json_columns.decode(value.storage) if isinstance(value.type, pa.BaseExtensionType) else [value]
