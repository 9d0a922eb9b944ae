"""How far behind a streaming query is, from the progress that Spark reports."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from moldau.client.model import TopicPartition
from moldau.spark.offsets import StreamOffset


def lag(progress: Any) -> dict[TopicPartition, int]:
    """Offsets that were there and not read yet when the last micro-batch was made, partition by partition.

    `progress` is `query.lastProgress`, what a StreamingQueryListener gets, or the JSON of either. Sources of
    other formats are left out, as are those that have not said what their latest offsets are.

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
    """Spark shows an offset as a text of JSON, as parsed JSON, or not at all."""
    try:
        parsed = json.loads(value) if isinstance(value, str) else value
        return StreamOffset.from_json(parsed).offsets if isinstance(parsed, Mapping) else None
    except (ValueError, RuntimeError):
        return None  # another format's offset
