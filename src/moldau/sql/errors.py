"""Errors of SQL statements: what is wrong, where in the text, and what to write instead."""

from __future__ import annotations

from moldau.client.errors import MoldauError


class SqlError(MoldauError):
    """A statement that cannot be run. `line` and `column` count from 1 in the text that the user gave."""

    def __init__(
        self, message: str, *, line: int | None = None, column: int | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column
        self.hint = hint
        """What the user can do: the nearest name, the statement to write instead."""

    def __str__(self) -> str:
        where = "" if self.line is None else f"line {self.line}, column {self.column}: "
        hint = "" if self.hint is None else f"; {self.hint}"
        return f"{where}{self.message}{hint}"
