"""Client quotas of a broker: the limits of each client, their measured use, and the throttles that follow.

The quotas are those of the cluster image. A change applies to the next request of every connection: sessions keep the
limits of their client (`ClientLimits`) only as long as the table is the same object.

Without quotas, `active` and `timed` are False, and nothing else of this module runs.

Quotas are per broker, as in Kafka: a client that uses three brokers may have three times its rate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from moldau.broker.quotas.measured_clients import EXPIRY_CHECK_S, MeasuredClients
from moldau.broker.quotas.precedence import Measured, Quotas, applied_quota
from moldau.broker.quotas.rate_limit import QuotaWindow, RateLimit, TokenBucket
from moldau.cluster.security_image import SecurityImage
from moldau.security.quota_entities import (
    CLIENT_QUOTAS,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)

if TYPE_CHECKING:
    from moldau.security import Principal
    from moldau.settings import BrokerSettings

PERCENT: Final = 100.0

_NO_QUOTAS: Final[Quotas] = {}


class QuotaWindows(NamedTuple):
    """The windows of a broker's settings."""

    client: QuotaWindow = QuotaWindow()
    controller: QuotaWindow = QuotaWindow()

    @classmethod
    def of(cls, settings: BrokerSettings) -> QuotaWindows:
        return cls(
            QuotaWindow(settings["quota.window.num"], settings["quota.window.size.seconds"]),
            QuotaWindow(settings["controller.quota.window.num"], settings["controller.quota.window.size.seconds"]),
        )


class ThrottleCount:
    """How often, and for how long, clients were throttled by quotas of one name."""

    __slots__ = ("requests", "seconds")

    def __init__(self) -> None:
        self.requests = 0
        self.seconds = 0.0


class ClientLimits:
    """The limits of one client, as a session keeps them. None: unlimited."""

    __slots__ = ("client_id", "fetch", "mutations", "principal", "produce", "request", "table")

    def __init__(
        self,
        table: object,
        principal: Principal,
        client_id: str,
        produce: RateLimit | None,
        fetch: RateLimit | None,
        request: RateLimit | None,
        mutations: TokenBucket | None,
    ) -> None:
        self.table = table
        self.principal = principal
        self.client_id = client_id
        self.produce = produce
        self.fetch = fetch
        self.request = request
        self.mutations = mutations


class QuotaClient(Protocol):
    """What the quotas need of a session."""

    remembered: ClientLimits | None

    @property
    def principal(self) -> Principal: ...


class AnyLimit(Protocol):
    """Either kind of rate limit."""

    rate: float

    def is_idle(self, now: float) -> bool: ...


L = TypeVar("L", bound=AnyLimit)


class ClientQuotas:
    __slots__ = (
        "_changed",
        "_checked_at",
        "_fetch",
        "_mutations",
        "_now",
        "_produce",
        "_quotas",
        "_request",
        "_table",
        "_windows",
        "active",
        "muted",
        "throttled",
        "timed",
    )

    def __init__(
        self, windows: QuotaWindows, now: Callable[[], float], changed: Callable[[], None] = lambda: None
    ) -> None:
        self._windows = windows
        self._now = now
        self._changed = changed
        self._quotas: Quotas = _NO_QUOTAS
        self._table = object()
        """Replaced when the quotas change or clients are forgotten, so that sessions look up their limits again."""
        self._checked_at = 0.0
        self._produce = MeasuredClients[Measured, RateLimit]()
        self._fetch = MeasuredClients[Measured, RateLimit]()
        self._request = MeasuredClients[Measured, RateLimit]()
        self._mutations = MeasuredClients[Measured, TokenBucket]()
        self.active = False
        """Whether any client may have a quota."""
        self.timed = False
        """Whether any client may have a quota of request time."""
        self.muted = 0
        """Connections that are throttled now."""
        self.throttled: Mapping[str, ThrottleCount] = {
            quota: ThrottleCount() for quota in (*CLIENT_QUOTAS, CONNECTION_CREATION_RATE)
        }

    def __len__(self) -> int:
        """The number of measured clients, of all quota names."""
        return len(self._produce) + len(self._fetch) + len(self._request) + len(self._mutations)

    def follow(self, security: SecurityImage) -> None:
        """Apply the quotas of a new image, at once. `changed` is called if they differ."""
        quotas = security.client_quotas
        if quotas is self._quotas or quotas == self._quotas:
            return
        self._quotas = quotas
        self._table = object()
        names = {name for values in quotas.values() for name in values}
        self.active = not names.isdisjoint(CLIENT_QUOTAS)
        self.timed = REQUEST_PERCENTAGE in names
        self._changed()

    def of(self, client: QuotaClient, client_id: str) -> ClientLimits:
        """The limits of a request's client, from its session's memory if nothing has changed since."""
        limits = client.remembered
        if (
            limits is None
            or limits.table is not self._table
            or limits.client_id != client_id
            or limits.principal is not client.principal
        ):
            limits = client.remembered = self._look_up(client.principal, client_id)
        return limits

    def _look_up(self, principal: Principal, client_id: str) -> ClientLimits:
        now = self._now()
        if now - self._checked_at >= EXPIRY_CHECK_S:
            self._checked_at = now
            for clients in (self._produce, self._fetch, self._request, self._mutations):
                clients.expire(now)
            self._table = object()
        client = (principal.name, client_id)
        window, controller = self._windows
        burst_s = controller.samples * controller.sample_s

        def evenly(rate: float) -> RateLimit:
            return RateLimit(rate, window.ahead_s, window.seconds)

        def time_share(rate: float) -> RateLimit:
            return RateLimit(rate, window.sample_s, window.sample_s)

        produce = self._limit(PRODUCER_BYTE_RATE, *client, self._produce, evenly)
        fetch = self._limit(CONSUMER_BYTE_RATE, *client, self._fetch, evenly)
        request = self._limit(REQUEST_PERCENTAGE, *client, self._request, time_share, 1 / PERCENT)
        mutations = self._limit(
            CONTROLLER_MUTATION_RATE, *client, self._mutations, lambda rate: TokenBucket(rate, burst_s, now)
        )
        return ClientLimits(self._table, principal, client_id, produce, fetch, request, mutations)

    def _limit(
        self,
        name: str,
        user: str,
        client_id: str,
        clients: MeasuredClients[Measured, L],
        make: Callable[[float], L],
        unit: float = 1.0,
    ) -> L | None:
        """The limit of a quota that applies to a client, with the use that was measured so far."""
        applied = applied_quota(self._quotas, name, user, client_id)
        if applied is None:
            return None
        rate = applied.value * unit
        limit = clients.get(applied.measured)
        if limit is None:
            if clients.make_room(self._now()):
                self._table = object()  # a session may still have a limit that was removed
            limit = clients[applied.measured] = make(rate)
        limit.rate = rate
        return limit

    def count(self, quota: str, seconds: float) -> None:
        """Count a throttled request."""
        counted = self.throttled[quota]
        counted.requests += 1
        counted.seconds += seconds

    @property
    def longest_mutation_pause_s(self) -> float:
        return self._windows.controller.seconds
