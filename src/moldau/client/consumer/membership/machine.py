"""What both membership machines share: tickets, what the application is told, and the time it may take between polls.

A machine is pure: `step(now, event)` changes it and returns what is to be done; `wake_at` says when it wants to be
woken. What the application has to hear stands in `due`; the shell says when the telling begins and when it is over.
Until it has begun, `due` may be replaced by something truer: partitions to be revoked may be lost meanwhile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from moldau.client.consumer.membership.model import (
    NO_GENERATION,
    NO_MEMBER,
    Action,
    CoordinatorGone,
    Event,
    MemberConfig,
    Send,
    StandStill,
    Take,
    Told,
)
from moldau.client.consumer.model import CallbackDue, CallbackKind
from moldau.client.errors import MoldauError
from moldau.client.model import TopicPartition


class Machine(ABC):
    """One member of one group."""

    def __init__(self, config: MemberConfig) -> None:
        self.config = config
        self.member_id = NO_MEMBER
        self.generation = NO_GENERATION
        """Or the member's epoch. NO_GENERATION while it is in none: then nothing can be committed."""
        self.owned: tuple[TopicPartition, ...] = ()
        """What the application knows to be its own."""
        self.due: CallbackDue | None = None
        self.failure: MoldauError | None = None
        """Why this member cannot go on; for good."""
        self._telling = False
        self._tickets = 0
        self._actions: list[Action] = []
        self._failures = 0
        self._retry_at = 0.0
        self._polled_at = 0.0
        self._table: Mapping[type[Any], Callable[[float, Any], None]] = self._handlers()

    @abstractmethod
    def _handlers(self) -> Mapping[type[Any], Callable[[float, Any], None]]:
        """Which method takes which kind of event."""

    @abstractmethod
    def _advance(self, now: float) -> None:
        """Does what is possible now, after whatever has happened."""

    @property
    @abstractmethod
    def wake_at(self) -> float | None:
        """When a Tick should come, if nothing else happens."""

    @property
    @abstractmethod
    def settled(self) -> bool:
        """Whether the member is in its group, and the application has heard of all that it was assigned."""

    @property
    @abstractmethod
    def rebalancing(self) -> bool:
        """Whether it is on its way to the next generation, and needs nobody but the coordinator for the next step."""

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
        """Not before a while; a little later with every failure."""
        if coordinator_gone:
            self._actions.append(CoordinatorGone())
        self._retry_at = now + self.config.backoff(self._failures)
        self._failures += 1

    def _succeeded(self) -> None:
        self._failures, self._retry_at = 0, 0.0

    # -- what the application hears --------------------------------------------------------------------------------

    def _tell(self, kind: CallbackKind, partitions: Iterable[TopicPartition]) -> None:
        assert not self._telling, "the application is in the middle of hearing something else"
        self.due = CallbackDue(kind, tuple(sorted(partitions)))

    def _begin_telling(self, _: float, __: Any) -> None:
        assert self.due is not None
        self._telling = True

    def _end_telling(self, _: float, __: Told) -> CallbackDue:
        assert self.due is not None and self._telling
        heard, self.due, self._telling = self.due, None, False
        gone = set() if heard.kind == "assigned" else set(heard.partitions)
        come = heard.partitions if heard.kind == "assigned" else ()
        self.owned = tuple(sorted({*self.owned, *come} - gone))
        if gone:
            self._actions.append(Take(self.owned))
        return heard

    def _lose(self) -> bool:
        """All that the application has is another's now, or may be. Whether there is something to be told."""
        self.generation = NO_GENERATION
        if self._telling:
            return True  # it hears the end of what it is being told, and then the rest
        self.due = None
        self._actions.append(Take(self.owned))
        if self.owned:
            self._actions.append(StandStill(self.owned))
            self._tell("lost", self.owned)
        return bool(self.owned)

    # -- the application's life ------------------------------------------------------------------------------------

    def _is_silent(self, now: float) -> bool:
        return now >= self._polled_at + self.config.max_poll_interval_s
