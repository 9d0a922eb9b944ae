"""Layout of generated Python: lines that fit, or calls and lists with one element per line.

The result is what ruff and black make of it, for any line length of 88 and more: a list that is written with one
element per line ends in a comma, which both respect.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

LINE_LENGTH: Final = 88
INDENT: Final = "    "


@dataclass(frozen=True)
class Bracketed:
    """Elements between brackets: a call, a list, a dict."""

    opening: str
    items: Sequence[str | Bracketed]
    closing: str
    comma: bool = True
    """May the last element be followed by a comma? Not in a subscript."""
    prefix: str = ""
    """Stands before the opening, for example the name of an argument."""

    def flat(self) -> str:
        return self.prefix + self.opening + ", ".join(_flat(item) for item in self.items) + self.closing


def call(function: str, *arguments: str | Bracketed, prefix: str = "") -> Bracketed:
    return Bracketed(f"{function}(", arguments, ")", prefix=prefix)


def subscript(value: str, key: str) -> Bracketed:
    return Bracketed(f"{value}[", [key], "]", comma=False)


def with_prefix(prefix: str, item: str | Bracketed) -> str | Bracketed:
    if isinstance(item, str):
        return prefix + item
    return Bracketed(item.opening, item.items, item.closing, item.comma, prefix + item.prefix)


def _flat(item: str | Bracketed) -> str:
    return item if isinstance(item, str) else item.flat()


def layout(item: str | Bracketed, depth: int, suffix: str = "", *, split: bool = False) -> list[str]:
    """The lines of an expression, which is followed by `suffix`. `split` puts each element in a line of its own."""
    indent = INDENT * depth
    line = indent + _flat(item) + suffix
    if isinstance(item, str) or not item.items or (len(line) <= LINE_LENGTH and not split):
        return [line]
    lines = [indent + item.prefix + item.opening]
    for one in item.items:
        lines += layout(one, depth + 1, "," if item.comma else "")
    return [*lines, indent + item.closing + suffix]


def literal(value: Any) -> str:
    """A JSON value as Python, with the quotes of ruff and black."""
    if isinstance(value, str):
        return string_literal(value)
    if isinstance(value, bytes):
        text = repr(value)
        return f'b"{text[2:-1]}"' if text[1] == "'" and '"' not in text else text
    if isinstance(value, list):
        return f"[{', '.join(literal(one) for one in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(key)}: {literal(one)}" for key, one in value.items()) + "}"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value).replace("e+", "e")


def string_literal(text: str) -> str:
    quoted = repr(text)
    if quoted[0] == "'" and '"' not in text:
        return f'"{quoted[1:-1]}"'
    return quoted


def docstring(text: str, depth: int) -> list[str]:
    """A docstring of one or several lines."""
    lines = [" ".join(line.split()) for line in text.strip().splitlines()]
    lines = [line.replace("\\", "\\\\").replace('"""', "'''") for line in lines]
    lines = [line for index, line in enumerate(lines) if line or (index and lines[index - 1])]
    if not lines or not lines[0]:
        return []
    indent = INDENT * depth
    end = " " if lines[-1].endswith('"') else ""
    if len(lines) == 1:
        return [f'{indent}"""{lines[0]}{end}"""']
    rest = [indent + line if line else "" for line in lines[1:]]
    return [f'{indent}"""{lines[0]}', *rest, f'{indent}"""']
