"""The nouns that all clients share: a partition, an offset, a record's place, a broker's address."""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class OffsetAndMetadata(NamedTuple):
    """An offset to commit: the next record to be read, a text of the application's own, the leader's epoch if known."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


class RecordMetadata(NamedTuple):
    """Where a record that was sent has its place. Without an acknowledgement (acks=0) the offset is -1."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Milliseconds since 1970: the producer's time, or the broker's where the topic says LogAppendTime."""


class Node(NamedTuple):
    """A broker, as the cluster's metadata names it."""

    id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port} (id {self.id})"


NO_OFFSET = -1
"""Stands for an offset that is not known."""

NO_LEADER = -1
"""The leader of a partition that has none at the moment."""
