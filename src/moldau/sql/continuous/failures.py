"""Failures of running queries in SQL's terms: the innermost reason, and its place in the user's text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from moldau.sql.errors import SqlError
from moldau.sql.spark_errors import MAX_MESSAGE, sql_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from moldau.sql.statements import QueryText

WRAPPERS: Final = frozenset({"STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR", "FOREACH_USER_FUNCTION_ERROR"})
"""Conditions of Spark that only say that something inside has failed."""
_REASON: Final = re.compile(r"\[([A-Z][A-Z0-9_]+)(?:\.[A-Z0-9_]+)*\] ([^\n]+)")
_OWN: Final = re.compile(r"^(?:moldau\.[\w.]+|pyspark\.errors\.exceptions\.base\.\w+): (.+)$", re.MULTILINE)
_PLACE: Final = re.compile(r"== SQL \(line (\d+), position (\d+)\)")
_ADVICE: Final = re.compile(r"\s*(?:If necessary set|SQLSTATE:|Use `).*")
_WORDS: Final = {"DIVIDE_BY_ZERO": ("division by zero", "try_divide(a, b) gives NULL instead")}


def failure(error: BaseException, query: QueryText, spark: SparkSession | None = None) -> SqlError:
    """The error of a query that runs or has run. Spark wraps it in the errors of its threads and processes."""
    from pyspark.errors.exceptions.base import PySparkException

    if isinstance(error, SqlError):
        return error
    if isinstance(error, PySparkException) and (error.getCondition() or "") not in WRAPPERS:
        return sql_error(error, query, spark)
    text = str(error)
    own = _OWN.findall(text)
    if own:
        return SqlError(str(own[-1]).strip()[:MAX_MESSAGE])
    reasons = [one for one in _REASON.finditer(text) if one.group(1) not in WRAPPERS]
    if not reasons:
        return SqlError((text.strip().splitlines() or [type(error).__name__])[0][:MAX_MESSAGE])
    reason = reasons[-1]
    message, hint = _WORDS.get(reason.group(1)) or (_ADVICE.sub("", reason.group(2)).rstrip(". "), None)
    place = _PLACE.search(text, reason.end())
    if place is None:
        return SqlError(message, hint=hint)
    at = query.locate_line(int(place.group(1)), int(place.group(2)) - 1)
    return SqlError(message, line=at.line, column=at.column, hint=hint)
