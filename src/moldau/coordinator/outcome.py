"""Outcome of a coordinator's decision: records to store, replies to send, timers to set.

A coordinator consists of shards, one for each partition of its internal topic. A shard decides in `step`, and changes
its durable state only in `replay`. The runtime stores the records in between. Both coordinators, of groups and of
transactions, work in this way.
"""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, Protocol, TypeVar

StoredRecord = tuple[bytes, bytes | None]
"""Key and value. Without a value it is a tombstone."""


class TxnProducer(NamedTuple):
    """The producer of the transaction to which the records belong."""

    id: int
    epoch: int


class CoordinatorOutcome:
    """A decision of a shard."""

    __slots__ = ("effects", "producer", "records", "replies", "timers")

    def __init__(
        self,
        producer: TxnProducer | None = None,
        *,
        records: list[StoredRecord] | None = None,
        replies: list[tuple[Any, Any]] | None = None,
        timers: list[tuple[Any, int | None]] | None = None,
    ) -> None:
        self.records: list[StoredRecord] = [] if records is None else records
        """Stored as one batch: all or none."""
        self.replies: list[tuple[Any, Any]] = [] if replies is None else replies
        """(ticket, answer): sent when these records, and all earlier ones, are replicated."""
        self.timers: list[tuple[Any, int | None]] = [] if timers is None else timers
        """(key, at_ms): the shard gets `TimerFired(key)` at that time. A key has one timer; None cancels it."""
        self.effects: list[Any] = []
        """Actions for the coordinator (`perform`) after the records are replicated."""
        self.producer = producer
        """Set if the records belong to a transaction. They take effect when it is committed."""

    def __iadd__(self, later: CoordinatorOutcome) -> CoordinatorOutcome:
        """Append the outcome of a rule that decided after this one; its changes of a timer win."""
        assert not (self.records and later.records) or self.producer == later.producer, "one batch, one transaction"
        self.records += later.records
        self.replies += later.replies
        self.timers += later.timers
        self.effects += later.effects
        self.producer = later.producer if self.producer is None else self.producer
        return self

    def __repr__(self) -> str:
        parts = (f"{name}={value!r}" for name in self.__slots__ if (value := getattr(self, name)))
        return f"CoordinatorOutcome({', '.join(parts)})"


K = TypeVar("K")


class TimerFired(NamedTuple, Generic[K]):
    """Event: a timer of the shard has expired."""

    key: K


class Shard(Protocol):
    """The state of one partition of an internal topic, and the decisions about it."""

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one stored record."""

    def replay_pending(self, producer_id: int, key: bytes, value: bytes | None) -> None:
        """Keep a record of an open transaction until its marker is replayed."""

    def replay_marker(self, producer_id: int, committed: bool) -> None:
        """Apply or discard the records of the producer's transaction."""

    def loaded(self, now_ms: int) -> CoordinatorOutcome:
        """The whole partition was replayed, and the shard starts its work."""

    def step(self, now_ms: int, event: Any) -> CoordinatorOutcome:
        """Decide about an event, without changing the durable state."""
