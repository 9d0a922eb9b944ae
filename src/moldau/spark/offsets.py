"""Offsets in Spark's JSON: the format of Spark's Kafka connector, with additional entries.

Options and checkpoints use `{"orders": {"0": 23, "1": 42}}`, so that a query can change its format from "kafka" to
"moldau" and keep its checkpoint. A streaming offset of ours has up to three more entries, with names that no topic can
have:

- `@ids`: the id of each topic. A topic that was deleted and created again has another id, and the old offsets are
  invalid.
- `@initial`: this is the start of a new query.
- `@from`: the start of a query's first batch. Spark logs the end of a batch. For the first batch it asks the source
  again for the start. With `startingOffsets=latest`, a restart in the middle of that batch would get a later start, and
  the records between the two would be lost. So the end offset that Spark logs contains the start as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moldau.client.data_types import TopicPartition
from moldau.client.errors import ConfigurationError, IllegalStateError

EARLIEST = -2
LATEST = -1

IDS = "@ids"
INITIAL = "@initial"
FROM = "@from"


@dataclass(frozen=True)
class StreamOffset:
    """The progress of a streaming query: the next offset of each partition, and the ids of the topics."""

    offsets: Mapping[TopicPartition, int]
    ids: Mapping[str, str] = field(default_factory=dict)
    """The id of each topic, 32 hex digits. A checkpoint of Spark's Kafka connector has none, and then none is
    compared."""
    initial: bool = False
    began: Mapping[TopicPartition, int] | None = None

    def as_json(self) -> dict[str, Any]:
        """The offset as JSON, always in the same order: Spark compares offsets as texts, and another order would start
        a new micro-batch."""
        value: dict[str, Any] = nested_offsets(self.offsets)
        if self.ids:
            value[IDS] = {topic: self.ids[topic] for topic in sorted(self.ids)}
        if self.initial:
            value[INITIAL] = True
        if self.began is not None:
            value[FROM] = nested_offsets(self.began)
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> StreamOffset:
        try:
            offsets = flat({topic: inner for topic, inner in value.items() if not topic.startswith("@")})
            ids = dict(value.get(IDS, {}))
            began = flat(value[FROM]) if FROM in value else None
        except (TypeError, ValueError, AttributeError) as error:
            raise IllegalStateError(
                f"the checkpoint contains an offset that format('moldau') did not write: {json.dumps(value)[:200]}; "
                "use the checkpoint of the query that this one continues, or a new one"
            ) from error
        return cls(offsets, ids, bool(value.get(INITIAL, False)), began)

    def same_place(self, other: StreamOffset) -> bool:
        """Whether both have the same offsets in the same topics."""
        return dict(self.offsets) == dict(other.offsets) and dict(self.ids) == dict(other.ids)


def nested_offsets(offsets: Mapping[TopicPartition, int]) -> dict[str, Any]:
    """`{"topic": {"0": 23}}`, with topics and partitions sorted."""
    nested: dict[str, Any] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        nested.setdefault(topic, {})[str(partition)] = offset
    return nested


def flat(nested: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, inner in nested.items()
        for partition, offset in inner.items()
    }


def parse_offsets(option: str, text: str) -> dict[TopicPartition, int]:
    """Parse an option such as `{"topic": {"0": 23, "1": -2}}`."""
    offsets = {}
    for topic, inner in _topics(option, text).items():
        if not isinstance(inner, dict) or not inner:
            raise _malformed(option, text, f"the entry of {topic!r} is not a map of partitions to numbers")
        for partition, offset in inner.items():
            if isinstance(offset, bool) or not isinstance(offset, int):
                raise _malformed(option, text, f"{offset!r} at {topic!r}, partition {partition}, is not a whole number")
            offsets[TopicPartition(topic, _partition(option, text, topic, partition))] = offset
    return offsets


def parse_partitions(option: str, text: str) -> tuple[TopicPartition, ...]:
    """Parse an option such as `{"topic": [0, 1]}`."""
    found: dict[TopicPartition, None] = {}
    for topic, inner in _topics(option, text).items():
        if not isinstance(inner, list) or not inner:
            raise _malformed(option, text, f"the entry of {topic!r} is not a list of partitions")
        for partition in inner:
            found[TopicPartition(topic, _partition(option, text, topic, partition))] = None
    return tuple(sorted(found))


def _topics(option: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise _malformed(option, text, str(error)) from None
    if not isinstance(value, dict) or not value:
        raise _malformed(option, text, "it must be a map with at least one topic")
    return value


def _partition(option: str, text: str, topic: str, partition: object) -> int:
    try:
        number = int(partition) if isinstance(partition, str | int) and not isinstance(partition, bool) else -1
    except ValueError:
        number = -1
    if number < 0:
        raise _malformed(option, text, f"{partition!r} at {topic!r} is not a partition number")
    return number


def _malformed(option: str, text: str, why: str) -> ConfigurationError:
    example = '{"orders": [0, 1]}' if option == "assign" else '{"orders": {"0": 23, "1": -2}}'
    return ConfigurationError(f"option {option}: {text[:200]!r} is not JSON such as {example}: {why}")
