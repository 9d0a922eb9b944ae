"""Logical types of Avro: which annotation fits which type.

An annotation that does not fit is ignored: the data is then of the underlying type. The attributes stay in the text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, TypeGuard

from moldau.schemas.avro.types import LogicalType

INT_MAX: Final = 2**31 - 1

UNDERLYING: Final[Mapping[str, frozenset[str]]] = {
    "decimal": frozenset({"bytes", "fixed"}),
    "big-decimal": frozenset({"bytes"}),
    "uuid": frozenset({"string", "fixed"}),
    "date": frozenset({"int"}),
    "time-millis": frozenset({"int"}),
    "time-micros": frozenset({"long"}),
    "timestamp-millis": frozenset({"long"}),
    "timestamp-micros": frozenset({"long"}),
    "timestamp-nanos": frozenset({"long"}),
    "local-timestamp-millis": frozenset({"long"}),
    "local-timestamp-micros": frozenset({"long"}),
    "local-timestamp-nanos": frozenset({"long"}),
    "duration": frozenset({"fixed"}),
}
FIXED_SIZES: Final = {"uuid": 16, "duration": 12}


def logical_type(kind: str, props: Mapping[str, Any], size: int | None = None) -> LogicalType | None:
    """The logical type of a type with these attributes (`size` of a fixed), or None if there is none that fits."""
    name = props.get("logicalType")
    if not isinstance(name, str) or kind not in UNDERLYING.get(name, ()):
        return None
    if name == "decimal":
        return _decimal(props, size)
    if kind == "fixed" and size != FIXED_SIZES[name]:
        return None
    return LogicalType(name)


def _decimal(props: Mapping[str, Any], size: int | None) -> LogicalType | None:
    precision, scale = props.get("precision"), props.get("scale", 0)
    if not _is_int(precision) or not _is_int(scale):
        return None
    most = INT_MAX if size is None else math.floor(math.log10(2) * (8 * size - 1))
    if not 0 < precision <= most or not 0 <= scale <= precision:
        return None
    return LogicalType("decimal", precision, scale)


def _is_int(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= INT_MAX
