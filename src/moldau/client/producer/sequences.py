"""Sequence numbers of a producer: the rules by which brokers recognise a batch that is sent again.

An idempotent producer has an id and an epoch, and numbers its records per partition. A broker appends a batch only if
its sequence number follows the last one. It answers a batch that it already has as if it were new. Therefore a batch
may be sent again whenever its result is unknown, and later batches cannot overtake it.

Nothing here waits or sends. The rules per partition:

* A batch gets its sequence number when it is sent for the first time, and keeps it. It is "in flight" until its result
  is known, also while it waits for a retry. Only the first batch in flight is sent again; the others wait for it.
* A broker remembers the last five batches of a producer. The first batch in flight and all batches sent after it are
  never more than five. Otherwise a broker that has all of them would refuse the first when it is sent again.
* A batch that has failed leaves a gap. The producer then holds new batches back, and sends those in flight again one by
  one. If the broker accepts them, there is no gap, because it had the failed batch. If it answers that the first one is
  out of order, it has neither that batch nor a later one: the epoch is raised and the numbers begin again at 0.
* A batch that was once sent without an answer never gets new numbers. That request may still be on its way and arrive
  after the batches before it, and the records would be in the log twice. The batch fails instead.
* If the newest batch was refused, its numbers are free again, and there is no gap.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from moldau.records.batch_layout import NO_SEQUENCE
from moldau.wire.errors import ErrorCode
from moldau.wire.producer_identity import NO_IDENTITY, ProducerIdentity

if TYPE_CHECKING:
    from moldau.client.producer.accumulator import Batch

REMEMBERED: Final = 5
"""The number of recent batches per producer and partition that a broker recognises when they are sent again."""

_SEQUENCES: Final = 2**31
"""Sequence numbers wrap around: 0 follows 2**31 - 1."""


class BatchFate(Enum):
    """The decision about a batch after the broker's answer."""

    DONE = auto()
    RETRY = auto()
    SPLIT = auto()
    FAIL = auto()


# After these errors the broker may still have the batch. A leader answers NOT_LEADER_OR_FOLLOWER also if it loses the
# leadership while it waits for the replicas; the new leader may have the batch then.
LEAVES_DOUBT: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
DOES_NOT_FOLLOW: Final = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


def judge(code: ErrorCode, batch: Batch, sequences: Sequences, transactional: bool) -> BatchFate:
    """Return what to do after this answer, without regard to timeouts and retries. Updates `sequences`."""
    if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
        return BatchFate.DONE
    if code in LEAVES_DOUBT:
        batch.in_doubt = True
    if code in DOES_NOT_FOLLOW and batch.sequence != NO_SEQUENCE:
        if not sequences.is_first(batch):
            return BatchFate.RETRY  # an earlier batch is being sent again
        if transactional or batch.in_doubt:
            return BatchFate.FAIL
        sequences.restart_wanted = True
        return BatchFate.RETRY
    if code in TOO_LARGE and batch.count > 1:
        return BatchFate.SPLIT
    return BatchFate.RETRY if code.retriable else BatchFate.FAIL


class Sequences:
    """The batches in flight of one partition, and their sequence numbers if the producer is idempotent."""

    __slots__ = ("_next", "_since_first", "gap", "idempotent", "identity", "in_flight", "last_acked", "restart_wanted")

    def __init__(self, idempotent: bool) -> None:
        self.idempotent = idempotent
        self.identity = NO_IDENTITY
        self._next = 0
        self.last_acked = NO_SEQUENCE
        self.in_flight: list[Batch] = []
        """Batches that were sent at least once and have no result, in the order in which they were first sent."""
        self._since_first: list[Batch] = []
        """The first batch in flight and all batches sent after it, including those that have a result."""
        self.gap = False
        self.restart_wanted = False

    def is_first(self, batch: Batch) -> bool:
        return bool(self.in_flight) and self.in_flight[0] is batch

    def may_send_again(self, batch: Batch) -> bool:
        """Whether a batch that was sent before may be sent again now."""
        return not self.idempotent or (self.is_first(batch) and not self.restart_wanted)

    def may_send_new(self, current: ProducerIdentity) -> bool:
        """Whether a batch may be sent for the first time."""
        if not self.idempotent:
            return True
        if self.gap or self.restart_wanted or len(self._since_first) >= REMEMBERED:
            return False
        # Batches of another epoch need their results before the first batch of this epoch is sent. The first batch of
        # an epoch is sent alone: a broker that does not know the producer yet would accept the second without it.
        return not self.in_flight or (self.identity == current and self.last_acked != NO_SEQUENCE)

    def sent(self, batch: Batch, current: ProducerIdentity) -> None:
        """The batch is sent for the first time: give it its sequence numbers."""
        if self.idempotent:
            if self.identity != current:
                assert not self.in_flight
                self._begin(current)
            self._give(batch)
            self._since_first.append(batch)
        self.in_flight.append(batch)

    def acked(self, batch: Batch) -> None:
        """The broker has acknowledged the batch."""
        if self.idempotent and (batch.producer_id, batch.producer_epoch) == self.identity:
            self.last_acked = (
                batch.sequence + batch.count - 1
            ) % _SEQUENCES  # answers arrive in the order of the sequence numbers
        self._remove(batch)
        self._settle()

    def given_up(self, batch: Batch) -> None:
        """The batch has failed: the broker refused it, or its time is over."""
        if batch.sequence == NO_SEQUENCE:
            self._remove(batch)
            return
        newest = self.in_flight[-1:] == [batch]
        self._remove(batch)
        if newest and not batch.in_doubt and not self.gap:
            self._next = batch.sequence
        else:
            self.gap = True
        self._settle()

    def replaced(self, batch: Batch, parts: list[Batch]) -> None:
        """The batch was split into parts with the same records in the same order, and therefore the same numbers."""
        at = self.in_flight.index(batch)
        sequence = batch.sequence
        for part in parts if self.idempotent else ():
            part.producer_id, part.producer_epoch = batch.producer_id, batch.producer_epoch
            part.sequence = sequence
            sequence = (sequence + part.count) % _SEQUENCES
        self.in_flight[at : at + 1] = parts
        if self.idempotent:
            at = self._since_first.index(batch)
            self._since_first[at : at + 1] = parts

    def restart(self, current: ProducerIdentity) -> None:
        """Number the batches in flight from 0 under a new identity. None of them may be on the wire."""
        self._begin(current)
        self._since_first = list(self.in_flight)
        for batch in self.in_flight:
            self._give(batch)

    def _begin(self, current: ProducerIdentity) -> None:
        self.identity = current
        self._next = 0
        self.last_acked = NO_SEQUENCE
        self.gap = False
        self.restart_wanted = False

    def _give(self, batch: Batch) -> None:
        batch.producer_id, batch.producer_epoch = self.identity
        batch.sequence = self._next
        self._next = (self._next + batch.count) % _SEQUENCES

    def _remove(self, batch: Batch) -> None:
        for at, one in enumerate(self.in_flight):
            if one is batch:
                del self.in_flight[at]
                break
        first = self.in_flight[0] if self.in_flight else None
        while self._since_first and self._since_first[0] is not first:
            del self._since_first[0]

    def _settle(self) -> None:
        """Decide, when nothing is in flight any more, whether there was a gap."""
        if self.gap and not self.in_flight:
            if (self.last_acked + 1) % _SEQUENCES == self._next:
                self.gap = False
            else:
                self.restart_wanted = True
