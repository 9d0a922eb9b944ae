"""Consumer instances of API v2: consumers that the proxy keeps for HTTP clients between their requests.

An instance belongs to the user who created it; for others it does not exist. One request at a time uses it. An instance
that is not used for consumer.instance.timeout.ms is closed and leaves its group.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from moldau.aio import Consumer
from moldau.client.data_types import TopicPartition
from moldau.client.errors import MoldauError
from moldau.host.clock import SystemClock
from moldau.host.event_log import event_logger
from moldau.rest.errors import (
    BAD_CONSUMER_CONFIG,
    CONSUMER_EXISTS,
    NO_CONSUMER,
    ProxyError,
    not_found,
    unprocessable,
)
from moldau.rest.record_formats import RecordFormat
from moldau.rest.rest_settings import RestSettings
from moldau.rest.sessions import BrokerSession
from moldau.rest.v2.media_types import FORMATS
from moldau.service.login import new_secret

log = event_logger(__name__)

CLOCK: Final = SystemClock()
SWEEP_S: Final = 0.5
CLOSE_TIMEOUT_S: Final = 5.0
BUSY_TIMEOUT_S: Final = 30.0
"""How long a request waits for another one that uses the same instance."""
CLIENT_SETTINGS: Final = {
    "auto.offset.reset": "auto.offset.reset",
    "auto.commit.enable": "enable.auto.commit",
    "fetch.min.bytes": "fetch.min.bytes",
}
"""Fields of the request that are settings of the consumer."""


class ConsumerInstance:
    """One consumer."""

    def __init__(
        self, session: BrokerSession, group: str, name: str, kind: RecordFormat, consumer: Consumer, timeout_s: float
    ) -> None:
        self.session = session
        self.group = group
        self.name = name
        self.format = kind
        self.consumer = consumer
        self.request_timeout_s = timeout_s
        self.used = CLOCK.monotonic()
        self.lock = asyncio.Lock()
        self.closed = False

    async def give_back(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read these partitions again from these offsets: their records were not returned to the client."""
        for partition, offset in offsets.items():
            if partition in self.consumer.assignment():
                await self.consumer.seek(partition, offset)

    async def close(self) -> None:
        self.closed = True
        try:
            await self.consumer.close(CLOSE_TIMEOUT_S)
        except MoldauError as error:
            log.warning("consumer was not closed cleanly", extra={"group": self.group, "reason": str(error)})
        finally:
            self.session.release()


class ConsumerInstances:
    """All instances of a proxy."""

    def __init__(self, settings: RestSettings) -> None:
        self._instances: dict[tuple[str | None, str, str], ConsumerInstance] = {}
        self._max = settings.values["moldau.rest.max.consumers"]
        self._idle_s = settings.seconds("consumer.instance.timeout.ms")
        self._request_timeout_s = settings.seconds("consumer.request.timeout.ms")
        self.max_bytes: int = settings.values["consumer.request.max.bytes"]
        self._sweeper: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._instances)

    def start(self) -> None:
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep(), name="REST proxy: idle consumers")

    async def create(self, session: BrokerSession, group: str, body: Mapping[str, Any]) -> ConsumerInstance:
        """Create an instance. ProxyError: the name is taken (409), a setting is wrong (422), too many exist (429)."""
        name = body.get("name") or body.get("id") or f"rest-consumer-{new_secret(12).hex()}"
        kind = FORMATS[body.get("format") or "binary"]
        if (session.user, group, name) in self._instances:
            raise ProxyError(409, CONSUMER_EXISTS, f"group {group!r} has a consumer instance {name!r} already")
        if len(self._instances) >= self._max:
            message = f"{self._max} consumer instances exist; the limit is moldau.rest.max.consumers"
            raise ProxyError(429, 429, message, {"Retry-After": "10"})
        settings = {to: _text(body[field]) for field, to in CLIENT_SETTINGS.items() if body.get(field) is not None}
        timeout_ms = body.get("consumer.request.timeout.ms")
        timeout_s = self._request_timeout_s if timeout_ms is None else int(timeout_ms) / 1_000
        try:
            consumer = session.consumer(**{"group.id": group, **settings})
        except MoldauError as error:
            raise unprocessable(str(error), BAD_CONSUMER_CONFIG) from None
        session.hold()
        instance = ConsumerInstance(session, group, name, kind, consumer, timeout_s)
        self._instances[session.user, group, name] = instance
        return instance

    @asynccontextmanager
    async def used(self, session: BrokerSession, group: str, name: str) -> AsyncIterator[ConsumerInstance]:
        """An instance, for one request. ProxyError 404: the user has no such instance."""
        instance = self._instances.get((session.user, group, name))
        if instance is None:
            raise _missing(group, name)
        try:
            async with asyncio.timeout(BUSY_TIMEOUT_S):
                await instance.lock.acquire()
        except TimeoutError:
            raise ProxyError(
                409, 409, f"another request uses consumer instance {name!r}; wait for its answer"
            ) from None
        try:
            if instance.closed:
                raise _missing(group, name)
            yield instance
        finally:
            instance.used = CLOCK.monotonic()
            instance.lock.release()

    async def remove(self, session: BrokerSession, group: str, name: str) -> None:
        async with self.used(session, group, name) as instance:
            del self._instances[session.user, group, name]
            await instance.close()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(min(SWEEP_S, self._idle_s))
            before = CLOCK.monotonic() - self._idle_s
            for key, instance in list(self._instances.items()):
                if instance.used < before and not instance.lock.locked():
                    del self._instances[key]
                    log.info("idle consumer closed", extra={"group": instance.group, "instance": instance.name})
                    async with instance.lock:
                        await instance.close()

    async def close(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        instances = list(self._instances.values())
        self._instances.clear()
        await asyncio.gather(*(instance.close() for instance in instances), return_exceptions=True)


def _missing(group: str, name: str) -> ProxyError:
    return not_found(f"group {group!r} has no consumer instance {name!r}; it may have expired", NO_CONSUMER)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
