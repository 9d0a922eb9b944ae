"""Trace of a failed query: what its status shows, in SQL's terms, without Java and without secrets."""

from __future__ import annotations

from typing import Final

from moldau.client.errors import MoldauError
from moldau.sql.errors import SqlError

MAX_CHARACTERS: Final = 2_000


def trace_of(error: BaseException) -> str:
    """Why a query has failed."""
    text = str(_as_sql_error(error))
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]} …"


def _as_sql_error(error: BaseException) -> MoldauError:
    from moldau.sql.spark_errors import in_sql_terms

    if isinstance(error, SqlError):
        return error
    try:
        with in_sql_terms():
            raise error
    except MoldauError as found:
        return found
    except BaseException as other:  # noqa: BLE001 - a bug: its type and message are all there is to say
        return SqlError(f"internal error ({type(other).__name__}): {other}")
