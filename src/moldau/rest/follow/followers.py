"""Followers of topics: limits, and which feed a follower reads from."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from moldau.rest.errors import ProxyError
from moldau.rest.follow.events import Positions
from moldau.rest.follow.feed import Feed, FollowWanted
from moldau.rest.follow.follower import EventFollower
from moldau.rest.rest_settings import RestSettings
from moldau.rest.schema_formats import SchemaFormats
from moldau.rest.sessions import BrokerSession


class Followers:
    """All followers of a proxy."""

    def __init__(self, settings: RestSettings, schemas: SchemaFormats | None) -> None:
        self._schemas = schemas
        self._max: int = settings.values["moldau.rest.max.followers"]
        self._max_own: int = settings.values["moldau.rest.max.own.consumers"]
        self._max_bytes: int = settings.values["moldau.rest.follower.buffer.bytes"]
        self.max_age_s = settings.seconds("moldau.rest.login.max.age.ms") if settings.logs_in_users else None
        """A stream ends then: a user whose password has changed must not read on."""
        self._shared: dict[tuple[BrokerSession, FollowWanted], Feed] = {}
        self._feeds: set[Feed] = set()
        self._count = 0
        self._closing = False

    def __len__(self) -> int:
        return self._count

    @property
    def feeds(self) -> int:
        """Consumers that read for followers."""
        return len(self._feeds)

    @asynccontextmanager
    async def following(
        self, session: BrokerSession, wanted: FollowWanted, start: Positions | str
    ) -> AsyncIterator[EventFollower]:
        """A follower that reads. Raises the client's error if it cannot begin, ProxyError 429 if there are too many."""
        if self._closing or self._count >= self._max:
            message = f"{self._max} followers are connected; the limit is moldau.rest.max.followers"
            raise ProxyError(429, 429, message, {"Retry-After": "10"})
        self._count += 1
        try:
            follower = EventFollower(self._max_bytes)
            feed = await self._feed(session, wanted, start, follower)
            try:
                yield follower
            finally:
                feed.remove(follower)
        finally:
            self._count -= 1

    async def _feed(
        self, session: BrokerSession, wanted: FollowWanted, start: Positions | str, follower: EventFollower
    ) -> Feed:
        feed = self._shared.get((session, wanted))
        if feed is None and start == "latest":
            feed = self._new(session, wanted, start, shared=True)
            self._shared[session, wanted] = feed
        if feed is not None and start == "latest":
            return await self._joined(feed, follower)
        if feed is not None and not isinstance(start, str) and feed.has(start):
            feed.replay(follower, start)
            feed.add(follower)
            return feed
        if len(self._feeds) - len(self._shared) >= self._max_own:
            message = f"{self._max_own} followers have a consumer; the limit is moldau.rest.max.own.consumers"
            raise ProxyError(429, 429, message, {"Retry-After": "10"})
        return await self._joined(self._new(session, wanted, start, shared=False), follower)

    async def _joined(self, feed: Feed, follower: EventFollower) -> Feed:
        feed.add(follower)  # before it begins, so that no record comes in between
        try:
            await feed.began()
        except BaseException:
            feed.remove(follower)
            raise
        return feed

    def _new(self, session: BrokerSession, wanted: FollowWanted, start: Positions | str, *, shared: bool) -> Feed:
        def ended(feed: Feed) -> None:
            self._feeds.discard(feed)
            if self._shared.get((session, wanted)) is feed:
                del self._shared[session, wanted]

        feed = Feed(session, wanted, self._schemas, start, shared=shared, on_end=ended)
        self._feeds.add(feed)
        return feed

    async def close(self) -> None:
        """End all feeds, and with them all followers."""
        self._closing = True
        feeds = list(self._feeds)
        for feed in feeds:
            feed.stop()
        await asyncio.gather(*(feed.ended() for feed in feeds), return_exceptions=True)
