"""TimestampRouter: the topic renamed by the topic and the timestamp of the record."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.config_def import ConfigDef, Importance
from moldau.connect.record_batch import ConnectBatch
from moldau.connect.transforms.base import Transform
from moldau.connect.transforms.date_patterns import DatePattern
from moldau.connect.transforms.objects import fail
from moldau.connect.transforms.settings import text


class TimestampRouter(Transform):
    """Renames topics by time, such as one per day."""

    config_def = ConfigDef(
        [
            text(
                "topic.format",
                "The new topic; ${topic} and ${timestamp} stand for the old topic and the formatted timestamp.",
                "${topic}-${timestamp}",
                Importance.HIGH,
            ),
            text(
                "timestamp.format",
                "Format of the timestamp, in UTC: a pattern of Java's SimpleDateFormat.",
                "yyyyMMdd",
                Importance.HIGH,
            ),
        ]
    )

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.parts = re.split(r"(\$\{topic\}|\$\{timestamp\})", config["topic.format"])
        self.pattern = DatePattern(config["timestamp.format"])

    def apply(self, batch: ConnectBatch) -> list[ConnectBatch]:
        fail(batch.timestamp.is_null(), "Timestamp missing on record", batch.num_rows)
        columns: dict[str, pa.Array] = {"${topic}": batch.topic}
        if "${timestamp}" in self.parts:
            columns["${timestamp}"] = self.pattern.format(batch.timestamp)
        parts = [columns.get(part, pa.scalar(part)) for part in self.parts if part]
        if not any(isinstance(part, pa.Array) for part in parts):
            topic = pa.repeat(pa.scalar(self.config["topic.format"]), batch.num_rows)
        else:
            topic = pc.binary_join_element_wise(*parts, "")
        return [replace(batch, topic=topic)]
