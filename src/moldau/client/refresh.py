"""Keeps a client's image of the cluster current: asks when it is needed, when it is old, and again when that failed.

One task asks; everybody else only says that it should. An answer counts for those who asked before the question left.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from moldau.client.backoff import Backoff
from moldau.client.broker_errors import BrokerError, error_for
from moldau.client.metadata import ClusterMetadata, merge
from moldau.client.own_errors import ClosedError, MoldauError, TimedOut, another
from moldau.client.settings import ClientSettings
from moldau.host.clock import Randomness
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

logger = logging.getLogger(__name__)

MIN_VERSION: Final = 4
"""Before it a question about topics could not forbid their creation (Kafka 0.11)."""

Ask = Callable[[MetadataRequest], Awaitable[MetadataResponse]]
OnImage = Callable[[ClusterMetadata], None]


class Followed:
    """The topics whose metadata is kept, and when each was last wanted. Pure: time is handed in."""

    __slots__ = ("_max_idle_s", "all", "topics")

    def __init__(self, max_idle_s: float | None) -> None:
        self.topics: dict[str, float] = {}
        self.all = False
        self._max_idle_s = max_idle_s

    def add(self, topics: Iterable[str], now: float) -> bool:
        """Whether there is one among them that was not followed before."""
        new = False
        for topic in topics:
            new |= topic not in self.topics
            self.topics[topic] = now
        return new

    def remove(self, topics: Iterable[str]) -> None:
        for topic in topics:
            self.topics.pop(topic, None)

    def expire(self, now: float) -> None:
        """Forget topics that nobody has wanted for long; only producers have such."""
        if self._max_idle_s is not None:
            self.topics = {topic: used for topic, used in self.topics.items() if now - used < self._max_idle_s}

    def question(self, allow_creation: bool) -> MetadataRequest:
        topics = None if self.all else [MetadataRequestTopic(name=topic) for topic in self.topics]
        return MetadataRequest(topics=topics, allow_auto_topic_creation=allow_creation)


class Refresher:
    """The image, and the one task that replaces it."""

    def __init__(self, settings: ClientSettings, randomness: Randomness, ask: Ask, on_image: OnImage) -> None:
        self.image = ClusterMetadata()
        self.last_error: MoldauError | None = None
        """Why the last question failed; None after an answer."""
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
        """Whoever wants an image, and whose question has not left yet."""
        self._asked: list[asyncio.Future[ClusterMetadata]] = []
        """Those for whom the question on its way was asked."""
        self._failures = 0
        self._asked_at = float("-inf")
        self._closed = False

    # -- what others say and ask -----------------------------------------------------------------------------------

    def soon(self) -> None:
        """Ask again when the pause since the last question is over."""
        self._needed.set()

    def follow(self, topics: Iterable[str]) -> None:
        """Keep metadata of these topics. One that is new is asked for without a pause."""
        if self.followed.add(topics, asyncio.get_running_loop().time()):
            self._needed.set()
            self._urgent.set()

    def replace(self, image: ClusterMetadata) -> None:
        """A newer image, from elsewhere than an answer to our question."""
        self.image = image
        self._on_image(image)

    async def refreshed(self, deadline: float) -> ClusterMetadata:
        """An image that was asked for after this call."""
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
        """The error of whoever waited in vain for the cluster to be described."""
        reason = f"; the last attempt: {self.last_error}" if self.last_error is not None else ""
        return TimedOut(f"no broker described the cluster in time{reason}")

    # -- the task --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Ask whenever it is time, until cancelled."""
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
                raise error_for(response.error_code, "asking for the cluster's metadata")
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
        logger.debug("the cluster's metadata could not be had: %s", error)
        asked, self._asked = self._asked, []
        if error.retriable or _asks_for_bootstrap(error):
            self._waiting[:0] = asked
            return
        # What will not pass by itself is told at once: nobody should wait a minute for a port that speaks HTTP.
        for one in asked:
            if not one.done():
                one.set_exception(another(error))

    def close(self) -> None:
        """Whoever waits hears that the client was closed."""
        self._closed = True
        waiting, self._waiting, self._asked = self._asked + self._waiting, [], []
        for one in waiting:
            if not one.done():
                one.set_exception(ClosedError("the client was closed"))


def _asks_for_bootstrap(error: MoldauError) -> bool:
    return isinstance(error, BrokerError) and error.code is ErrorCode.REBOOTSTRAP_REQUIRED


async def _set_or_time(event: asyncio.Event, at: float) -> None:
    """Returns when the event is set, or the time has come."""
    if event.is_set() or at <= asyncio.get_running_loop().time():
        return
    try:
        async with asyncio.timeout_at(at):
            await event.wait()
    except TimeoutError:
        pass
