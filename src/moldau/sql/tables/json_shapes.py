"""Inference of columns from JSON values: a type that holds all values seen. Pure functions.

Integers become BIGINT, or DECIMAL(38,0) if they need it; integers and floats together DOUBLE; values of different kinds
STRING, which has the JSON text then. A field that was only ever null is a STRING. Objects become STRUCT and arrays
ARRAY, with the types of their parts merged in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.sql.relation_names import quoted

MAX_FIELDS: Final = 500
"""The largest number of fields of one object. An object with more (ids as names) is a STRING with its JSON."""
MAX_DEPTH: Final = 12
"""The deepest nesting; deeper parts are STRING."""

_LONG: Final = 1 << 63
_DECIMAL: Final = 10**38


@dataclass
class JsonShape:
    """The type of the values seen so far. `kind` is null, boolean, bigint, decimal, double, string, struct or array."""

    kind: str = "null"
    fields: dict[str, JsonShape] = field(default_factory=dict)
    element: JsonShape | None = None

    def ddl(self) -> str:
        """The type as Spark's DDL."""
        match self.kind:
            case "struct" if self.fields:
                return f"STRUCT<{', '.join(f'{quoted(name)}: {one.ddl()}' for name, one in self.fields.items())}>"
            case "array":
                return f"ARRAY<{(self.element or JsonShape()).ddl()}>"
            case "decimal":
                return "DECIMAL(38,0)"
            case "boolean" | "bigint" | "double":
                return self.kind.upper()
            case _:
                return "STRING"


@dataclass
class SampledShape:
    """What a sample of values has shown."""

    records: int = 0
    """The number of values that were looked at, without tombstones."""
    objects: int = 0
    shape: JsonShape = field(default_factory=lambda: JsonShape("struct"))
    dropped: set[str] = field(default_factory=set)
    """Fields without a column of their own, because another field has the same name in other case."""

    @property
    def is_json(self) -> bool:
        """Whether the topic has JSON objects: most of its sampled values are."""
        return self.objects > 0 and 2 * self.objects >= self.records

    @property
    def columns(self) -> list[tuple[str, str]]:
        return [(name, one.ddl()) for name, one in self.shape.fields.items()]

    def add(self, values: Iterable[bytes | None]) -> None:
        for value in values:
            if value is None:
                continue
            self.records += 1
            found = _parsed(value)
            if isinstance(found, dict):
                self.objects += 1
                self._add_object(found)

    def _add_object(self, found: dict[str, Any]) -> None:
        fields = self.shape.fields
        by_lower = {name.lower(): name for name in fields}
        for name, value in found.items():
            column = by_lower.setdefault(name.lower(), name)
            if column != name:
                self.dropped.add(name)
            elif name in fields:
                fields[name] = merged(fields[name], shape_of_value(value))
            elif len(fields) < MAX_FIELDS:
                fields[name] = shape_of_value(value)


def _parsed(value: bytes) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def shape_of_value(value: Any, depth: int = 1) -> JsonShape:
    """The type of one value."""
    match value:
        case None:
            return JsonShape()
        case bool():
            return JsonShape("boolean")
        case int():
            if -_LONG <= value < _LONG:
                return JsonShape("bigint")
            return JsonShape("decimal" if -_DECIMAL < value < _DECIMAL else "double")
        case float():
            return JsonShape("double")
        case dict():
            return _struct(value, depth)
        case list():
            element = JsonShape()
            for one in value:
                element = merged(element, shape_of_value(one, depth + 1))
            return JsonShape("array", element=element) if depth < MAX_DEPTH else JsonShape("string")
        case _:
            return JsonShape("string")


def _struct(value: dict[str, Any], depth: int) -> JsonShape:
    unambiguous = len({name.lower() for name in value}) == len(value)
    if not value or len(value) > MAX_FIELDS or depth >= MAX_DEPTH or not unambiguous:
        return JsonShape("struct") if not value else JsonShape("string")
    return JsonShape("struct", {name: shape_of_value(one, depth + 1) for name, one in value.items()})


_NUMBERS: Final = ("bigint", "decimal", "double")


def merged(one: JsonShape, other: JsonShape) -> JsonShape:
    """The type that holds the values of both."""
    if one.kind == "null" or other.kind == "null":
        return other if one.kind == "null" else one
    if one.kind in _NUMBERS and other.kind in _NUMBERS:
        return JsonShape(max(one.kind, other.kind, key=_NUMBERS.index))
    if one.kind != other.kind:
        return JsonShape("string")
    if one.kind == "array":
        return JsonShape("array", element=merged(one.element or JsonShape(), other.element or JsonShape()))
    if one.kind == "struct":
        return _merged_structs(one, other)
    return one


def _merged_structs(one: JsonShape, other: JsonShape) -> JsonShape:
    fields = dict(one.fields)
    for name, shape in other.fields.items():
        fields[name] = merged(fields[name], shape) if name in fields else shape
    if len(fields) > MAX_FIELDS or len({name.lower() for name in fields}) < len(fields):
        return JsonShape("string")
    return JsonShape("struct", fields)
