"""Feed: one consumer that reads a topic for its followers.

A shared feed reads the newest records for all followers who want the same. It keeps the last events, so that followers
who connect again continue without a consumer of their own. Records are read at most as fast as they can be handed to
all followers: with many of them, several records go together.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from moldau.aio import Consumer
from moldau.client.consumer.decode import Record
from moldau.client.data_types import TopicPartition
from moldau.client.errors import ClosedError, MoldauError, TimedOut, error_for
from moldau.host.clock import SystemClock
from moldau.host.event_log import event_logger
from moldau.rest.errors import ProxyError, rest_error, unprocessable
from moldau.rest.follow.events import EventChunk, FollowEvent, Positions, plain_record, position_text, record_text
from moldau.rest.follow.follower import EventFollower
from moldau.rest.record_formats import RecordFormat, plain_value
from moldau.rest.schema_formats import SchemaFormats
from moldau.rest.sessions import BrokerSession
from moldau.schemas.errors import SchemaError
from moldau.wire.errors import ErrorCode

log = event_logger(__name__)

CLOCK: Final = SystemClock()
POLL_S: Final = 1.0
FIRST_POLL_S: Final = 0.05
START_TIMEOUT_S: Final = 20.0
CLOSE_TIMEOUT_S: Final = 2.0
MAX_POLL: Final = 500
RECENT_BYTES: Final = 1024 * 1024
"""Events that a shared feed keeps for followers who connect again."""
PAUSE_PER_FOLLOWER_S: Final = 0.0002
"""The pause after each hand-out: the time that the followers' connections need for it, about."""
FETCH: Final = {"fetch.max.wait.ms": "250", "enable.auto.commit": "false", "auto.offset.reset": "earliest"}


class FollowWanted(NamedTuple):
    """What a follower wants to read."""

    topic: str
    partition: int | None
    key: RecordFormat
    value: RecordFormat


class Feed:
    """A consumer and its followers. Created by `Followers`, which ends it."""

    def __init__(
        self,
        session: BrokerSession,
        wanted: FollowWanted,
        schemas: SchemaFormats | None,
        start: Positions | str,
        *,
        shared: bool,
        on_end: Callable[[Feed], None],
    ) -> None:
        self._session = session
        self._wanted = wanted
        self._schemas = schemas
        self._start = start
        self._shared = shared
        self._on_end = on_end
        self._followers: set[EventFollower] = set()
        self._recent: deque[EventChunk] = deque()
        self._recent_bytes = 0
        self._recent_from: dict[int, int] = {}
        """From these offsets on `_recent` has all records."""
        self.positions: dict[int, int] = {}
        self._began: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._began.add_done_callback(lambda future: future.cancelled() or future.exception())
        session.hold()
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"REST proxy: follow {wanted.topic}")

    def __len__(self) -> int:
        return len(self._followers)

    async def began(self) -> None:
        """Wait until the brokers have answered once. Raises the client's error, for example for a missing topic."""
        await asyncio.shield(self._began)

    def add(self, follower: EventFollower) -> None:
        self._followers.add(follower)
        if self._task.done():
            follower.end(None)

    def has(self, positions: Positions) -> bool:
        """Whether the feed still has all events from these positions on."""
        known = self._recent_from
        return all(known[one] <= positions.get(one, 0) for one in known) if known else False

    def replay(self, follower: EventFollower, positions: Positions) -> None:
        """Give a follower the events from these positions on. `has` was true, with no await in between."""
        events = [event for chunk in self._recent for event in chunk.since(positions).events]
        follower.push(EventChunk(events))

    def remove(self, follower: EventFollower) -> None:
        """A follower is gone. The feed ends with its last one."""
        self._followers.discard(follower)
        if not self._followers:
            self.stop()

    def stop(self) -> None:
        self._task.cancel()

    async def ended(self) -> None:
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        error: ProxyError | None = None
        consumer: Consumer | None = None
        try:
            consumer = self._session.consumer(**FETCH)
            await self._begin(consumer)
            while True:
                await self._hand_out(await consumer.poll(POLL_S, MAX_POLL))
        except MoldauError as problem:
            error = rest_error(problem, v2=True)
            if not self._began.done():
                self._began.set_exception(problem)
            log.info("following ended", extra={"topic": self._wanted.topic, "reason": str(problem)})
        finally:
            self._on_end(self)
            if not self._began.done():
                self._began.set_exception(ClosedError(f"nobody follows topic {self._wanted.topic!r} any longer"))
            for follower in self._followers:
                follower.end(error)
            try:
                if consumer is not None:
                    await consumer.close(CLOSE_TIMEOUT_S)
            finally:
                self._session.release()

    async def _begin(self, consumer: Consumer) -> None:
        """Find the positions, and wait for the first answer to a fetch: it says whether the user may read."""
        topic = self._wanted.topic
        admin = await self._session.admin()
        count = len((await admin.describe_topics(topic))[topic].partitions)
        wanted = self._wanted.partition
        if wanted is not None and wanted >= count:
            detail = f"it has no partition {wanted}"
            raise error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"following topic {topic!r}", detail)
        partitions = [TopicPartition(topic, one) for one in (range(count) if wanted is None else [wanted])]
        await consumer.assign(partitions)
        if self._start == "latest":
            await consumer.seek_to_end(*partitions)
        elif isinstance(self._start, str):
            await consumer.seek_to_beginning(*partitions)
        else:
            for one in partitions:
                await consumer.seek(one, self._start.get(one.partition, 0))
        self.positions = {one.partition: await consumer.position(one, START_TIMEOUT_S) for one in partitions}
        self._recent_from = dict(self.positions)
        records: list[Record] = []
        until = CLOCK.monotonic() + START_TIMEOUT_S
        while not records and consumer.metrics()["fetch-requests-total"] < 2:
            records = await consumer.poll(FIRST_POLL_S, MAX_POLL)
            if CLOCK.monotonic() > until:
                raise TimedOut(f"following topic {topic!r}: no broker has answered within {START_TIMEOUT_S:g} s")
        self._began.set_result(None)
        await self._hand_out(records)

    async def _hand_out(self, records: list[Record]) -> None:
        if not records:
            return
        events = []
        for one in records:
            self.positions[one.partition] = one.offset + 1
            events.append(FollowEvent(one.partition, one.offset, await self._text(one), position_text(self.positions)))
        chunk = EventChunk(events)
        if self._shared:
            self._remember(chunk)
            for follower in self._followers:
                follower.push(chunk)
            await asyncio.sleep(len(self._followers) * PAUSE_PER_FOLLOWER_S)
            return
        for follower in list(self._followers):
            follower.push(chunk)
            await follower.room()

    def _remember(self, chunk: EventChunk) -> None:
        self._recent.append(chunk)
        self._recent_bytes += chunk.size
        while self._recent_bytes > RECENT_BYTES:
            gone = self._recent.popleft()
            self._recent_bytes -= gone.size
            for event in gone.events:
                self._recent_from[event.partition] = event.offset + 1

    async def _text(self, one: Record) -> str:
        wanted = self._wanted
        if not (wanted.key.has_schema or wanted.value.has_schema):
            return plain_record(one, wanted.key, wanted.value)
        key, value = await self._part(wanted.key, "key", one), await self._part(wanted.value, "value", one)
        return record_text(one, key, value)

    async def _part(self, kind: RecordFormat, part: str, one: Record) -> Callable[[], object]:
        data = one.key if part == "key" else one.value
        if not kind.has_schema or data is None:
            return lambda: plain_value(kind, data, part)
        if self._schemas is None:
            return _failing("the proxy has no schema registry; start it with schema.registry.url")
        try:
            found = await self._schemas.decoded(one.topic, part, kind, data)
        except (SchemaError, ProxyError) as error:
            return _failing(str(error))
        return lambda: found


def _failing(message: str) -> Callable[[], object]:
    def fail() -> object:
        raise unprocessable(message)

    return fail
