"""Texts of floating-point numbers as Protobuf writes them: the shorter of two precisions, if it is exact."""

from __future__ import annotations

import math
from struct import Struct

_FLOAT = Struct("<f")


def double_text(value: float) -> str:
    return _special(value) or _shortest(value, 15, 17, value)


def float_text(value: float) -> str:
    """A number of 32 bits; one that is too large for it is infinite."""
    narrow = to_float32(value)
    return _special(narrow) or _shortest(narrow, 6, 9, narrow)


def to_float32(value: float) -> float:
    try:
        return float(_FLOAT.unpack(_FLOAT.pack(value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _special(value: float) -> str | None:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return None


def _shortest(value: float, few: int, many: int, expected: float) -> str:
    text = f"{value:.{few}g}"
    read = float(text)
    same = (to_float32(read) if few == 6 else read) == expected
    return text if same else f"{value:.{many}g}"
