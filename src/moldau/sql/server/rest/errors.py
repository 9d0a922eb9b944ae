"""Errors of the REST API as JSON: what is wrong, where in the text, and what to write instead."""

from __future__ import annotations

from typing import Any

from moldau.sql.errors import SqlError


def sql_error_body(status: int, message: str) -> dict[str, Any]:
    """The body of an error of HTTP itself."""
    return {"error": message, "line": None, "column": None, "hint": None}


def statement_error_body(error: SqlError) -> dict[str, Any]:
    """The body of an error of a statement."""
    return {"error": error.message, "line": error.line, "column": error.column, "hint": error.hint}
