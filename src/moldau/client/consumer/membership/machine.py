"""Base of the membership state machines: events, requests, listener callbacks, and max.poll.interval.ms.

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
    Answered,
    BeginRevocation,
    CallbackDone,
    CallbackStarted,
    CoordinatorGone,
    Event,
    LeaveRequested,
    MemberConfig,
    MetadataChanged,
    PollCalled,
    RequestFailed,
    Send,
    SetAssignment,
    Subscribed,
    Tick,
    TopicsLookedUp,
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
        self._polling = False
        """The application has polled; False again after max.poll.interval.ms without a poll."""
        self._table: Mapping[type[Any], Callable[[float, Any], None]] = {
            PollCalled: self._on_poll,
            Tick: lambda _, __: None,
            Subscribed: self._on_subscribed,
            MetadataChanged: self._on_metadata,
            TopicsLookedUp: self._on_topics,
            Answered: self._on_answer,
            RequestFailed: self._on_failure,
            CallbackStarted: self._callback_started,
            CallbackDone: self._on_callback_done,
            LeaveRequested: self._on_leave,
        }

    # -- the protocol: what the two machines do differently ----------------------------------------------------------

    @abstractmethod
    def _on_subscribed(self, now: float, event: Subscribed) -> None: ...

    @abstractmethod
    def _on_metadata(self, now: float, event: MetadataChanged) -> None: ...

    @abstractmethod
    def _on_topics(self, now: float, event: TopicsLookedUp) -> None: ...

    @abstractmethod
    def _on_answer(self, now: float, event: Answered) -> None: ...

    @abstractmethod
    def _on_failure(self, now: float, event: RequestFailed) -> None: ...

    @abstractmethod
    def _on_callback_done(self, now: float, event: CallbackDone) -> None: ...

    @abstractmethod
    def _on_poll_overdue(self) -> None:
        """Leave the group after max.poll.interval.ms without a poll."""

    @abstractmethod
    def _leave(self) -> None:
        """Leave the group for good."""

    @abstractmethod
    def _advance(self, now: float) -> None:
        """Do what is possible now; called after each event."""

    @property
    @abstractmethod
    def _active(self) -> bool:
        """Whether the member is in its group, or on its way into or out of it."""

    @abstractmethod
    def _request_times(self) -> list[float]:
        """The times of the next requests that are not sent yet."""

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
        if self._active and self._polling and now >= self._poll_overdue_at:
            self._on_poll_overdue()
            self._polling = False
        self._advance(now)
        actions, self._actions = self._actions, []
        return actions

    @property
    def wake_at(self) -> float | None:
        """The time of the next Tick, if no other event comes first."""
        if not self._active:
            return None
        return min([*([self._poll_overdue_at] if self._polling else ()), *self._request_times()], default=None)

    def _on_leave(self, _: float, __: LeaveRequested) -> None:
        self._leave()
        self.due = None
        self.owned = ()
        self._actions.append(SetAssignment(()))

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

    def _on_poll(self, now: float, _: PollCalled) -> None:
        self._polled_at = now
        self._polling = True

    @property
    def _poll_overdue_at(self) -> float:
        return self._polled_at + self.config.max_poll_interval_s
