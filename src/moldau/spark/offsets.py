"""Offsets of partitions as Spark keeps them: the JSON of Spark's own Kafka connector, and what we add to it.

Options and checkpoints speak `{"orders": {"0": 23, "1": 42}}`, so that a query may change its format from "kafka" to
"moldau" and keep its checkpoint. A streaming offset of ours has up to three entries more, under names that no topic can
have:

- `@ids`: the id of each topic. A topic that was deleted and created again has another id, and none of the old offsets
  mean anything there.
- `@initial`: this is where a new query begins.
- `@from`: where the first batch of a query begins. Spark logs where a batch ends and, for the first one, asks
  the source again where it began. With `startingOffsets=latest` a restart in the middle of that batch would get a later
  answer, and what was in between would be lost; so the end that Spark logs carries its own beginning.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moldau.client.errors import ConfigurationError, IllegalStateError
from moldau.client.model import TopicPartition

EARLIEST = -2
LATEST = -1

IDS = "@ids"
INITIAL = "@initial"
FROM = "@from"


@dataclass(frozen=True)
class StreamOffset:
    """How far a streaming query has come: the next offset of each partition, and the topics that these belong to."""

    offsets: Mapping[TopicPartition, int]
    ids: Mapping[str, str] = field(default_factory=dict)
    """Topic to its id, 32 hex digits. A checkpoint of Spark's own connector has none, and then none is compared."""
    initial: bool = False
    began: Mapping[TopicPartition, int] | None = None

    def as_json(self) -> dict[str, Any]:
        """Always in the same order: Spark compares offsets as texts, and a new order would be a new micro-batch."""
        value: dict[str, Any] = by_topic(self.offsets)
        if self.ids:
            value[IDS] = {topic: self.ids[topic] for topic in sorted(self.ids)}
        if self.initial:
            value[INITIAL] = True
        if self.began is not None:
            value[FROM] = by_topic(self.began)
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> StreamOffset:
        try:
            offsets = flat({topic: inner for topic, inner in value.items() if not topic.startswith("@")})
            ids = dict(value.get(IDS, {}))
            began = flat(value[FROM]) if FROM in value else None
        except (TypeError, ValueError, AttributeError) as error:
            raise IllegalStateError(
                f"the checkpoint holds an offset that format('moldau') did not write: {json.dumps(value)[:200]}; "
                "use the checkpoint of the query that this one continues, or a new one"
            ) from error
        return cls(offsets, ids, bool(value.get(INITIAL, False)), began)

    def same_place(self, other: StreamOffset) -> bool:
        """Whether nothing lies between the two."""
        return dict(self.offsets) == dict(other.offsets) and dict(self.ids) == dict(other.ids)


def by_topic(offsets: Mapping[TopicPartition, int]) -> dict[str, Any]:
    """`{"topic": {"0": 23}}`, topics and partitions in order."""
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
    """An option's `{"topic": {"0": 23, "1": -2}}`."""
    offsets = {}
    for topic, inner in _topics(option, text).items():
        if not isinstance(inner, dict) or not inner:
            raise _malformed(option, text, f"what stands at {topic!r} is not a map of partitions to numbers")
        for partition, offset in inner.items():
            if isinstance(offset, bool) or not isinstance(offset, int):
                raise _malformed(option, text, f"{offset!r} at {topic!r}, partition {partition}, is not a whole number")
            offsets[TopicPartition(topic, _partition(option, text, topic, partition))] = offset
    return offsets


def parse_partitions(option: str, text: str) -> tuple[TopicPartition, ...]:
    """An option's `{"topic": [0, 1]}`."""
    found: dict[TopicPartition, None] = {}
    for topic, inner in _topics(option, text).items():
        if not isinstance(inner, list) or not inner:
            raise _malformed(option, text, f"what stands at {topic!r} is not a list of partitions")
        for partition in inner:
            found[TopicPartition(topic, _partition(option, text, topic, partition))] = None
    return tuple(sorted(found))


def _topics(option: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise _malformed(option, text, str(error)) from None
    if not isinstance(value, dict) or not value:
        raise _malformed(option, text, "it has to be a map with at least one topic")
    return value


def _partition(option: str, text: str, topic: str, partition: object) -> int:
    try:
        number = int(partition) if isinstance(partition, str | int) and not isinstance(partition, bool) else -1
    except ValueError:
        number = -1
    if number < 0:
        raise _malformed(option, text, f"{partition!r} at {topic!r} is not a partition's number")
    return number


def _malformed(option: str, text: str, why: str) -> ConfigurationError:
    example = '{"orders": [0, 1]}' if option == "assign" else '{"orders": {"0": 23, "1": -2}}'
    return ConfigurationError(f"option {option}: {text[:200]!r} is not JSON such as {example}: {why}")
