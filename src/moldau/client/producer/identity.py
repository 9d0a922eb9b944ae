"""Who a producer is to the brokers, and the numbers by which they tell a record that comes again from a new one.

An idempotent producer has an id and an epoch, and numbers its records in each partition. A broker takes a batch only if
its number follows the last one it has; one that it has already is answered as if it were new. So a batch may be sent
again whenever its fate is not known, and what is behind it can never overtake it.

All of it is decisions over values: nothing here waits or sends. The rules, a partition at a time:

* A batch gets its number when it is sent for the first time and keeps it. Until its fate is known it is "in flight",
  also while it waits for another attempt. At most one batch that was sent before is sent again at a time: the first.
* A broker remembers the last five batches of a producer. Of the first in flight and all that were sent after it there
  are never more: else a broker that has them all would not know the first when it comes again, and refuse it.
* A batch that is given up leaves a gap. New batches are held back then, and those in flight are sent again one by one.
  If all of them are taken, there was no gap: the broker had it. If the broker says that the first does not follow, it
  has neither that one nor any behind it: the epoch is raised and the numbers begin again at 0.
* But a batch that was once sent without an answer is never given new numbers: that request may be on its way yet, and
  arrive after all that it has to follow. It is given up as well; else it could be there twice.
* If the last batch of all was refused, its numbers are free again, and there is no gap.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.records.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from moldau.wire.errors import ErrorCode

if TYPE_CHECKING:
    from moldau.client.producer.accumulator import Batch

MAX_EPOCH: Final = 2**15 - 2
"""The last epoch that may be used; after it a producer needs a new id."""

REMEMBERED: Final = 5
"""As many of a producer's batches a broker can tell from new ones."""

_SEQUENCES: Final = 2**31
"""Numbers go round: after 2**31 - 1 comes 0."""


class Identity(NamedTuple):
    """A producer's id and epoch, as the broker gave them."""

    producer_id: int
    epoch: int

    @property
    def known(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID


NO_IDENTITY: Final = Identity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class Verdict(Enum):
    """What becomes of a batch, after the broker's answer about it."""

    DONE = auto()
    RETRY = auto()
    SPLIT = auto()
    FAIL = auto()


# The broker may have the batch all the same: it said that it could not wait for the replicas, or not what happened. One
# that stops to lead while it waits for them says no more than one that never led, and its successor may have the batch.
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


def judge(code: ErrorCode, batch: Batch, sequences: Sequences, transactional: bool) -> Verdict:
    """What to do after this answer, time and attempts aside. Notes in `sequences` what the answer tells."""
    if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
        return Verdict.DONE
    if code in LEAVES_DOUBT:
        batch.in_doubt = True
    if code in DOES_NOT_FOLLOW and batch.sequence != NO_SEQUENCE:
        if not sequences.is_first(batch):
            return Verdict.RETRY  # one before it is on its way again
        if transactional or batch.in_doubt:
            return Verdict.FAIL
        sequences.restart_wanted = True
        return Verdict.RETRY
    if code in TOO_LARGE and batch.count > 1:
        return Verdict.SPLIT
    return Verdict.RETRY if code.retriable else Verdict.FAIL


class Sequences:
    """The batches of one partition that are in flight, and their numbers if the producer is idempotent."""

    __slots__ = ("_next", "_since_first", "gap", "idempotent", "identity", "in_flight", "last_acked", "restart_wanted")

    def __init__(self, idempotent: bool) -> None:
        self.idempotent = idempotent
        self.identity = NO_IDENTITY
        self._next = 0
        self.last_acked = NO_SEQUENCE
        self.in_flight: list[Batch] = []
        """Sent at least once and of unknown fate, in the order of their first sending."""
        self._since_first: list[Batch] = []
        """The first in flight and all that were sent after it, also those whose fate is known by now."""
        self.gap = False
        self.restart_wanted = False

    def is_first(self, batch: Batch) -> bool:
        return bool(self.in_flight) and self.in_flight[0] is batch

    def may_send_again(self, batch: Batch) -> bool:
        """Whether a batch that was sent before may go now."""
        return not self.idempotent or (self.is_first(batch) and not self.restart_wanted)

    def may_send_new(self, current: Identity) -> bool:
        """Whether a batch may leave for the first time."""
        if not self.idempotent:
            return True
        if self.gap or self.restart_wanted or len(self._since_first) >= REMEMBERED:
            return False
        # What is in flight under another epoch must be settled before the first batch of this one. And the first of an
        # epoch goes alone: a broker that knows nothing of the producer yet would take the second without it.
        return not self.in_flight or (self.identity == current and self.last_acked != NO_SEQUENCE)

    def sent(self, batch: Batch, current: Identity) -> None:
        """The batch leaves for the first time: it gets its numbers."""
        if self.idempotent:
            if self.identity != current:
                assert not self.in_flight
                self._begin(current)
            self._give(batch)
            self._since_first.append(batch)
        self.in_flight.append(batch)

    def acked(self, batch: Batch) -> None:
        """The broker has it."""
        if self.idempotent and (batch.producer_id, batch.producer_epoch) == self.identity:
            self.last_acked = (
                batch.sequence + batch.count - 1
            ) % _SEQUENCES  # answers come in the order of the numbers
        self._remove(batch)
        self._settle()

    def given_up(self, batch: Batch) -> None:
        """It failed for good: refused, or out of time."""
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
        """It was cut into parts that have the same records in the same order, so the same numbers."""
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

    def restart(self, current: Identity) -> None:
        """Begin again at 0 under a new identity, with all that is in flight. Nothing of it may be on the wire."""
        self._begin(current)
        self._since_first = list(self.in_flight)
        for batch in self.in_flight:
            self._give(batch)

    def _begin(self, current: Identity) -> None:
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
        """With nothing in flight any more it shows whether there was a gap at all."""
        if self.gap and not self.in_flight:
            if (self.last_acked + 1) % _SEQUENCES == self._next:
                self.gap = False
            else:
                self.restart_wanted = True
