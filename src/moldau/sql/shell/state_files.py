"""Files that the shell keeps for its user: the history of statements, and Spark's log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

HISTORY: Final = "sql_history"
SPARK_LOG: Final = "sql_spark.log"


def state_directory(environment: Mapping[str, str]) -> Path:
    """The directory for state of the user, as the XDG base directories say."""
    given = environment.get("XDG_STATE_HOME", "")
    base = Path(given) if given.startswith("/") else Path(environment.get("HOME") or "/tmp") / ".local" / "state"
    return base / "moldau"
