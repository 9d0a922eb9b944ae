"""RegexRouter: the topic renamed by a regular expression.

A topic that the expression matches as a whole gets the replacement for its first match, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from moldau.connect.config_def import NO_DEFAULT, ConfigDef, ConfigKey, ConfigType, Importance
from moldau.connect.record_batch import ConnectBatch
from moldau.connect.transforms.base import Transform
from moldau.connect.transforms.java_patterns import check_pattern, for_distinct, java_pattern, replaced
from moldau.connect.transforms.objects import fail
from moldau.connect.transforms.settings import text


class RegexRouter(Transform):
    """Renames topics by a pattern."""

    config_def = ConfigDef(
        [
            ConfigKey(
                "regex",
                ConfigType.STRING,
                "Regular expression that a topic must match as a whole.",
                importance=Importance.HIGH,
                validator=check_pattern,
            ),
            text("replacement", "The new name; $1 stands for the first group.", NO_DEFAULT, Importance.HIGH),
        ]
    )

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.pattern = java_pattern(config["regex"])

    def apply(self, batch: ConnectBatch) -> list[ConnectBatch]:
        topic = batch.topic
        try:
            topic = for_distinct(topic, self._renamed, pa.string())
        except (ValueError, IndexError) as error:
            fail(None, f"topic cannot be renamed to {self.config['replacement']!r}: {error}", batch.num_rows)
        return [replace(batch, topic=topic)]

    def _renamed(self, topic: str) -> str:
        return replaced(self.pattern, self.config["replacement"], topic)
