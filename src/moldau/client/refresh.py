"""Metadata refresh: requests metadata when it is needed, when it is too old, and again after a failure.

One task sends the requests; all others only ask it to. A response is valid for callers that asked before the request
was sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from moldau.client.backoff import Backoff
from moldau.client.broker_errors import BrokerError, error_for
from moldau.client.client_errors import ClosedError, MoldauError, TimedOut, error_copy
from moldau.client.metadata import ClusterMetadata, merge
from moldau.client.settings import ClientSettings
from moldau.host.clock import Randomness
from moldau.host.event_log import event_logger
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

log = event_logger(__name__)

MIN_VERSION: Final = 4
"""The first version that can forbid the creation of topics (Kafka 0.11)."""

Ask = Callable[[MetadataRequest], Awaitable[MetadataResponse]]
OnImage = Callable[[ClusterMetadata], None]


class Followed:
    """The topics whose metadata is kept, and the time of their last use. Pure: the caller passes the time."""

    __slots__ = ("_max_idle_s", "all", "topics")

    def __init__(self, max_idle_s: float | None) -> None:
        self.topics: dict[str, float] = {}
        self.all = False
        self._max_idle_s = max_idle_s

    def add(self, topics: Iterable[str], now: float) -> bool:
        """Follow these topics. Return whether one of them was not followed before."""
        new = False
        for topic in topics:
            new |= topic not in self.topics
            self.topics[topic] = now
        return new

    def remove(self, topics: Iterable[str]) -> None:
        for topic in topics:
            self.topics.pop(topic, None)

    def expire(self, now: float) -> None:
        """Remove topics that were not used for metadata.max.idle.ms, which only producers have."""
        if self._max_idle_s is not None:
            self.topics = {topic: used for topic, used in self.topics.items() if now - used < self._max_idle_s}

    def question(self, allow_creation: bool) -> MetadataRequest:
        topics = None if self.all else [MetadataRequestTopic(name=topic) for topic in self.topics]
        return MetadataRequest(topics=topics, allow_auto_topic_creation=allow_creation)


class Refresher:
    """The image of the cluster, and the task that replaces it."""

    def __init__(self, settings: ClientSettings, randomness: Randomness, ask: Ask, on_image: OnImage) -> None:
        self.image = ClusterMetadata()
        self.last_error: MoldauError | None = None
        """The error of the last request; None after a response."""
        max_idle_s = settings.seconds("metadata.max.idle.ms") if "metadata.max.idle.ms" in settings else None
        self.followed = Followed(max_idle_s)
        self._allow_creation = settings.kind == "producer" or (
            settings.kind == "consumer" and bool(settings["allow.auto.create.topics"])
        )
        self._backoff = Backoff(settings.seconds("retry.backoff.ms"), settings.seconds("retry.backoff.max.ms"))
        self._max_age_s = settings.seconds("metadata.max.age.ms")
        self._random = randomness.random
        self._ask = ask
        self._on_image = on_image
        self._needed = asyncio.Event()
        self._needed.set()
        self._urgent = asyncio.Event()
        self._waiting: list[asyncio.Future[ClusterMetadata]] = []
        """Callers that wait for the next request."""
        self._asked: list[asyncio.Future[ClusterMetadata]] = []
        """Callers that wait for the response to the current request."""
        self._failures = 0
        self._asked_at = float("-inf")
        self._closed = False

    # -- calls of the client ---------------------------------------------------------------------------------------

    def soon(self) -> None:
        """Refresh when the pause after the last request is over."""
        self._needed.set()

    def follow(self, topics: Iterable[str]) -> None:
        """Keep metadata of these topics. For a new topic the request is sent without a pause."""
        if self.followed.add(topics, asyncio.get_running_loop().time()):
            self._needed.set()
            self._urgent.set()

    def replace(self, image: ClusterMetadata) -> None:
        """Set a newer image."""
        self.image = image
        self._on_image(image)

    async def refreshed(self, deadline: float) -> ClusterMetadata:
        """Return an image that was requested after this call."""
        if self._closed:
            raise ClosedError("the client is closed")
        answer: asyncio.Future[ClusterMetadata] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        self._needed.set()
        try:
            async with asyncio.timeout_at(deadline):
                return await answer
        except TimeoutError as error:
            if isinstance(error, MoldauError):
                raise
            raise self.no_answer() from self.last_error
        finally:
            for waiting in (self._waiting, self._asked):
                if answer in waiting:
                    waiting.remove(answer)

    def no_answer(self) -> TimedOut:
        """Return the error for callers whose deadline passed without a response."""
        reason = f"; the last error: {self.last_error}" if self.last_error is not None else ""
        return TimedOut(f"no broker answered the metadata request in time{reason}")

    # -- task ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Refresh whenever it is due, until cancelled."""
        while True:
            await self._due()
            await self._refresh()

    async def _due(self) -> None:
        loop = asyncio.get_running_loop()
        await _set_or_time(self._needed, self._asked_at + self._max_age_s)
        pause = self._backoff.pause(max(1, self._failures), self._random())
        if self._failures:
            await asyncio.sleep(self._asked_at + pause - loop.time())
        else:
            await _set_or_time(self._urgent, self._asked_at + pause)

    async def _refresh(self) -> None:
        now = asyncio.get_running_loop().time()
        self._asked_at = now
        self._needed.clear()
        self._urgent.clear()
        self.followed.expire(now)
        question = self.followed.question(self._allow_creation)
        asked = set(self.followed.topics)
        self._asked, self._waiting = self._waiting, []
        try:
            response = await self._ask(question)
            if response.error_code:
                raise error_for(response.error_code, "requesting metadata of the cluster")
        except MoldauError as error:
            self._failed(error)
            return
        self._failures = 0
        self.last_error = None
        keep = [topic for topic in self.followed.topics if topic not in asked]
        self.replace(merge(self.image, response, keep))
        for one in self._asked:
            if not one.done():
                one.set_result(self.image)
        self._asked = []

    def _failed(self, error: MoldauError) -> None:
        self._failures += 1
        self.last_error = error
        self._needed.set()
        log.debug("metadata request failed", extra={"reason": str(error)})
        asked, self._asked = self._asked, []
        if error.retriable or _asks_for_bootstrap(error):
            self._waiting[:0] = asked
            return
        # An error that is not retriable is raised at once: nobody should wait a minute for a port that speaks HTTP.
        for one in asked:
            if not one.done():
                one.set_exception(error_copy(error))

    def close(self) -> None:
        """Fail all waiting calls with ClosedError."""
        self._closed = True
        waiting, self._waiting, self._asked = self._asked + self._waiting, [], []
        for one in waiting:
            if not one.done():
                one.set_exception(ClosedError("the client was closed"))


def _asks_for_bootstrap(error: MoldauError) -> bool:
    return isinstance(error, BrokerError) and error.code is ErrorCode.REBOOTSTRAP_REQUIRED


async def _set_or_time(event: asyncio.Event, at: float) -> None:
    """Wait until the event is set, or until the time `at`."""
    if event.is_set() or at <= asyncio.get_running_loop().time():
        return
    try:
        async with asyncio.timeout_at(at):
            await event.wait()
    except TimeoutError:
        pass
