"""Writes the markers that end a transaction into partitions that this broker leads, and says when they are safe.

A partition of `__consumer_offsets` gets its marker through the group coordinator, which has offsets to bring into
force. Whose partitions these are, and what becomes of those that are led elsewhere or cannot be written to now, is for
those to know who ask: the coordinator of the transaction (`ending`), or the handler of WriteTxnMarkers.
"""

from __future__ import annotations

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

Settled = Callable[[ErrorCode], None]


class Marker:
    """The end of one transaction, for any partition."""

    __slots__ = ("commit", "coordinator_epoch", "producer", "transaction_version")

    def __init__(self, producer: Identity, commit: bool, coordinator_epoch: int, transaction_version: int = 0) -> None:
        self.producer = producer
        self.commit = commit
        self.coordinator_epoch = coordinator_epoch
        self.transaction_version = transaction_version


class Writing:
    """Markers on their way into several partitions. `done` is called once, when all are safe or have failed."""

    __slots__ = ("_begun", "_done", "_left", "failed")

    def __init__(self, done: Callable[[Writing], None]) -> None:
        self._done = done
        self._begun = False
        self._left: dict[TopicPartition, None] = {}
        self.failed: dict[TopicPartition, ErrorCode] = {}

    def start(self, broker: Broker, marker: Marker, partitions: Iterable[TopicPartition]) -> None:
        ordered = sorted(partitions)  # the order reaches the logs
        self._left = dict.fromkeys(ordered)
        for one in ordered:
            write_marker(broker, marker, *one, lambda error, one=one: self._settled(one, error))  # type: ignore[misc]
        self._begun = True
        if not self._left:
            self._done(self)

    def give_up(self) -> None:
        """What is not safe by now is answered with REQUEST_TIMED_OUT."""
        for one in list(self._left):
            self._settled(one, ErrorCode.REQUEST_TIMED_OUT)

    def _settled(self, one: TopicPartition, error: ErrorCode) -> None:
        if one not in self._left:
            return  # it was given up
        del self._left[one]
        if error != ErrorCode.NONE:
            self.failed[one] = error
        if self._begun and not self._left:
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
            raise LogError(error, f"{partition!r} is not led here")
        _check_version(partition, marker)
        if topic == CONSUMER_OFFSETS:
            next_offset = _append_offsets_marker(broker, marker, index)
        else:
            next_offset = _append_marker(broker, marker, partition)
    except LogError as error:
        settled(error.code)
        return
    broker.transactions.guards.marker_written(topic, index, marker.producer.producer_id)
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
    result = partition.append(memoryview(batch), broker.now_ms(), all_replicas=True, coordinator=True)
    broker.replicas.appended(partition)
    return result.last_offset + 1


def _append_offsets_marker(broker: Broker, marker: Marker, index: int) -> int:
    running = broker.groups.shard_at(index)
    if isinstance(running, ErrorCode):
        raise LogError(running, "the group coordinator is not there")
    producer = Producer(marker.producer.producer_id, marker.producer.epoch)
    return running.write_marker(producer, marker.commit, marker.coordinator_epoch)
