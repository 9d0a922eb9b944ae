"""Spark data source `format("moldau")`: reads and writes topics, without a jar.

It uses PySpark's Python Data Source API. Spark finds the format through the package `pyspark_moldau`. This package
exports the helpers for users:

    from moldau.spark import from_moldau, lag, session, write_updates

Importing this package sets PYSPARK_PYTHON to this interpreter, unless one is already chosen: see `sessions.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau.spark.functions import from_moldau
from moldau.spark.progress import lag
from moldau.spark.sessions import session

if TYPE_CHECKING:
    from moldau.spark.updates import write_updates

__all__ = ["from_moldau", "lag", "session", "write_updates"]


def __getattr__(name: str) -> Any:
    # Spark imports this package in each Python process that it starts, so the sink's clients are loaded on first use.
    if name != "write_updates":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from moldau.spark.updates import write_updates

    return write_updates
