"""What a coordinator's decision is: records to store, answers to give, timers to set.

A coordinator is a set of shards, one for each partition of its internal topic. A shard decides in `step` and changes
its durable state in `replay` alone; whoever runs it stores the records between the two. Both coordinators, of groups
and of transactions, have this shape.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

StoredRecord = tuple[bytes, bytes | None]
"""Key and value; without a value it deletes what the key names."""


class Producer(NamedTuple):
    """The transactional producer that records are stored for."""

    id: int
    epoch: int


class Outcome:
    """A decision. What is empty costs nothing."""

    __slots__ = ("effects", "producer", "records", "replies", "timers")

    def __init__(self, producer: Producer | None = None) -> None:
        self.records: list[StoredRecord] = []
        """Stored as one batch, all or none."""
        self.replies: list[tuple[Any, Any]] = []
        """(ticket, answer): given when the records, and all that was decided on, are safe."""
        self.timers: list[tuple[Any, int | None]] = []
        """(key, at_ms): comes back as `TimerFired(key)`. A key has one timer; None takes it back."""
        self.effects: list[Any] = []
        """What somebody else has to do once the records are safe; the shard does not know how."""
        self.producer = producer
        """Set where the records belong to a transaction and count only once it is committed."""

    def __repr__(self) -> str:
        parts = (f"{name}={value!r}" for name in self.__slots__ if (value := getattr(self, name)))
        return f"Outcome({', '.join(parts)})"


class TimerFired(NamedTuple):
    """The time that a shard asked for has come."""

    key: Any


class Shard(Protocol):
    """What one partition of an internal topic amounts to."""

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Takes over one stored record."""

    def replay_pending(self, producer_id: int, key: bytes, value: bytes | None) -> None:
        """Takes note of a record of a transaction that is not decided yet."""

    def replay_marker(self, producer_id: int, committed: bool) -> None:
        """The transaction of this producer is decided."""

    def loaded(self, now_ms: int) -> Outcome:
        """All of the partition was replayed: the work begins."""

    def step(self, now_ms: int, event: Any) -> Outcome:
        """Decides. Changes nothing that is stored."""
