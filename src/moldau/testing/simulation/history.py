"""History of a simulation: the actions and observations of clients, which the checkers judge.

Each value is written only once; it names its producer and its sequence number. Times are seconds since the beginning of
the simulation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from moldau.security.acls import AclRule
from moldau.security.resources import Operation

Place = tuple[str, int]
"""A topic and the index of a partition."""


class TransactionOutcome(Enum):
    """What a transactional producer knows about the end of a transaction."""

    OPEN = "open"
    COMMITTING = "committing"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Sent(NamedTuple):
    """A record that was passed to a producer."""

    value: str
    producer: str
    number: int
    """Sequence number per producer and partition, ascending."""
    place: Place
    at_s: float
    idempotent: bool = True
    durable: bool = True
    """Sent with acks=all to a topic whose min.insync.replicas is at least 2, so that an acknowledgement is a
    promise."""
    transaction: str | None = None


class Acked(NamedTuple):
    """A record that a broker acknowledged."""

    value: str
    place: Place
    offset: int
    at_s: float


class Seen(NamedTuple):
    """A record that a consumer got."""

    reader: str
    place: Place
    offset: int
    value: str
    at_s: float
    committed_only: bool = False


class TransactionStep(NamedTuple):
    """A step in the lifecycle of a transaction."""

    transaction: str
    outcome: TransactionOutcome
    at_s: float


class OffsetCommit(NamedTuple):
    """An offset that a group committed, or tried to commit."""

    group: str
    place: Place
    offset: int
    began_s: float
    at_s: float | None
    """When it was acknowledged; None if the result is unknown."""


class OffsetSeen(NamedTuple):
    """A committed offset of a group as a client got it; None: there was none."""

    group: str
    place: Place
    offset: int | None
    began_s: float
    at_s: float


class StoredRules(NamedTuple):
    """All access control rules, as the store has them from this moment on."""

    at_s: float
    rules: frozenset[AclRule]


class Attempt(NamedTuple):
    """An operation on a topic that a user tried: it was done, or denied."""

    user: str
    operation: Operation
    topic: str
    began_s: float
    at_s: float
    done: bool


class RuleChange(NamedTuple):
    """A rule that was added or removed, and acknowledged."""

    rule: AclRule
    added: bool
    began_s: float
    at_s: float


class Denial(NamedTuple):
    """A login or an operation that was denied to a user who has all rights."""

    client: str
    user: str
    what: str
    at_s: float


class Led(NamedTuple):
    """The start of a broker's leadership of a partition."""

    place: Place
    epoch: int
    who: str
    at_s: float
    topic_id: bytes = b""
    """Distinguishes topics with the same name: each has its own epochs."""


class Replica(NamedTuple):
    """One replica's log at the end: its high watermark, and the digest of each batch by base offset."""

    place: Place
    broker: int
    log_start: int
    high_watermark: int
    batches: tuple[tuple[int, int, str], ...]
    """(base offset, last offset, digest of the bytes)."""


@dataclass
class History:
    """All evidence of one run."""

    now_s: Callable[[], float]
    sent: dict[str, Sent] = field(default_factory=dict)
    acked: list[Acked] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    ended: list[TransactionStep] = field(default_factory=list)
    offset_commits: list[OffsetCommit] = field(default_factory=list)
    offsets_seen: list[OffsetSeen] = field(default_factory=list)
    rules: list[StoredRules] = field(default_factory=list)
    """The rules after each change, in the order of the store's commits. The first entry is from the beginning."""
    attempts: list[Attempt] = field(default_factory=list)
    rule_changes: list[RuleChange] = field(default_factory=list)
    denials: list[Denial] = field(default_factory=list)
    led: list[Led] = field(default_factory=list)
    replicas: list[Replica] = field(default_factory=list)
    final: dict[Place, dict[int, str]] = field(default_factory=dict)
    """The partitions at the end, by offset, as a read_uncommitted consumer gets them."""
    final_committed: dict[Place, dict[int, str]] = field(default_factory=dict)
    """The same for a read_committed consumer."""
    copies: dict[Place, list[str]] = field(default_factory=dict)
    """The copied values, by source partition, in the order of the copies."""
    copied_to: dict[Place, int] = field(default_factory=dict)
    """The progress of the copiers: the committed offset of each partition."""
    group_read: dict[tuple[str, Place], dict[int, None]] = field(default_factory=dict)
    """The offsets that members of a group got."""

    def outcomes(self) -> dict[str, TransactionOutcome]:
        """The last known outcome of each transaction."""
        return {step.transaction: step.outcome for step in self.ended}
