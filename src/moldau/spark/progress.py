"""Lag of a streaming query, computed from the progress that Spark reports."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from moldau.client.data_types import TopicPartition
from moldau.spark.offsets import StreamOffset


def lag(progress: Any) -> dict[TopicPartition, int]:
    """Return the number of unread offsets per partition at the time of the last micro-batch.

    `progress` is `query.lastProgress`, the progress that a StreamingQueryListener gets, or the JSON of either. Sources
    of other formats, and sources that have not reported their latest offsets, are left out.

        behind = sum(lag(query.lastProgress).values())
    """
    behind: dict[TopicPartition, int] = {}
    for source in _field(progress, "sources") or ():
        latest, end = (_offsets(_field(source, name)) for name in ("latestOffset", "endOffset"))
        if latest is None or end is None:
            continue
        for partition, offset in latest.items():
            behind[partition] = behind.get(partition, 0) + max(offset - end.get(partition, 0), 0)
    return behind


def _field(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


def _offsets(value: Any) -> Mapping[TopicPartition, int] | None:
    """Spark reports an offset as JSON text, as parsed JSON, or not at all."""
    try:
        parsed = json.loads(value) if isinstance(value, str) else value
        return StreamOffset.from_json(parsed).offsets if isinstance(parsed, Mapping) else None
    except (ValueError, RuntimeError):
        return None  # the offset of another format
