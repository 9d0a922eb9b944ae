"""Whether being fenced may be a static member's own doing, and not that of another process with its name. Pure.

The coordinator knows a static member by its instance id, and gives it a member id when it joins without one. Whoever
joins so replaces the id before, and requests under that one are answered FENCED_INSTANCE_ID. Two things can make a
member look replaced though nobody else has its name:

* A request to join that it gave up, because no answer came, arrives late: after the one that it sent instead. It then
  replaces the id that the member goes by. There can be as many such surprises as such requests, and only soon after; so
  each excuses one, until a heartbeat finds the member still known a session's time after it joined.
* An id that no SyncGroup has confirmed may never have been stored: a coordinator that took over since knows the one
  before it.

A member that is excused joins again without an id, which replaces whoever it was. If that was another process after
all, it is fenced in turn, as if this one had been started after it.
"""

from __future__ import annotations

from typing import Final

MAX_UNCONFIRMED: Final = 5
"""How often a member that has not come further than JoinGroup may be fenced, before it is believed."""


class Doubt:
    """What a static member knows about its own requests."""

    __slots__ = ("_confirmed", "_late", "_unconfirmed", "_until")

    def __init__(self) -> None:
        self._late = 0  # requests to join that may still arrive
        self._until: float | None = None  # when they will have; None while the coordinator has not been heard since
        self._confirmed = False
        self._unconfirmed = 0

    def gave_up_joining(self) -> None:
        """A request to join without an id was not answered."""
        self._late += 1
        self._until = None

    def joined(self, now: float, session_timeout_s: float, *, new_id: bool) -> None:
        if self._late and self._until is None:
            self._until = now + session_timeout_s
        if new_id:
            self._confirmed = False

    def synced(self) -> None:
        self._confirmed, self._unconfirmed = True, 0

    def is_known(self, now: float) -> None:
        """A heartbeat was answered: the member is still who it believes to be."""
        if self._until is not None and now > self._until:
            self._late, self._until = 0, None

    def excuses(self) -> bool:
        """Whether to take being fenced for our own doing, this once."""
        if self._late:
            self._late -= 1
            return True
        if not self._confirmed and self._unconfirmed < MAX_UNCONFIRMED:
            self._unconfirmed += 1
            return True
        return False
