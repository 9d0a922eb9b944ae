"""Producer state of a log: sequence numbers, open transactions, and the `.snapshot` files that store them.

The rules of idempotence are here. `admit` decides whether a batch may be appended and changes nothing; `applied`
records that it was appended. Replay (recovery, replication) only records, because all batches were admitted before.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from moldau.log.aborted import AbortedTxn
from moldau.log.errors import LogError, RejectedBatch
from moldau.records import NO_PRODUCER_EPOCH, NO_SEQUENCE, BatchHeader, ControlType, Marker, crc32c
from moldau.wire.errors import ErrorCode
from moldau.wire.number_types import ProducerEpoch, ProducerId

MAX_SEQUENCE = 2**31 - 1
BATCHES_REMEMBERED = 5
"""A producer may have this many batches in flight; a retried batch is one of them."""

NO_OFFSET = -1

_SNAPSHOT_VERSION = 1
_SNAPSHOT_HEAD = Struct(">hIi")  # version, crc of what follows it, count
_CRC_FROM = 6
# producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, open transaction's start
_SNAPSHOT_ENTRY = Struct(">qhiqiqiq")


class BadSnapshotError(ValueError):
    """An invalid snapshot file."""


class ProducerBatch(NamedTuple):
    """A batch that a producer wrote."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerEntry:
    """The state of one producer id in one log."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "next_sequence", "transaction_start")

    def __init__(self, epoch: ProducerEpoch) -> None:
        self.epoch = epoch
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.next_sequence = 0
        self.transaction_start = NO_OFFSET
        """The first offset of its open transaction."""
        self.batches: list[ProducerBatch] = []

    def enter_epoch(self, epoch: ProducerEpoch) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches = []
            self.next_sequence = 0

    def find(self, first_sequence: int, last_sequence: int) -> ProducerBatch | None:
        """The remembered batch with exactly these sequences: the original of a retry."""
        for batch in self.batches:
            if batch[0] == first_sequence and batch[1] == last_sequence:
                return batch
        return None

    @property
    def complete(self) -> bool:
        """Whether as many batches are remembered as needed, so that earlier ones do not matter."""
        return len(self.batches) == BATCHES_REMEMBERED

    def prepend_batches(self, earlier: list[ProducerBatch]) -> None:
        """Add batches that are in the log before the remembered ones."""
        self.batches = [*earlier, *self.batches][-BATCHES_REMEMBERED:]


def last_sequence_of(first_sequence: int, last_offset_delta: int) -> int:
    """The last sequence of a batch. Sequences wrap around to 0 after 2^31 - 1."""
    if first_sequence == NO_SEQUENCE:
        return NO_SEQUENCE
    return (first_sequence + last_offset_delta) % (MAX_SEQUENCE + 1)


class ProducerStates:
    """All producers of one log, up to `end_offset`."""

    __slots__ = ("_completed", "_open", "began_with_snapshot", "begins_at", "end_offset", "producers", "searched_bytes")

    def __init__(self, end_offset: int = 0) -> None:
        self.end_offset = end_offset
        self.begins_at = end_offset
        """All batches from here on were seen. Before it, if there was a snapshot, only the last batch per producer is
        known."""
        self.began_with_snapshot = False
        self.searched_bytes = 0
        """Cost of the search for earlier batches so far; see `recall`."""
        self.producers: dict[ProducerId, ProducerEntry] = {}
        # First offset → producer id. New transactions start at the log end offset, so insertion order is offset order.
        self._open: dict[int, ProducerId] = {}
        self._completed: list[tuple[int, int]] = []  # (first offset, offset of the marker) above the high watermark

    # -- admission checks ------------------------------------------------------------------------------------------

    def admit(
        self,
        producer_id: ProducerId,
        epoch: ProducerEpoch,
        first_sequence: int,
        last_sequence: int,
        transactional: bool,
    ) -> ProducerBatch | None:
        """None if a client's batch is the next one, the original batch if it is a duplicate; otherwise LogError."""
        producer = self.producers.get(producer_id)
        if producer is None:
            # The producer is unknown, perhaps because retention deleted its records: accept any first sequence.
            return None
        if epoch == producer.epoch:
            if first_sequence != producer.next_sequence and first_sequence != NO_SEQUENCE:
                duplicate = producer.find(first_sequence, last_sequence)
                if duplicate is not None:
                    return duplicate
                raise LogError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {producer_id} sent sequence {first_sequence} but {producer.next_sequence} was expected",
                )
        elif epoch < producer.epoch:
            raise LogError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} has epoch {producer.epoch}; {epoch} is older",
            )
        elif first_sequence > 0 and producer.epoch != NO_PRODUCER_EPOCH:
            raise LogError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} begins epoch {epoch} with sequence {first_sequence}, not with 0",
            )
        if producer.transaction_start >= 0 and not transactional:
            raise LogError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {producer_id} has a transaction open and sent a batch outside of it",
            )
        return None

    def admit_unsequenced(self, producer_id: ProducerId, first_sequence: int, coordinator: bool) -> None:
        """RejectedBatch unless a coordinator writes it: offsets committed in a transaction have no sequences."""
        if not coordinator or first_sequence != NO_SEQUENCE:
            raise RejectedBatch(ErrorCode.INVALID_RECORD, f"bad sequence {first_sequence} of producer {producer_id}")

    def admit_marker(self, producer_id: ProducerId, epoch: ProducerEpoch, coordinator_epoch: int) -> None:
        """LogError if the coordinator may no longer end this producer's transaction."""
        producer = self.producers.get(producer_id)
        if producer is None:
            return
        if epoch < producer.epoch:
            raise LogError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} has epoch {producer.epoch}; a marker of epoch {epoch} is older",
            )
        if coordinator_epoch < producer.coordinator_epoch:
            raise LogError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {coordinator_epoch} of producer {producer_id} is older than "
                f"{producer.coordinator_epoch}",
            )

    # -- recording appended batches --------------------------------------------------------------------------------

    def applied(
        self,
        producer_id: ProducerId,
        epoch: ProducerEpoch,
        first_sequence: int,
        last_sequence: int,
        first_offset: int,
        last_offset: int,
        timestamp: int,
        transactional: bool,
    ) -> None:
        """Record that a data batch was appended."""
        producer = self.producers.get(producer_id)
        if producer is None:
            producer = self.producers[producer_id] = ProducerEntry(epoch)
        elif producer.epoch != epoch:
            producer.enter_epoch(epoch)
        batches = producer.batches
        if first_sequence != NO_SEQUENCE:
            if len(batches) == BATCHES_REMEMBERED:
                del batches[0]
            batches.append(ProducerBatch(first_sequence, last_sequence, first_offset, last_offset, timestamp))
            producer.next_sequence = 0 if last_sequence == MAX_SEQUENCE else last_sequence + 1
        producer.last_timestamp = timestamp
        if transactional and producer.transaction_start < 0:
            producer.transaction_start = first_offset
            self._open[first_offset] = producer_id

    def applied_marker(self, producer_id: ProducerId, epoch: ProducerEpoch, marker: Marker) -> AbortedTxn | None:
        """Record that a transaction marker was appended; return the `.txnindex` entry of an aborted transaction."""
        producer = self.producers.get(producer_id)
        if producer is None:
            producer = self.producers[producer_id] = ProducerEntry(epoch)
        producer.enter_epoch(epoch)
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp = marker.timestamp
        start, producer.transaction_start = producer.transaction_start, NO_OFFSET
        if start < 0:
            return None  # a transaction without records in this log: nothing to wait for
        self._open.pop(start, None)
        self._completed.append((start, marker.offset))
        if marker.type is not ControlType.ABORT:
            return None
        return AbortedTxn(producer_id, start, marker.offset, next(iter(self._open), marker.offset + 1))

    def replay(self, header: BatchHeader, marker: Marker | None) -> AbortedTxn | None:
        """Record a batch found in the log, without checking its sequences."""
        aborted: AbortedTxn | None = None
        if header.producer_id >= 0:
            if header.is_control:
                if marker is not None and marker.type in (ControlType.ABORT, ControlType.COMMIT):
                    aborted = self.applied_marker(header.producer_id, header.producer_epoch, marker)
            else:
                self.applied(
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                    last_sequence_of(header.base_sequence, header.last_offset_delta),
                    header.base_offset,
                    header.last_offset,
                    header.max_timestamp,
                    header.is_transactional,
                )
        self.end_offset = header.last_offset + 1
        return aborted

    def prepend_batches(self, headers: Iterable[BatchHeader]) -> None:
        """Add batches that are in the log before the remembered ones, in log order: see `recall`."""
        found: dict[ProducerId, list[ProducerBatch]] = {}
        for header in headers:
            producer = self.producers.get(header.producer_id)
            if producer is None or producer.epoch != header.producer_epoch or producer.complete:
                continue
            if header.is_control or header.base_sequence == NO_SEQUENCE:
                continue
            if producer.batches and header.base_offset < producer.batches[0].first_offset:
                last = last_sequence_of(header.base_sequence, header.last_offset_delta)
                found.setdefault(header.producer_id, []).append(
                    ProducerBatch(
                        header.base_sequence, last, header.base_offset, header.last_offset, header.max_timestamp
                    )
                )
        for producer_id, batches in found.items():
            self.producers[producer_id].prepend_batches(batches)

    # -- transactions ----------------------------------------------------------------------------------------------

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """The first offset of the oldest transaction that is open, or whose marker is above the high watermark."""
        if not self._open and not self._completed:
            return None
        if self._completed:
            self._completed = [txn for txn in self._completed if txn[1] >= high_watermark]
        oldest = [next(iter(self._open))] if self._open else []
        oldest += [start for start, _ in self._completed]
        return min(oldest, default=None)

    def open_transactions(self) -> list[tuple[int, int]]:
        """The (producer id, first offset) of each open transaction, oldest first."""
        return [(producer_id, start) for start, producer_id in self._open.items()]

    # -- expiry ----------------------------------------------------------------------------------------------------

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Remove producers without an open transaction that were inactive for `expiration_ms`; return their number."""
        silent = [
            producer_id
            for producer_id, producer in self.producers.items()
            if producer.transaction_start < 0 and now_ms - producer.last_timestamp >= expiration_ms
        ]
        for producer_id in silent:
            del self.producers[producer_id]
        return len(silent)

    # -- snapshots -------------------------------------------------------------------------------------------------

    def encode(self) -> bytes:
        entries = b"".join(
            _SNAPSHOT_ENTRY.pack(
                producer_id,
                producer.epoch,
                producer.batches[-1].last_sequence if producer.batches else NO_SEQUENCE,
                producer.batches[-1].last_offset if producer.batches else NO_OFFSET,
                producer.batches[-1].last_offset - producer.batches[-1].first_offset if producer.batches else 0,
                producer.last_timestamp,
                producer.coordinator_epoch,
                producer.transaction_start,
            )
            for producer_id, producer in self.producers.items()
        )
        body = len(self.producers).to_bytes(4, "big") + entries
        return _SNAPSHOT_VERSION.to_bytes(2, "big") + crc32c(body).to_bytes(4, "big") + body

    @classmethod
    def decode(cls, data: bytes, end_offset: int) -> ProducerStates:
        """Decode a snapshot taken at `end_offset`; BadSnapshotError if version, checksum or size is wrong."""
        if len(data) < _SNAPSHOT_HEAD.size:
            raise BadSnapshotError(f"{len(data)} bytes are too few")
        version, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
        if version != _SNAPSHOT_VERSION:
            raise BadSnapshotError(f"version {version} is not known")
        if crc32c(memoryview(data)[_CRC_FROM:]) != crc:
            raise BadSnapshotError("its checksum is wrong")
        if len(data) != _SNAPSHOT_HEAD.size + count * _SNAPSHOT_ENTRY.size:
            raise BadSnapshotError(f"{len(data)} bytes do not hold {count} producers")
        states = cls(end_offset)
        states.began_with_snapshot = True
        for fields in _SNAPSHOT_ENTRY.iter_unpack(memoryview(data)[_SNAPSHOT_HEAD.size :]):
            states._restore(*fields)
        states._open = dict(sorted(states._open.items()))
        return states

    def _restore(
        self,
        producer_id: ProducerId,
        epoch: ProducerEpoch,
        last_sequence: int,
        last_offset: int,
        offset_delta: int,
        timestamp: int,
        coordinator_epoch: int,
        transaction_start: int,
    ) -> None:
        producer = self.producers[producer_id] = ProducerEntry(epoch)
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp = timestamp
        producer.transaction_start = transaction_start
        if last_offset >= 0:
            first_sequence = (last_sequence - offset_delta) % (MAX_SEQUENCE + 1)
            producer.batches.append(
                ProducerBatch(first_sequence, last_sequence, last_offset - offset_delta, last_offset, timestamp)
            )
            producer.next_sequence = 0 if last_sequence == MAX_SEQUENCE else last_sequence + 1
        if transaction_start >= 0:
            self._open[transaction_start] = producer_id
