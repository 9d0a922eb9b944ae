"""Data types of all clients: partitions, offsets, record metadata, broker addresses."""

from __future__ import annotations

from typing import NamedTuple

from moldau.wire.topic_partition import TopicPartition

__all__ = ["NO_LEADER", "NO_OFFSET", "Node", "OffsetAndMetadata", "RecordMetadata", "TopicPartition"]


class OffsetAndMetadata(NamedTuple):
    """An offset to commit: the offset of the next record to read, any text, and the leader epoch if known."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


class RecordMetadata(NamedTuple):
    """The partition, offset and timestamp of a delivered record. With acks=0 the offset is -1."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Milliseconds since 1970: the timestamp of the producer, or of the broker if the topic has LogAppendTime."""


class Node(NamedTuple):
    """A broker: its id, address and rack."""

    id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port} (id {self.id})"


NO_OFFSET = -1
"""The value for an unknown offset."""

NO_LEADER = -1
"""The leader id of a partition without a leader."""
