"""Broker sessions: the clients with which the proxy works for one HTTP user.

With authentication.method=BASIC each user has clients of their own, which log in with the user's password: the brokers
decide what a request may do. A session is kept while it is used, for at most moldau.rest.login.max.age.ms; the next
request after that logs in again. Passwords are kept in the settings of open clients only.

Without a login there is one session, of the proxy itself.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from moldau.aio import Admin, Consumer, Producer
from moldau.client.errors import ErrorCode, MoldauError, error_for
from moldau.host.clock import SystemClock
from moldau.host.event_log import event_logger
from moldau.rest.errors import RETRY_AFTER, TRY_AGAIN, ProxyError, login_needed
from moldau.rest.rest_settings import RestSettings
from moldau.service.login import MAX_PASSWORD_BYTES, credentials, new_secret

log = event_logger(__name__)

CLOCK: Final = SystemClock()
MAX_LOGINS_AT_ONCE: Final = 8
"""Others wait: a flood of wrong passwords must not fill the brokers with connections."""
LOGIN_TIMEOUT_S: Final = 20.0
ADMIN_TIMEOUT_MS: Final = "30000"
CLOSE_TIMEOUT_S: Final = 10.0
MAX_KNOWN_TOPICS: Final = 10_000
PRODUCER: Final = {"max.block.ms": "10000", "delivery.timeout.ms": "60000"}
"""Shorter than a producer's own: an HTTP client waits for the answer. `producer.` settings override them."""
SWEEP_S: Final = 1.0
"""How often idle sessions are looked for."""
NOT_FOR_USERS: Final = ("sasl.jaas.config", "sasl.username", "sasl.password")


class BrokerSession:
    """The clients of one user. They start at the first use."""

    def __init__(self, settings: RestSettings, user: str | None, password: str | None) -> None:
        self._settings = settings
        self._login = {} if user is None else {"sasl.username": user, "sasl.password": password or ""}
        self._admin: Admin | None = None
        self._producer: Producer | None = None
        self._starting = asyncio.Lock()
        self._partitions: dict[str, int] = {}
        self.user = user
        self.cluster_id = ""
        self.release: Callable[[], None] = lambda: None
        """Give back a lease that `hold` took."""
        self.leases = 0
        self.retired = False
        self.began = self.used = CLOCK.monotonic()

    def __repr__(self) -> str:
        return f"<BrokerSession of {self.user or 'the proxy'}>"

    def client_settings(self, kind: str) -> dict[str, Any]:
        found: dict[str, Any] = self._settings.client(kind)
        if self._login:
            found = {name: value for name, value in found.items() if name not in NOT_FOR_USERS}
        return {**found, **self._login}

    async def open(self) -> None:
        """Log in, and learn the id of the cluster. Raises the client's error."""
        self.cluster_id = (await (await self.admin()).describe_cluster(timeout=LOGIN_TIMEOUT_S)).cluster_id or ""

    async def check_partition(self, topic: str, partition: int | None) -> None:
        """Raise UnknownTopicOrPartition if there is no such topic or partition.

        A producer would wait for the topic, or have the broker create it; the misspelt name in a URL must do neither.
        """
        if (partition or 0) < self._partitions.get(topic, 0):
            return
        admin = await self.admin()
        count = len((await admin.describe_topics(topic))[topic].partitions)
        if partition is not None and partition >= count:
            detail = f"it has no partition {partition}; its partitions are 0 to {count - 1}"
            raise error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"sending to topic {topic!r}", detail)
        if len(self._partitions) >= MAX_KNOWN_TOPICS:
            self._partitions.clear()
        self._partitions[topic] = count

    async def admin(self) -> Admin:
        async with self._starting:
            if self._admin is None:
                self._admin = Admin({"default.api.timeout.ms": ADMIN_TIMEOUT_MS, **self.client_settings("admin.")})
            return self._admin

    async def producer(self) -> Producer:
        if self._producer is not None:
            return self._producer
        async with self._starting:
            if self._producer is None:
                self._producer = await Producer({**PRODUCER, **self.client_settings("producer.")}).start()
            return self._producer

    def consumer(self, **settings: Any) -> Consumer:
        """A new consumer, without a group unless the settings have one. The caller closes it.

        Topics are not created because somebody asks for their records.
        """
        given = {"allow.auto.create.topics": "false", **self.client_settings("consumer."), **settings}
        return Consumer(given)

    def hold(self) -> None:
        """Take another lease: for a response that continues after the handler has returned."""
        self.leases += 1

    async def close(self) -> None:
        for client in (self._producer, self._admin):
            if client is None:
                continue
            try:
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await client.close()
            except (MoldauError, TimeoutError, OSError) as error:
                log.warning("client was not closed cleanly", extra={"user": self.user or "", "reason": str(error)})
        self._producer = self._admin = None


class Sessions:
    """All sessions of a proxy."""

    def __init__(self, settings: RestSettings) -> None:
        self._settings = settings
        self._open: dict[bytes, BrokerSession] = {}
        self._opening: dict[bytes, asyncio.Task[BrokerSession]] = {}
        self._key = new_secret()
        self._logins = asyncio.Semaphore(MAX_LOGINS_AT_ONCE)
        self._max = settings.values["moldau.rest.max.users"]
        self._idle_s = settings.seconds("moldau.rest.user.timeout.ms")
        self._max_age_s = settings.seconds("moldau.rest.login.max.age.ms")
        self._tasks: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep(), name="REST proxy: idle users")

    def __len__(self) -> int:
        return len(self._open)

    @asynccontextmanager
    async def lease(self, authorization: str | None) -> AsyncIterator[BrokerSession]:
        """The session of the user who sent this Authorization header, for one request."""
        session = await self.take(authorization)
        try:
            yield session
        finally:
            self.give_back(session)

    async def take(self, authorization: str | None) -> BrokerSession:
        """The same for longer than one request, until `give_back`. ProxyError 401: the login failed."""
        user, password = self._credentials(authorization)
        name = hmac.digest(self._key, f"{user or ''}\0{password or ''}".encode(), "sha256")
        session = self._open.get(name)
        if session is not None and self._settings.logs_in_users and session.began + self._max_age_s < CLOCK.monotonic():
            self._retire(name)
            session = None
        if session is None:
            session = await self._opened(name, user, password)
        session.leases += 1
        session.used = CLOCK.monotonic()
        return session

    def give_back(self, session: BrokerSession) -> None:
        session.leases -= 1
        session.used = CLOCK.monotonic()
        if session.retired and session.leases == 0:
            self._close_later(session)

    def _credentials(self, authorization: str | None) -> tuple[str | None, str | None]:
        if not self._settings.logs_in_users:
            return None, None
        given = credentials(authorization)
        if given is None or not given[0] or len(given[1].encode()) > MAX_PASSWORD_BYTES:
            raise login_needed()
        return given

    async def _opened(self, name: bytes, user: str | None, password: str | None) -> BrokerSession:
        """Open a session, once for all requests that wait for it."""
        task = self._opening.get(name)
        if task is None:
            task = asyncio.get_running_loop().create_task(
                self._open_one(name, user, password), name="REST proxy: login"
            )
            self._opening[name] = task
            task.add_done_callback(lambda _: self._opening.pop(name, None))
        return await asyncio.shield(task)

    async def _open_one(self, name: bytes, user: str | None, password: str | None) -> BrokerSession:
        async with self._logins:
            self._make_room()
            session = BrokerSession(self._settings, user, password)
            try:
                await session.open()
            except BaseException:
                await session.close()
                raise
            session.release = lambda: self.give_back(session)
            self._open[name] = session
            return session

    def _make_room(self) -> None:
        if len(self._open) < self._max:
            return
        idle = [(session.used, name) for name, session in self._open.items() if session.leases == 0]
        if not idle:
            message = f"{self._max} users are logged in; the limit is moldau.rest.max.users"
            raise ProxyError(503, TRY_AGAIN, message, RETRY_AFTER)
        self._retire(min(idle)[1])

    def _retire(self, name: bytes) -> None:
        """No new request gets this session. It is closed when the last one has ended."""
        session = self._open.pop(name)
        session.retired = True
        if session.leases == 0:
            self._close_later(session)

    def _close_later(self, session: BrokerSession) -> None:
        task = asyncio.get_running_loop().create_task(session.close(), name="REST proxy: close session")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _sweep(self) -> None:
        while self._settings.logs_in_users:
            await asyncio.sleep(SWEEP_S)
            before = CLOCK.monotonic() - self._idle_s
            for name, session in list(self._open.items()):
                if session.leases == 0 and session.used < before:
                    self._retire(name)

    async def close(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        for task in list(self._opening.values()):
            task.cancel()
        sessions = list(self._open.values())
        self._open.clear()
        await asyncio.gather(*(session.close() for session in sessions), *self._tasks, return_exceptions=True)
