"""Spark data source `format("moldau")`: reads and writes topics, without a jar.

It uses PySpark's Python Data Source API. Spark finds the format through the package `pyspark_moldau`. This package
exports the helpers for users; docs/spark-helpers.md has an example of each:

    from moldau.spark import from_topic, session, to_topic

Importing this package sets PYSPARK_PYTHON to this interpreter, unless one is already chosen: see `sessions.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from moldau.spark.functions import from_moldau
from moldau.spark.progress import lag
from moldau.spark.sessions import session

if TYPE_CHECKING:
    from moldau.spark.avro_frames import to_moldau
    from moldau.spark.deduplication import deduplicate
    from moldau.spark.key_state import KeyedProcessor, KeyState, keyed_state
    from moldau.spark.progress_view import show_progress
    from moldau.spark.topic_frames import from_topic, to_topic
    from moldau.spark.updates import write_updates
    from moldau.spark.upserts import upsert_batch

__all__ = [
    "KeyState",
    "KeyedProcessor",
    "deduplicate",
    "from_moldau",
    "from_topic",
    "keyed_state",
    "lag",
    "session",
    "show_progress",
    "to_moldau",
    "to_topic",
    "upsert_batch",
    "write_updates",
]

# Spark imports this package in each Python process that it starts, so these modules are loaded on first use.
_LOADED_ON_USE = {
    "KeyState": "key_state",
    "KeyedProcessor": "key_state",
    "deduplicate": "deduplication",
    "from_topic": "topic_frames",
    "keyed_state": "key_state",
    "show_progress": "progress_view",
    "to_moldau": "avro_frames",
    "to_topic": "topic_frames",
    "upsert_batch": "upserts",
    "write_updates": "updates",
}


def __getattr__(name: str) -> Any:
    if name not in _LOADED_ON_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LOADED_ON_USE[name]}"), name)
