"""Events, answers and effects of a transaction coordinator shard."""

from __future__ import annotations

from typing import Any, NamedTuple

from moldau.wire.errors import ErrorCode
from moldau.wire.producer_identity import NO_IDENTITY, ProducerIdentity
from moldau.wire.topic_partition import TopicPartition


class InitProducer(NamedTuple):
    """InitProducerId with a transactional id. Answered with `ProducerInitialised`."""

    ticket: Any
    transactional_id: str
    timeout_ms: int
    expected: ProducerIdentity | None = None
    """The identity of a producer that continues after an error."""
    keep_prepared: bool = False


class AddPartitions(NamedTuple):
    """Partitions to add to a transaction, which begins if none is open. Answered with an `ErrorCode`."""

    ticket: Any
    transactional_id: str
    identity: ProducerIdentity
    partitions: frozenset[TopicPartition]
    client_version: int


class EndTransaction(NamedTuple):
    """Commit or abort. Answered with `TransactionEnded` as soon as the decision is stored."""

    ticket: Any
    transactional_id: str
    identity: ProducerIdentity
    commit: bool
    client_version: int


class MarkersWritten(NamedTuple):
    """Every partition of a decided transaction has its marker, or no longer exists."""

    markers: WriteMarkers


class ProducerInitialised(NamedTuple):
    error: ErrorCode
    identity: ProducerIdentity = NO_IDENTITY
    ongoing: ProducerIdentity = NO_IDENTITY


class TransactionEnded(NamedTuple):
    error: ErrorCode
    identity: ProducerIdentity = NO_IDENTITY


class WriteMarkers(NamedTuple):
    """The effect of a decision: write the same marker to each of these partitions."""

    transactional_id: str
    producer: ProducerIdentity
    commit: bool
    partitions: frozenset[TopicPartition]
    client_version: int
