"""Quotas of one session: the limits of its client, its throttle, and the time that its requests take.

A throttled session sends its responses, but processes no further request (KIP-219: the response first, then the pause).
It reads nothing meanwhile. So it holds no more than the requests that it had received before, and the receive buffer
limits these (`net/framing.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    import asyncio

    from moldau.broker.connection.session import Session
    from moldau.broker.quotas.client_quotas import ClientLimits, ClientQuotas
    from moldau.security import Principal

P = ParamSpec("P")
T = TypeVar("T")


class SessionQuota:
    __slots__ = ("_lap", "_loop", "_quotas", "_session", "_unmute", "remembered")

    def __init__(self, session: Session, quotas: ClientQuotas, loop: asyncio.AbstractEventLoop) -> None:
        self._session = session
        self._quotas = quotas
        self._loop = loop
        self._unmute: asyncio.TimerHandle | None = None
        self._lap: float | None = None  # when the part of a request that runs now began, if its time counts
        self.remembered: ClientLimits | None = None
        """For `ClientQuotas.of`: the limits that it has found last."""

    @property
    def principal(self) -> Principal:
        return self._session.principal

    def limits(self, client_id: str) -> ClientLimits:
        return self._quotas.of(self, client_id)

    # -- throttle --------------------------------------------------------------------------------------------------

    def throttle(self, quota: str, seconds: float) -> bool:
        """Process no further request for this time, because the client has exceeded a quota. A longer throttle replaces
        a shorter one. Returns whether there is anything to wait for."""
        if seconds <= 0:
            return False
        session = self._session
        if session.transport is None:
            return True
        self._quotas.count(quota, seconds)
        until = self._loop.time() + seconds
        if self._unmute is None:
            self._quotas.muted += 1
            session.hold()
        elif until <= self._unmute.when():
            return True
        else:
            self._unmute.cancel()
        self._unmute = self._loop.call_at(until, self.unmute)
        return True

    def unmute(self) -> None:
        """End the throttle: its time is over, or the quotas have changed."""
        if self._unmute is not None:
            self.close()
            self._session.release()

    @property
    def throttle_ms(self) -> int:
        """The rest of the throttle, for `throttle_time_ms` of a response; 0 if there is none."""
        if self._unmute is None:
            return 0
        return max(1, round((self._unmute.when() - self._loop.time()) * 1000))

    def close(self) -> None:
        """The session has ended, or its throttle."""
        if self._unmute is not None:
            self._unmute.cancel()
            self._unmute = None
            self._quotas.muted -= 1

    # -- request time ----------------------------------------------------------------------------------------------

    def run_timed(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a part of a request, and count the time that it takes from the loop."""
        before, self._lap = self._lap, self._loop.time()
        try:
            return work(*args, **kwargs)
        finally:
            self.count_time()
            self._lap = before

    def count_time(self) -> None:
        """Count the time since this was last called, against the client of the last request."""
        if self._lap is None:
            return
        began, self._lap = self._lap, self._loop.time()
        limit = self.limits(self._session.client_id).request
        if limit is not None:
            limit.charge(self._lap - began, self._lap)

    def do_not_count_time(self) -> None:
        """The current request is not the client's but the cluster's: a follower's fetch, a transaction marker."""
        self._lap = None
