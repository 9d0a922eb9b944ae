"""Trace of a failed query: what its status shows, in SQL's terms, without Java and without secrets."""

from __future__ import annotations

from typing import Final

from moldau.sql import continuous
from moldau.sql.errors import SqlError
from moldau.sql.queries import QueryDefinition
from moldau.sql.server.query_start import query_text

MAX_CHARACTERS: Final = 2_000


def trace_of(error: BaseException, definition: QueryDefinition) -> str:
    """Why a query has failed."""
    if not isinstance(error, SqlError):
        try:
            error = continuous.failure(error, query_text(definition))
        except Exception as unreadable:  # noqa: BLE001 - the run must be reported as ended, whatever its error is like
            error = unreadable
    text = str(error)
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]} …"
