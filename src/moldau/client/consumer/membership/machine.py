"""Base of the membership state machines: tickets of requests, listener callbacks, and max.poll.interval.ms.

A machine does no I/O. `step(now, event)` changes it and returns actions; `wake_at` is the time of the next Tick. `due`
is the next call of the listener. `GroupMembership` reports when this call starts and when it is done. Until it starts,
`due` may be replaced: for example, partitions that should be revoked may be lost meanwhile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from moldau.client.consumer.membership.events import (
    NO_GENERATION,
    NO_MEMBER,
    Action,
    BeginRevocation,
    CallbackDone,
    CoordinatorGone,
    Event,
    MemberConfig,
    Send,
    SetAssignment,
)
from moldau.client.consumer.offset_reset import CallbackDue, CallbackKind
from moldau.client.data_types import TopicPartition
from moldau.client.errors import MoldauError


class MemberStateMachine(ABC):
    """One member of one group."""

    def __init__(self, config: MemberConfig) -> None:
        self.config = config
        self.member_id = NO_MEMBER
        self.generation = NO_GENERATION
        """The generation, or the member epoch (KIP-848). With NO_GENERATION offsets cannot be committed."""
        self.owned: tuple[TopicPartition, ...] = ()
        """The partitions that the listener was called with, and that were not revoked or lost since."""
        self.due: CallbackDue | None = None
        self.failure: MoldauError | None = None
        """The error that ended the membership."""
        self._in_callback = False
        self._tickets = 0
        self._actions: list[Action] = []
        self._failures = 0
        self._retry_at = 0.0
        self._polled_at = 0.0
        self._table: Mapping[type[Any], Callable[[float, Any], None]] = self._handlers()

    @abstractmethod
    def _handlers(self) -> Mapping[type[Any], Callable[[float, Any], None]]:
        """Return the method for each type of event."""

    @abstractmethod
    def _advance(self, now: float) -> None:
        """Do what is possible now; called after each event."""

    @property
    @abstractmethod
    def wake_at(self) -> float | None:
        """The time of the next Tick, if no other event comes first."""

    @property
    @abstractmethod
    def settled(self) -> bool:
        """Whether the member is in its group, and the listener was called with its whole assignment."""

    @property
    @abstractmethod
    def rebalancing(self) -> bool:
        """Whether the next generation needs only responses of the coordinator, and no callback."""

    def step(self, now: float, event: Event) -> list[Action]:
        self._table[type(event)](now, event)
        self._advance(now)
        actions, self._actions = self._actions, []
        return actions

    # -- requests --------------------------------------------------------------------------------------------------

    def _ticket(self) -> int:
        self._tickets += 1
        return self._tickets

    def _send(self, request: Any, timeout_s: float) -> int:
        ticket = self._ticket()
        self._actions.append(Send(ticket, request, timeout_s))
        return ticket

    def _back_off(self, now: float, *, coordinator_gone: bool = False) -> None:
        """Set the time of the next request; the pause grows with every failure."""
        if coordinator_gone:
            self._actions.append(CoordinatorGone())
        self._retry_at = now + self.config.backoff(self._failures)
        self._failures += 1

    def _succeeded(self) -> None:
        self._failures, self._retry_at = 0, 0.0

    # -- listener callbacks ----------------------------------------------------------------------------------------

    def _set_due(self, kind: CallbackKind, partitions: Iterable[TopicPartition]) -> None:
        assert not self._in_callback, "another callback is running"
        self.due = CallbackDue(kind, tuple(sorted(partitions)))

    def _callback_started(self, _: float, __: Any) -> None:
        assert self.due is not None
        self._in_callback = True

    def _callback_done(self, _: float, __: CallbackDone) -> CallbackDue:
        assert self.due is not None and self._in_callback
        done, self.due, self._in_callback = self.due, None, False
        removed = set() if done.kind == "assigned" else set(done.partitions)
        added = done.partitions if done.kind == "assigned" else ()
        self.owned = tuple(sorted({*self.owned, *added} - removed))
        if removed:
            self._actions.append(SetAssignment(self.owned))
        return done

    def _lose_partitions(self) -> bool:
        """Give up all partitions, because other members may own them. Return whether a callback is due or running."""
        self.generation = NO_GENERATION
        if self._in_callback:
            return True  # after the running callback this is called again
        self.due = None
        self._actions.append(SetAssignment(self.owned))
        if self.owned:
            self._actions.append(BeginRevocation(self.owned))
            self._set_due("lost", self.owned)
        return bool(self.owned)

    # -- poll interval ---------------------------------------------------------------------------------------------

    def _poll_overdue(self, now: float) -> bool:
        return now >= self._polled_at + self.config.max_poll_interval_s
