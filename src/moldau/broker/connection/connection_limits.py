"""Open client connections and their limits: in total, per address, per second, and how long they may be idle."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.host.event_log import event_logger
from moldau.security.quota_entities import CONNECTION_CREATION_RATE
from moldau.settings import BrokerSettings, connection_overrides

if TYPE_CHECKING:
    from moldau.broker.connection.session import Session
    from moldau.broker.metrics import BrokerMetrics
    from moldau.broker.quotas.client_quotas import ClientQuotas
    from moldau.broker.quotas.connection_rates import ConnectionRates

log = event_logger(__name__)

IDLE_SWEEPS = 10
"""Checks for idle connections per `connections.max.idle.ms`: they are closed at most a tenth of that time late."""

CLIENT_ERRORS_LOGGED_PER_SECOND = 20
"""Log lines per second about mistakes of clients. Further ones are only counted, so that clients can neither fill the
log nor block the loop if the log is written slowly."""

MAX_LATE_CLOSES: Final = 1_000
"""Refused connections that stay open for a moment, because their address opens too many per second. Further ones are
closed at once."""


class Refused(NamedTuple):
    """Why a connection is refused, and after which time it is closed."""

    reason: str
    after_s: float = 0.0


class Connections:
    __slots__ = (
        "_closed_later",
        "_errors",
        "_metrics",
        "_none_left",
        "_now",
        "_per_host",
        "_quotas",
        "_rates",
        "_second_began",
        "_sessions",
        "_settings",
        "unauthenticated",
    )

    def __init__(
        self,
        settings: Callable[[], BrokerSettings],
        metrics: BrokerMetrics,
        now: Callable[[], float],
        quotas: ClientQuotas,
        rates: ConnectionRates,
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._now = now
        self._quotas = quotas
        self._rates = rates
        self._closed_later: dict[Session, tuple[asyncio.TimerHandle, Callable[[], None]]] = {}
        self._sessions: dict[Session, None] = {}
        self._per_host: dict[str, int] = {}
        self.unauthenticated = 0
        """Connections whose TLS handshake or login is not complete."""
        self._none_left: asyncio.Future[None] | None = None
        self._second_began = 0.0
        self._errors = 0  # client errors in that second, logged or not

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        """The connections that are open now. They may be closed during the iteration."""
        return iter(list(self._sessions))

    def admit(self, session: Session) -> Refused | None:
        """Add a connection, unless a limit refuses it."""
        pause_s = self._rates.listener_pause(session.listener.name)
        if pause_s:
            self._metrics.accept_pauses += 1
            session.listener.pause(pause_s)
        early_s = self._rates.address_pause(session.client_host)
        if early_s:
            self._quotas.count(CONNECTION_CREATION_RATE, early_s)
            return Refused(f"{session.client_host} opens too many per second (connection_creation_rate)", early_s)
        settings = self._settings()
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
        elif session.unauthenticated and self.unauthenticated >= settings["moldau.max.unauthenticated.connections"]:
            reason = f"{self.unauthenticated} clients are logging in (moldau.max.unauthenticated.connections)"
        if reason is not None:
            self._metrics.connections_refused += 1
            return Refused(reason)
        if session.unauthenticated:
            self.unauthenticated += 1
        self._sessions[session] = None
        self._per_host[host] = from_host + 1
        self._metrics.connections_accepted += 1
        return None

    def authenticated(self) -> None:
        """A connection has completed its TLS handshake and its login."""
        self.unauthenticated -= 1

    def close_refused(self, session: Session, close: Callable[[], None], after_s: float) -> None:
        """Close a refused connection. An address that opens too many per second waits for it, so that it does not try
        again at once."""
        if after_s and len(self._closed_later) < MAX_LATE_CLOSES:
            timer = asyncio.get_running_loop().call_later(after_s, self._close_refused, session)
            self._closed_later[session] = (timer, close)
        else:
            close()

    def _close_refused(self, session: Session) -> None:
        timer, close = self._closed_later.pop(session)
        timer.cancel()
        close()

    def forget(self, session: Session) -> None:
        if session not in self._sessions:  # `admit` has refused it
            late = self._closed_later.pop(session, None)
            if late is not None:
                late[0].cancel()
            return
        del self._sessions[session]
        if session.unauthenticated:
            self.unauthenticated -= 1
        host = session.client_host
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]
        if not self._sessions and self._none_left is not None and not self._none_left.done():
            self._none_left.set_result(None)

    async def none_left(self) -> None:
        """Wait until the last connection is closed."""
        if self._sessions:
            self._none_left = asyncio.get_running_loop().create_future()
            await self._none_left

    def log_client_error(self, what: str, session: Session, reason: str, level: int = logging.WARNING) -> None:
        """Log a mistake of a client, unless there were too many in this second."""
        now = self._now()
        if now - self._second_began >= 1.0:
            if self._errors > CLIENT_ERRORS_LOGGED_PER_SECOND:
                log.warning(
                    "more client errors were not logged",
                    extra={"count": self._errors - CLIENT_ERRORS_LOGGED_PER_SECOND},
                )
            self._second_began, self._errors = now, 0
        self._errors += 1
        if self._errors <= CLIENT_ERRORS_LOGGED_PER_SECOND:
            log.log(level, what, extra={"client": session.peer, "reason": reason})

    def close_idle(self, now: float) -> None:
        max_idle_s = self._settings()["connections.max.idle.ms"] / 1000
        for session in [s for s in self._sessions if s.idle and now - s.last_active > max_idle_s]:
            log.info(
                "idle connection closed", extra={"client": session.peer, "idle_s": round(now - session.last_active)}
            )
            self._metrics.connections_idle_closed += 1
            session.close()

    def close_all(self) -> None:
        for session in self:
            session.close()
        self._close_all_refused()

    def abort_all(self) -> None:
        for session in self:
            if session.transport is not None:
                session.transport.abort()
        self._close_all_refused()

    def _close_all_refused(self) -> None:
        for session in list(self._closed_later):
            self._close_refused(session)
