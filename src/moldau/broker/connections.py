"""Who is connected, and the limits on that: how many in all, how many from one address, how long without a word."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from moldau.settings import connection_overrides

if TYPE_CHECKING:
    from moldau.broker.broker import Broker
    from moldau.broker.session import Session

log = logging.getLogger(__name__)

IDLE_SWEEPS = 10
"""An idle connection is closed at most a tenth of `connections.max.idle.ms` late."""

COMPLAINTS_A_SECOND = 20
"""Log lines about what clients do wrong. Beyond that they are only counted: nobody shall fill the log from outside, nor
hold up the loop where the log is read slowly."""


class Connections:
    __slots__ = ("_broker", "_complaints", "_none_left", "_per_host", "_second_began", "_sessions")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._sessions: dict[Session, None] = {}
        self._per_host: dict[str, int] = {}
        self._none_left: asyncio.Future[None] | None = None
        self._second_began = 0.0
        self._complaints = 0  # in that second, logged or not

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        """Those that are open now, whatever becomes of them on the way."""
        return iter(list(self._sessions))

    def admit(self, session: Session) -> str | None:
        """None, or the reason why this connection is one too many."""
        settings = self._broker.settings
        host = session.client_host
        from_host = self._per_host.get(host, 0)
        limit = settings["max.connections.per.ip"]
        if settings["max.connections.per.ip.overrides"]:
            limit = connection_overrides(settings["max.connections.per.ip.overrides"]).get(host, limit)
        reason = None
        if len(self._sessions) >= settings["max.connections"]:
            reason = f"{len(self._sessions)} connections are open (max.connections)"
        elif from_host >= limit:
            reason = f"{from_host} connections from {host} are open (max.connections.per.ip)"
        if reason is not None:
            self._broker.metrics.connections_refused += 1
            return reason
        self._sessions[session] = None
        self._per_host[host] = from_host + 1
        self._broker.metrics.connections_accepted += 1
        return None

    def forget(self, session: Session) -> None:
        if session not in self._sessions:
            return  # was never admitted
        del self._sessions[session]
        host = session.client_host
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]
        if not self._sessions and self._none_left is not None and not self._none_left.done():
            self._none_left.set_result(None)

    async def none_left(self) -> None:
        """Returns when the last connection is gone."""
        if self._sessions:
            self._none_left = asyncio.get_running_loop().create_future()
            await self._none_left

    def complain(self, what: str, session: Session, reason: str) -> None:
        """Say in the log what a client did wrong, unless that was said too often just now."""
        now = self._broker.loop.time()
        if now - self._second_began >= 1.0:
            if self._complaints > COMPLAINTS_A_SECOND:
                log.warning("more of these were not logged", extra={"count": self._complaints - COMPLAINTS_A_SECOND})
            self._second_began, self._complaints = now, 0
        self._complaints += 1
        if self._complaints <= COMPLAINTS_A_SECOND:
            log.warning(what, extra={"client": session.peer, "reason": reason})

    def close_idle(self, now: float) -> None:
        max_idle_s = self._broker.settings["connections.max.idle.ms"] / 1000
        for session in [s for s in self._sessions if s.idle and now - s.last_active > max_idle_s]:
            log.info(
                "idle connection closed", extra={"client": session.peer, "idle_s": round(now - session.last_active)}
            )
            self._broker.metrics.connections_idle_closed += 1
            session.close()

    def close_all(self) -> None:
        for session in self:
            session.close()

    def abort_all(self) -> None:
        for session in self:
            if session.transport is not None:
                session.transport.abort()
