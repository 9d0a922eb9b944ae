"""What clients did and saw: the evidence that the checkers judge.

A value is written once by its producer and never again; its text says by whom and in which order. Times are seconds
since the beginning of the simulation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

Place = tuple[str, int]
"""A topic and the index of a partition."""


class Outcome(Enum):
    """What a transactional producer knows about the end of a transaction."""

    OPEN = "open"
    COMMITTING = "committing"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Sent(NamedTuple):
    """A record that was given to a producer."""

    value: str
    producer: str
    number: int
    """Of its producer and partition, ascending."""
    place: Place
    at_s: float
    idempotent: bool = True
    durable: bool = True
    """acks=all, on a topic whose min.insync.replicas is at least 2: an acknowledgement is a promise."""
    transaction: str | None = None


class Acked(NamedTuple):
    """A record that a broker acknowledged."""

    value: str
    place: Place
    offset: int
    at_s: float


class Seen(NamedTuple):
    """A record that a consumer was given."""

    reader: str
    place: Place
    offset: int
    value: str
    at_s: float
    committed_only: bool = False


class Ended(NamedTuple):
    """A step in the life of a transaction."""

    transaction: str
    outcome: Outcome
    at_s: float


class OffsetCommit(NamedTuple):
    """An offset that a group committed, or tried to."""

    group: str
    place: Place
    offset: int
    began_s: float
    at_s: float | None
    """When it was acknowledged; None where nobody knows what became of it."""


class OffsetSeen(NamedTuple):
    """What somebody was told to be the committed offset of a group; None: that there is none."""

    group: str
    place: Place
    offset: int | None
    began_s: float
    at_s: float


class Led(NamedTuple):
    """A broker that began to lead a partition."""

    place: Place
    epoch: int
    who: str
    at_s: float
    topic_id: bytes = b""
    """Names come again, with other topics and all epochs anew."""


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
    """Everything of one run."""

    now_s: Callable[[], float]
    sent: dict[str, Sent] = field(default_factory=dict)
    acked: list[Acked] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    offset_commits: list[OffsetCommit] = field(default_factory=list)
    offsets_seen: list[OffsetSeen] = field(default_factory=list)
    led: list[Led] = field(default_factory=list)
    replicas: list[Replica] = field(default_factory=list)
    final: dict[Place, dict[int, str]] = field(default_factory=dict)
    """The partitions at the end, as a consumer of everything reads them, by offset."""
    final_committed: dict[Place, dict[int, str]] = field(default_factory=dict)
    """The same for a consumer of committed records."""
    copies: dict[Place, list[str]] = field(default_factory=dict)
    """What was copied exactly once, by the partition that it was copied from, in the order of the copies."""
    copied_to: dict[Place, int] = field(default_factory=dict)
    """How far the copying of each partition has come: its committed offset."""
    group_read: dict[tuple[str, Place], dict[int, None]] = field(default_factory=dict)
    """The offsets that members of a group were given."""

    def outcomes(self) -> dict[str, Outcome]:
        """What is known at the end about each transaction."""
        return {step.transaction: step.outcome for step in self.ended}
