"""Events, answers and effects of a transaction coordinator shard."""

from __future__ import annotations

from typing import Any, NamedTuple

from moldau.transactions.transaction import NOBODY, Identity
from moldau.wire.errors import ErrorCode
from moldau.wire.topic_partition import TopicPartition


class InitProducer(NamedTuple):
    """InitProducerId with a transactional id. Answered with `ProducerInitialised`."""

    ticket: Any
    transactional_id: str
    timeout_ms: int
    expected: Identity | None = None
    """The identity of a producer that continues after an error."""
    keep_prepared: bool = False


class AddPartitions(NamedTuple):
    """Partitions to add to a transaction, which begins if none is open. Answered with an `ErrorCode`."""

    ticket: Any
    transactional_id: str
    identity: Identity
    partitions: frozenset[TopicPartition]
    client_version: int


class EndTransaction(NamedTuple):
    """Commit or abort. Answered with `TransactionEnded` as soon as the decision is stored."""

    ticket: Any
    transactional_id: str
    identity: Identity
    commit: bool
    client_version: int


class MarkersWritten(NamedTuple):
    """Every partition of a decided transaction has its marker, or no longer exists."""

    markers: WriteMarkers


class ProducerInitialised(NamedTuple):
    error: ErrorCode
    identity: Identity = NOBODY
    ongoing: Identity = NOBODY


class TransactionEnded(NamedTuple):
    error: ErrorCode
    identity: Identity = NOBODY


class WriteMarkers(NamedTuple):
    """The effect of a decision: write the same marker to each of these partitions."""

    transactional_id: str
    producer: Identity
    commit: bool
    partitions: frozenset[TopicPartition]
    client_version: int
