"""Writes the markers that end a transaction, one into each of its partitions, and says when all are safe.

A partition of `__consumer_offsets` gets its marker through the group coordinator, which has offsets to bring into
force. A partition that is gone has nothing to end. One that cannot be written to now is tried again: the decision
stands in the coordinator's log, and nothing may come after it before everybody has heard of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from moldau.cluster.image import CONSUMER_OFFSETS
from moldau.groups.outcome import Producer
from moldau.log.errors import LogError
from moldau.records import ControlType, encode_marker
from moldau.replication.partition import Partition
from moldau.transactions.transaction import Identity, TopicPartition
from moldau.wire.errors import ErrorCode

if TYPE_CHECKING:
    from moldau.broker.broker import Broker

log = logging.getLogger(__name__)

Settled = Callable[[ErrorCode], None]

PAST = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""A log that says this has seen a later end of the transaction."""
GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class Marker:
    """The end of one transaction, for any partition."""

    __slots__ = ("commit", "coordinator_epoch", "producer", "transaction_version")

    def __init__(self, producer: Identity, commit: bool, coordinator_epoch: int, transaction_version: int = 0) -> None:
        self.producer = producer
        self.commit = commit
        self.coordinator_epoch = coordinator_epoch
        self.transaction_version = transaction_version


class Writing:
    """Markers on their way into several partitions."""

    __slots__ = ("_done", "_left", "failed")

    def __init__(self, done: Callable[[Writing], None]) -> None:
        self._done = done
        self._left = 1  # our own, so that the last partition cannot be the last before all were begun
        self.failed: dict[TopicPartition, ErrorCode] = {}

    def start(self, broker: Broker, marker: Marker, partitions: Iterable[TopicPartition]) -> None:
        for one in partitions:
            self._left += 1
            write_marker(broker, marker, *one, lambda error, one=one: self._settled(one, error))  # type: ignore[misc]
        self._finish_one()

    def _settled(self, one: TopicPartition, error: ErrorCode) -> None:
        if error != ErrorCode.NONE:
            self.failed[one] = error
        self._finish_one()

    def _finish_one(self) -> None:
        self._left -= 1
        if not self._left:
            self._done(self)


class _Ack:
    __slots__ = ("_settled",)

    def __init__(self, settled: Settled) -> None:
        self._settled = settled

    def acknowledged(self, error: ErrorCode) -> None:
        self._settled(error)


def write_marker(broker: Broker, marker: Marker, topic: str, index: int, settled: Settled) -> None:
    """Appends the marker to one partition; `settled` is told when it is safe there, or what went wrong."""
    partition = broker.replicas.find(topic, index)
    if partition is None:
        settled(broker.replicas.why_missing(topic, index))
        return
    try:
        if error := partition.leader_error():
            raise LogError(error, f"{partition!r} is not available")
        _check_version(partition, marker)
        if topic == CONSUMER_OFFSETS:
            next_offset = _append_offsets_marker(broker, marker, index)
        else:
            next_offset = _append_marker(broker, marker, partition)
    except LogError as error:
        settled(error.code)
        return
    if partition.is_safe(next_offset):
        settled(ErrorCode.NONE)
    else:
        partition.await_ack(next_offset, _Ack(settled))


def _check_version(partition: Partition, marker: Marker) -> None:
    """From transaction version 2 on every end has its own epoch: a late marker must not end the transaction after."""
    if marker.transaction_version < 2:
        return
    producer = partition.log.active_producers().get(marker.producer.producer_id)
    if producer is not None and producer.transaction_start >= 0 and marker.producer.epoch <= producer.epoch:
        raise LogError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {marker.producer.producer_id} has a transaction open in epoch {producer.epoch}",
        )


def _append_marker(broker: Broker, marker: Marker, partition: Partition) -> int:
    batch = encode_marker(
        ControlType.COMMIT if marker.commit else ControlType.ABORT,
        producer_id=marker.producer.producer_id,
        producer_epoch=marker.producer.epoch,
        coordinator_epoch=marker.coordinator_epoch,
        timestamp=broker.now_ms(),
    )
    partition.log.append(memoryview(batch), partition.leader_epoch, broker.now_ms(), coordinator=True)
    next_offset = partition.log.end_offset
    partition.advance()
    broker.replicas.appended(partition)
    return next_offset


def _append_offsets_marker(broker: Broker, marker: Marker, index: int) -> int:
    running = broker.groups.shard_at(index)
    if isinstance(running, ErrorCode):
        raise LogError(running, "the group coordinator is not there")
    producer = Producer(marker.producer.producer_id, marker.producer.epoch)
    return running.write_marker(producer, marker.commit, marker.coordinator_epoch)
