"""Bounds of a read, as given in the options. `lookup.py` resolves them to offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from moldau.client.data_types import TopicPartition


class Edge(Enum):
    """An end of the log."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True)
class AtOffsets:
    """Explicit offsets; -2 stands for the earliest offset of the partition, -1 for the latest."""

    option: str
    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True)
class AtTimes:
    """The first record with this timestamp or a later one, in each partition."""

    option: str
    timestamps_ms: Mapping[TopicPartition, int] | int
    """One time for all partitions, or one per partition."""
    otherwise_latest: bool
    """For a partition without such a record: True starts at its end, False is an error."""


Bound = Edge | AtOffsets | AtTimes
