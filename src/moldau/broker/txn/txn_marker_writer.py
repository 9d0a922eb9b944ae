"""Transaction marker writer: appends markers to partitions that this broker leads.

It reports each marker when all in-sync replicas have it.

A partition of `__consumer_offsets` gets its marker through the group coordinator, because the marker commits or
discards the offsets of the transaction.

The writer does not choose the partitions, and it does not retry. Its callers do: `txn_marker_sender` for the
transaction coordinator, and the handler of WriteTxnMarkers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from moldau.broker.txn.marker_watches import MarkerWatches
from moldau.cluster.image import CONSUMER_OFFSETS
from moldau.coordinator.outcome import TxnProducer
from moldau.coordinator.runtime import RunningShard
from moldau.log.errors import LogError
from moldau.records import ControlType, encode_marker
from moldau.replication.manager import ReplicaManager
from moldau.replication.partition import Partition
from moldau.wire.errors import ErrorCode
from moldau.wire.number_types import ProducerId
from moldau.wire.producer_identity import ProducerIdentity
from moldau.wire.topic_partition import TopicPartition

Settled = Callable[[ErrorCode], None]


class TxnMarker:
    """The marker that ends one transaction, for any partition."""

    __slots__ = ("commit", "coordinator_epoch", "producer", "transaction_version")

    def __init__(
        self, producer: ProducerIdentity, commit: bool, coordinator_epoch: int, transaction_version: int = 0
    ) -> None:
        self.producer = producer
        self.commit = commit
        self.coordinator_epoch = coordinator_epoch
        self.transaction_version = transaction_version


class TxnMarkerWriter:
    """Writes markers into the partitions that this broker leads."""

    def __init__(
        self,
        replicas: ReplicaManager,
        now_ms: Callable[[], int],
        group_shard_at: Callable[[int], RunningShard[Any] | ErrorCode],
        watches: MarkerWatches,
    ) -> None:
        self._replicas = replicas
        self._now_ms = now_ms
        self._group_shard_at = group_shard_at
        self._watches = watches

    def write(self, marker: TxnMarker, topic: str, index: int, settled: Settled) -> None:
        """Append the marker to one partition. `settled` is called with NONE when all in-sync replicas have it, or with
        the error."""
        partition = self._replicas.find(topic, index)
        if partition is None:
            settled(self._replicas.why_missing(topic, index))
            return
        try:
            if error := partition.leader_error():
                raise LogError(error, f"{partition!r} is not led here")
            _check_version(partition, marker)
            if topic == CONSUMER_OFFSETS:
                next_offset = self._append_offsets_marker(marker, index)
            else:
                next_offset = self._append_marker(marker, partition)
        except LogError as error:
            settled(error.code)
            return
        self._watches.marker_written(topic, index, marker.producer.producer_id)
        if partition.is_safe(next_offset):
            settled(ErrorCode.NONE)
        else:
            partition.await_ack(next_offset, _MarkerAck(settled))

    def _append_marker(self, marker: TxnMarker, partition: Partition) -> int:
        batch = encode_marker(
            ControlType.COMMIT if marker.commit else ControlType.ABORT,
            producer_id=marker.producer.producer_id,
            producer_epoch=marker.producer.epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=self._now_ms(),
        )
        result = partition.append(memoryview(batch), self._now_ms(), all_replicas=True, coordinator=True)
        self._replicas.appended(partition)
        return result.last_offset + 1

    def _append_offsets_marker(self, marker: TxnMarker, index: int) -> int:
        running = self._group_shard_at(index)
        if isinstance(running, ErrorCode):
            raise LogError(running, f"the group coordinator of {CONSUMER_OFFSETS}-{index} is not available")
        producer = TxnProducer(marker.producer.producer_id, marker.producer.epoch)
        return running.write_marker(producer, marker.commit, marker.coordinator_epoch)


class MarkerWrites:
    """The writes of one marker to several partitions. `done` is called once, when each has succeeded or failed."""

    __slots__ = ("_begun", "_done", "_left", "failed")

    def __init__(self, done: Callable[[MarkerWrites], None]) -> None:
        self._done = done
        self._begun = False
        self._left: dict[TopicPartition, None] = {}
        self.failed: dict[TopicPartition, ErrorCode] = {}

    def start(self, writer: TxnMarkerWriter, marker: TxnMarker, partitions: Iterable[TopicPartition]) -> None:
        ordered = sorted(partitions)  # a fixed order of appends, so that simulations replay from their seed
        self._left = dict.fromkeys(ordered)
        for one in ordered:
            writer.write(marker, *one, lambda error, one=one: self._settled(one, error))  # type: ignore[misc]
        self._begun = True
        if not self._left:
            self._done(self)

    def give_up(self) -> None:
        """Fail all partitions that have not answered yet with REQUEST_TIMED_OUT."""
        for one in list(self._left):
            self._settled(one, ErrorCode.REQUEST_TIMED_OUT)

    def _settled(self, one: TopicPartition, error: ErrorCode) -> None:
        if one not in self._left:
            return  # `give_up` has failed it already
        del self._left[one]
        if error != ErrorCode.NONE:
            self.failed[one] = error
        if self._begun and not self._left:
            self._done(self)


class _MarkerAck:
    __slots__ = ("_settled",)

    def __init__(self, settled: Settled) -> None:
        self._settled = settled

    def acknowledged(self, error: ErrorCode) -> None:
        self._settled(error)


def _check_version(partition: Partition, marker: TxnMarker) -> None:
    """Refuse a late marker of the previous transaction, which would end the one that is open now.

    From transaction version 2 on, the producer epoch grows with each transaction, so such a marker is recognised.
    """
    if marker.transaction_version < 2:
        return
    producer = partition.log.active_producers().get(ProducerId(marker.producer.producer_id))
    if producer is not None and producer.transaction_start >= 0 and marker.producer.epoch <= producer.epoch:
        raise LogError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {marker.producer.producer_id} has a transaction open in epoch {producer.epoch}",
        )
