"""Errors of statements as text: the line of the statement, and a caret under the column."""

from __future__ import annotations

from typing import Final

from moldau.sql.errors import SqlError

MAX_LINE: Final = 100
"""Columns of a long line that are shown around the error."""


def explained(error: SqlError, text: str) -> str:
    """The error for a terminal: its message, the line of `text` with a caret, and the hint."""
    parts = [f"error: {error.message}"]
    lines = text.split("\n")
    if error.line is not None and error.column is not None and 1 <= error.line <= len(lines):
        parts += _pointed(lines[error.line - 1], error.line, error.column)
    if error.hint:
        parts.append(f"hint: {error.hint}")
    return "\n".join(parts)


def _pointed(line: str, number: int, column: int) -> list[str]:
    start = max(0, column - MAX_LINE // 2) if len(line) > MAX_LINE else 0
    shown = line[start : start + MAX_LINE]
    margin = f"{number} | "
    # A tab before the column must be a tab above the caret too.
    before = "".join(char if char == "\t" else " " for char in shown[: column - 1 - start])
    return [f"  {margin}{shown}", f"  {' ' * (len(margin) - 2)}| {before}^"]
