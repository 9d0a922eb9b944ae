"""Planning of a sink's batch: positions, offsets to read, and their division into tasks. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from moldau.client.data_types import TopicPartition
from moldau.connect.connector import SinkSlice
from moldau.connect.engine.job import balanced
from moldau.spark.planning import limited

METADATA_PREFIX: Final = "moldau:"


@dataclass(frozen=True)
class SinkView:
    """What the brokers have: the ends of the partitions that a sink reads, and the ids of their topics."""

    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The last stable offset."""
    ids: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    """Topics that the sink names and that do not exist."""


@dataclass(frozen=True)
class CommittedMark:
    """What is stored with a committed offset: the batch, and up to where dead letters have been written."""

    batch: int = -1
    dead_until: int = -1

    def text(self) -> str:
        return f"{METADATA_PREFIX}batch={self.batch},dead={self.dead_until}"

    @classmethod
    def parse(cls, metadata: str) -> CommittedMark:
        """The mark in the metadata of an offset. Offsets that others have committed have none."""
        if not metadata.startswith(METADATA_PREFIX):
            return cls()
        try:
            fields = dict(one.split("=", 1) for one in metadata[len(METADATA_PREFIX) :].split(","))
            return cls(int(fields["batch"]), int(fields["dead"]))
        except (ValueError, KeyError):
            return cls()


def lag(positions: Mapping[TopicPartition, int], view: SinkView) -> int:
    """The number of offsets that are not read yet. A partition without a position counts from its beginning."""
    return sum(max(end - positions.get(partition, 0), 0) for partition, end in view.ends.items())


def unknown(positions: Mapping[TopicPartition, int], view: SinkView) -> list[TopicPartition]:
    """Partitions without a position."""
    return sorted(partition for partition in view.ends if partition not in positions)


def truncated(positions: Mapping[TopicPartition, int], view: SinkView) -> list[TopicPartition]:
    """Partitions that end before the position: their topic was deleted and created again, or has lost records."""
    return sorted(partition for partition, end in view.ends.items() if positions.get(partition, 0) > end)


def recreated(ids: Mapping[str, str], view: SinkView) -> list[TopicPartition]:
    """Partitions of topics that have another id than before: positions in them mean nothing."""
    topics = {name for name, now in view.ids.items() if now and ids.get(name, now) != now}
    return sorted(partition for partition in view.ends if partition.topic in topics)


def has_work(positions: Mapping[TopicPartition, int], view: SinkView) -> bool:
    return any(positions.get(partition, 0) != end for partition, end in view.ends.items())


def pending(positions: Mapping[TopicPartition, int], view: SinkView) -> list[SinkSlice]:
    """Everything that is not written yet, one slice per partition."""
    return [
        SinkSlice(partition, positions[partition], end)
        for partition, end in sorted(view.ends.items())
        if partition in positions and positions[partition] < end
    ]


def capped(slices: Sequence[SinkSlice], most: int) -> list[SinkSlice]:
    """The next batch: at most so many offsets, each partition in proportion to what it has."""
    ends = limited({one.partition: one.start for one in slices}, {one.partition: one.end for one in slices}, most)
    return [SinkSlice(one.partition, one.start, ends[one.partition]) for one in slices if one.start < one.end]


def divided(slices: Sequence[SinkSlice], at_most: int) -> list[list[int]]:
    """The indexes of the slices of each task. A slice is never divided: a partition is written in order."""
    return balanced([[index] for index in range(len(slices))], [one.end - one.start for one in slices], at_most)
