"""Doubt about FENCED_INSTANCE_ID: a static member may be fenced by its own late request, not by another process.

The coordinator identifies a static member by its instance id. A JoinGroup without a member id gets a new member id,
which replaces the one before; requests with the old one are answered with FENCED_INSTANCE_ID. A member can be fenced in
this way although no other process has its instance id:

* It gave up a JoinGroup without a response, and sent another one. The first one arrives late, after the second, and
  replaces the member id of the second. Each such request can fence the member once, and only soon after. So each of
  them excuses one error, until a heartbeat succeeds one session time-out after the member has joined.
* No SyncGroup has confirmed the member id, so the coordinator may not have stored it. A new coordinator then knows only
  the id before it.

An excused member joins again without a member id, which fences the member that replaced it. If that was another process
after all, that process is fenced, as if this one had been started later.

No I/O.
"""

from __future__ import annotations

from typing import Final

MAX_UNCONFIRMED: Final = 5
"""How many errors are excused before the first SyncGroup has succeeded."""


class FencingDoubt:
    """The requests of a static member that may still fence it."""

    __slots__ = ("_confirmed", "_late", "_unconfirmed", "_until")

    def __init__(self) -> None:
        self._late = 0  # JoinGroup requests that may still arrive
        self._until: float | None = None  # when all have arrived; None until the next JoinGroup response
        self._confirmed = False
        self._unconfirmed = 0

    def gave_up_joining(self) -> None:
        """Note that a JoinGroup without a member id got no response."""
        self._late += 1
        self._until = None

    def joined(self, now: float, session_timeout_s: float, *, new_id: bool) -> None:
        if self._late and self._until is None:
            self._until = now + session_timeout_s
        if new_id:
            self._confirmed = False

    def synced(self) -> None:
        self._confirmed, self._unconfirmed = True, 0

    def heartbeat_answered(self, now: float) -> None:
        """Note a successful heartbeat: the coordinator knows the member id."""
        if self._until is not None and now > self._until:
            self._late, self._until = 0, None

    def may_be_own_request(self) -> bool:
        """Return whether this FENCED_INSTANCE_ID may come from a request of this member. Uses up one excuse."""
        if self._late:
            self._late -= 1
            return True
        if not self._confirmed and self._unconfirmed < MAX_UNCONFIRMED:
            self._unconfirmed += 1
            return True
        return False
