"""Connection rates: how many new connections per second one address, one listener and the whole broker may open.

* An address above its rate (`connection_creation_rate` of its entity, or of the default): the connection is accepted
  and closed after the time by which it came too early. It does not count, so an address that keeps trying is not
  locked out.
* A listener or the broker above its rate (`max.connection.creation.rate`): the listener accepts nothing for that time.
  Connections that wait in its backlog are accepted together afterwards. So the rate is exceeded at once by at most the
  backlog, and the pause after it is longer.

As in Kafka, the rate is an average over the window of `quota.window.num`: a client that opens its few connections at
once is not refused. The listener for other brokers is not limited by the rate of the whole broker, if clients have
another one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from moldau.broker.quotas.measured_clients import EXPIRY_CHECK_S, MeasuredClients
from moldau.broker.quotas.precedence import Quotas, connection_rate_of
from moldau.broker.quotas.rate_limit import QuotaWindow, RateLimit
from moldau.security.quota_entities import CONNECTION_CREATION_RATE
from moldau.settings.setting import INT_MAX

if TYPE_CHECKING:
    from moldau.cluster.security_image import SecurityImage
    from moldau.settings import BrokerSettings

_NO_QUOTAS: Final[Quotas] = {}


class ConnectionRates:
    __slots__ = (
        "_addresses",
        "_broker",
        "_checked_at",
        "_listeners",
        "_now",
        "_protected",
        "_quotas",
        "_settings",
        "_window",
    )

    def __init__(
        self,
        window: QuotaWindow,
        settings: Callable[[], BrokerSettings],
        now: Callable[[], float],
        protected: str | None = None,
    ) -> None:
        self._window = window
        self._settings = settings
        self._now = now
        self._protected = protected
        """The listener that the rate of the whole broker does not limit."""
        self._quotas: Quotas = _NO_QUOTAS
        self._addresses = MeasuredClients[str, RateLimit]()
        self._broker = self._limit(0.0)
        self._listeners: dict[str, RateLimit] = {}
        self._checked_at = 0.0

    def __len__(self) -> int:
        """The number of measured addresses."""
        return len(self._addresses)

    def follow(self, security: SecurityImage) -> None:
        """Apply the quotas of a new image."""
        self._quotas = {
            entity: values
            for entity, values in security.client_quotas.items()
            if entity.ip is not None and CONNECTION_CREATION_RATE in values
        }

    def address_pause(self, address: str) -> float:
        """Count a new connection of an address. Returns 0.0, or the seconds by which it came too early."""
        if not self._quotas:
            return 0.0
        rate = connection_rate_of(self._quotas, address)
        if rate is None:
            return 0.0
        now = self._now()
        limit = self._addresses.get(address)
        if limit is None:
            self._expire(now)
            self._addresses.make_room(now)
            limit = self._addresses[address] = self._limit(rate)
        limit.rate = rate
        pause = limit.pause(now)
        if not pause:
            limit.charge(1, now)
        return min(pause, self._window.sample_s)

    def listener_pause(self, name: str) -> float:
        """Count a new connection of a listener. Returns the seconds for which the listener must not accept another
        one."""
        settings = self._settings()
        now = self._now()
        pause = 0.0
        rate = settings["max.connection.creation.rate"]
        if rate < INT_MAX and name != self._protected:
            self._broker.rate = rate
            pause = self._broker.charge(1, now)
        own_rate = settings.for_listener(name).own("max.connection.creation.rate")
        if own_rate is not None and own_rate < INT_MAX:
            limit = self._listeners.setdefault(name, self._limit(own_rate))
            limit.rate = own_rate
            pause = max(pause, limit.charge(1, now))
        return pause

    def _limit(self, rate: float) -> RateLimit:
        return RateLimit(rate, self._window.seconds, self._window.seconds)

    def _expire(self, now: float) -> None:
        if now - self._checked_at >= EXPIRY_CHECK_S:
            self._checked_at = now
            self._addresses.expire(now)
