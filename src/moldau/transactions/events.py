"""What a shard of the transaction coordinator is asked, what it answers, and what it wants done."""

from __future__ import annotations

from typing import Any, NamedTuple

from moldau.transactions.transaction import NOBODY, Identity, TopicPartition
from moldau.wire.errors import ErrorCode


class InitProducer(NamedTuple):
    """A producer wants to write under a transactional id. Answered with `ProducerInitialised`."""

    ticket: Any
    transactional_id: str
    timeout_ms: int
    expected: Identity | None = None
    """What the producer knows itself by, where it goes on after an error."""
    keep_prepared: bool = False


class AddPartitions(NamedTuple):
    """Partitions become part of a transaction, which begins if none is open. Answered with an `ErrorCode`."""

    ticket: Any
    transactional_id: str
    identity: Identity
    partitions: frozenset[TopicPartition]
    client_version: int


class EndTransaction(NamedTuple):
    """Commit or abort. Answered with `TransactionEnded` as soon as the decision is safe."""

    ticket: Any
    transactional_id: str
    identity: Identity
    commit: bool
    client_version: int


class MarkersWritten(NamedTuple):
    """Every partition of a decided transaction has its marker, or is gone."""

    markers: WriteMarkers


class ProducerInitialised(NamedTuple):
    error: ErrorCode
    identity: Identity = NOBODY
    ongoing: Identity = NOBODY


class TransactionEnded(NamedTuple):
    error: ErrorCode
    identity: Identity = NOBODY


class WriteMarkers(NamedTuple):
    """The effect of a decision: each of these partitions is to get the same marker."""

    transactional_id: str
    producer: Identity
    commit: bool
    partitions: frozenset[TopicPartition]
    client_version: int
