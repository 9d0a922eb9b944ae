"""Predicates of transforms: conditions on topics, headers and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.config_def import ConfigDef, ConfigKey, ConfigType, not_empty
from moldau.connect.record_batch import ConnectBatch
from moldau.connect.transforms.base import Predicate
from moldau.connect.transforms.java_patterns import check_pattern, for_distinct, java_pattern


class TopicNameMatches(Predicate):
    """The name of the topic matches a regular expression as a whole."""

    config_def = ConfigDef(
        [
            ConfigKey(
                "pattern",
                ConfigType.STRING,
                "Regular expression that a topic must match as a whole.",
                validator=lambda name, value: not_empty(name, value) or check_pattern(name, value),
            )
        ]
    )

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.pattern = java_pattern(config["pattern"])

    def test(self, batch: ConnectBatch) -> pa.BooleanArray:
        matches = for_distinct(batch.topic, lambda topic: self.pattern.fullmatch(topic) is not None, pa.bool_())
        return pc.fill_null(matches, False)


class HasHeaderKey(Predicate):
    """The record has at least one header with this name."""

    config_def = ConfigDef([ConfigKey("name", ConfigType.STRING, "Name of the header.", validator=not_empty)])

    def test(self, batch: ConnectBatch) -> pa.BooleanArray:
        found = pa.repeat(pa.scalar(False), batch.num_rows)
        for header in batch.headers:
            if header.name == self.config["name"]:
                if header.present is None:
                    return pa.repeat(pa.scalar(True), batch.num_rows)
                found = pc.or_(found, header.present)
        return found


class RecordIsTombstone(Predicate):
    """The value of the record is null."""

    def test(self, batch: ConnectBatch) -> pa.BooleanArray:
        return batch.value.array.is_null()
