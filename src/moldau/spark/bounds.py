"""Where a read begins or ends, as the options say it; `lookup.py` finds the offsets that are meant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from moldau.client.model import TopicPartition


class Edge(Enum):
    """An end of the log."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True)
class AtOffsets:
    """These offsets; -2 stands for the earliest of its partition, -1 for the latest."""

    option: str
    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True)
class AtTimes:
    """The first record of this time or later in each partition."""

    option: str
    timestamps_ms: Mapping[TopicPartition, int] | int
    """One time for all partitions, or one for each."""
    otherwise_latest: bool
    """What if a partition has no such record: its end, or an error."""


Bound = Edge | AtOffsets | AtTimes
