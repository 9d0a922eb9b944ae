"""What a client does with the cluster: its metadata, its connections, one request to one broker, and trying again.

There is one Network a client; the loop that started it owns it. All points in time ("deadline") are the loop's own, in
seconds. Nothing here retries but `retrying`, `topic`, `coordinator` and the background refresh of the metadata: what
may be sent twice is for the caller to know.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import Enum, IntEnum
from functools import partial
from typing import Any, Final, TypeVar

from moldau.client.anyone import AnyBroker
from moldau.client.backoff import Backoff
from moldau.client.broker_errors import (
    COORDINATOR_MOVED,
    STALE_METADATA,
    BrokerError,
    error_for,
)
from moldau.client.connection import Connection
from moldau.client.metadata import ClusterMetadata, TopicMetadata, with_leaders
from moldau.client.model import Node, TopicPartition
from moldau.client.own_errors import BrokerUnavailable, ClosedError, MoldauError, NotKafka, TimedOut
from moldau.client.pool import ConnectionPool, coordinator_node, real_node
from moldau.client.refresh import MIN_VERSION as METADATA_MIN_VERSION
from moldau.client.refresh import Refresher
from moldau.client.settings import ClientSettings
from moldau.host.clock import Randomness, SystemRandomness
from moldau.wire.api import APIS, ApiKey
from moldau.wire.errors import ErrorCode, WireError
from moldau.wire.message import Request
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest
from moldau.wire.messages.metadata import MetadataRequest

T = TypeVar("T")

logger = logging.getLogger(__name__)


class Anyone(Enum):
    """Nodes that are named by what they are, not by their id."""

    ANY = "any broker"
    CONTROLLER = "the controller"


ANY_NODE: Final = Anyone.ANY
CONTROLLER: Final = Anyone.CONTROLLER


class CoordinatorKind(IntEnum):
    """What a coordinator coordinates."""

    GROUP = 0
    TRANSACTION = 1


_numbers = itertools.count(1)


def _client_id(settings: ClientSettings) -> str:
    """The name of a client that was given none, as Kafka's Java clients name themselves."""
    given: str = settings["client.id"]
    if given:
        return given
    kind = "adminclient" if settings.kind == "admin" else settings.kind
    group = settings["group.id"] if kind == "consumer" else None
    return f"{kind}-{group}-{next(_numbers)}" if group else f"{kind}-{next(_numbers)}"


class Network:
    """One client's view of the cluster, and its ways into it."""

    def __init__(self, settings: ClientSettings, randomness: Randomness | None = None) -> None:
        self._settings = settings
        self._randomness = randomness or SystemRandomness()
        self.client_id = _client_id(settings)
        self.request_timeout_s = settings.seconds("request.timeout.ms")
        self._backoff = Backoff(settings.seconds("retry.backoff.ms"), settings.seconds("retry.backoff.max.ms"))
        self._rebootstraps = settings["metadata.recovery.strategy"] == "rebootstrap"
        self._rebootstrap_after_s = settings.seconds("metadata.recovery.rebootstrap.trigger.ms")
        self._listeners: list[Callable[[ClusterMetadata], None]] = []
        self._coordinators: dict[tuple[CoordinatorKind, str], int] = {}
        self._lookups: Counter[str] = Counter()
        self._only_looked_up: set[str] = set()
        self._pool = ConnectionPool(settings, self.client_id, self._randomness, self._lost)
        self._anyone = AnyBroker(settings, self._pool)
        self._refresher = Refresher(settings, self._randomness, self._ask_for_metadata, self._described)
        self._described_at = 0.0
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def start(self) -> None:
        """Begin to learn about the cluster, in the background: a broker that is away is no error yet."""
        loop = asyncio.get_running_loop()
        self._described_at = loop.time()
        self._task = loop.create_task(self._refresher.run(), name=f"metadata of {self.client_id}")
        self._task.add_done_callback(self._refresher_ended)

    async def close(self) -> None:
        """End all connections; whoever waits for anything hears ClosedError."""
        self._closed = True
        self._refresher.close()
        if self._task is not None:
            self._task.cancel()
        await self._pool.close()
        if self._task is not None:
            await asyncio.wait([self._task])

    # -- the cluster -----------------------------------------------------------------------------------------------

    @property
    def metadata(self) -> ClusterMetadata:
        """The cluster as it was last described."""
        return self._refresher.image

    def on_metadata(self, listener: Callable[[ClusterMetadata], None]) -> None:
        """Have `listener` called with every new image, in the loop. It must not block or raise."""
        self._listeners.append(listener)

    def follow(self, topics: Iterable[str]) -> None:
        """Keep metadata of these topics. A producer says so again while it uses them (metadata.max.idle.ms)."""
        topics = tuple(topics)
        self._only_looked_up.difference_update(topics)
        self._refresher.follow(topics)

    def unfollow(self, topics: Iterable[str]) -> None:
        """Metadata of these topics is no longer needed."""
        self._refresher.followed.remove(topics)

    def follow_all(self, on: bool) -> None:
        """Keep metadata of every topic, or again only of those that are followed by name."""
        if on and not self._refresher.followed.all:
            self._refresher.soon()
        self._refresher.followed.all = on

    def refresh_soon(self) -> None:
        """The image seems to be old: ask in the background, at most once in retry.backoff.ms."""
        self._refresher.soon()

    async def refreshed(self, deadline: float) -> ClusterMetadata:
        """An image that was asked for after this call."""
        self._check_open()
        return await self._refresher.refreshed(deadline)

    def new_leaders(self, leaders: Mapping[TopicPartition, tuple[int, int]], nodes: Iterable[Node] = ()) -> None:
        """Leaders (id, epoch) that an answer to Produce or Fetch named: taken over where they are newer."""
        image = with_leaders(self.metadata, leaders, nodes)
        self._pool.know(image.nodes.values())
        self._refresher.replace(image)

    async def topic(self, name: str, deadline: float) -> TopicMetadata:
        """Wait until the topic is known. It is followed from then on.

        Raises what will not pass by itself (InvalidTopic, TopicAuthorizationFailed, NotKafka …) at once, and at the
        deadline UnknownTopicOrPartition where brokers answered that they do not know it, TimedOut where none answered.
        """
        self._check_open()
        if name not in self._refresher.followed.topics:
            self._only_looked_up.add(name)
        self._refresher.follow([name])
        self._lookups[name] += 1
        try:
            return await self._until_known(name, deadline)
        finally:
            self._lookups[name] -= 1
            if not self._lookups[name]:
                del self._lookups[name]
                self._looked_up(name)

    def _looked_up(self, name: str) -> None:
        """Nobody looks for the topic any more: unless it was found, it is not followed for their sake alone."""
        found = self.metadata.topics.get(name)
        if name in self._only_looked_up and (found is None or found.error is not ErrorCode.NONE):
            self._refresher.followed.remove([name])
        self._only_looked_up.discard(name)

    async def _until_known(self, name: str, deadline: float) -> TopicMetadata:
        found = self.metadata.topics.get(name)
        code: ErrorCode | None = None
        while found is None or found.error is not ErrorCode.NONE:
            if found is not None:
                code = found.error
                if not code.retriable:
                    raise error_for(code, f"looking up topic {name!r}")
            self._refresher.follow([name])
            try:
                image = await self._refresher.refreshed(deadline)
            except TimedOut:
                if code is None:
                    raise
                raise error_for(code, f"looking up topic {name!r}") from None
            found = image.topics.get(name)
            if found is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return found

    # -- requests --------------------------------------------------------------------------------------------------

    async def call(
        self,
        node: int | Anyone,
        request: Request,
        *,
        deadline: float,
        max_version: int | None = None,
        min_version: int = 0,
        what: str = "",
        timeout_s: float | None = None,
    ) -> Any:
        """One request to one node, once, in the highest version that both sides know; its response.

        Raises TimedOut, BrokerUnavailable, NotKafka or UnsupportedByBroker; error codes inside are the caller's to
        judge. `timeout_s` is for requests that may rightly take longer than request.timeout.ms, such as JoinGroup. A
        caller whose deadline comes sooner hears TimedOut then, and the connection stays; a broker that is silent for
        the whole time-out has its connection closed.
        """
        loop = asyncio.get_running_loop()
        connection = await self._reach(node, deadline)
        key = ApiKey(request.API_KEY)
        version = connection.version(key, max_version, min_version)
        reply: asyncio.Future[Any] = loop.create_future()
        expires = loop.time() + (self.request_timeout_s if timeout_s is None else timeout_s)
        connection.send(key, version, (request.encode(version),), _decoder(connection, key, version, reply), expires)
        try:
            async with asyncio.timeout_at(deadline):
                return await reply
        except TimeoutError as error:
            if isinstance(error, MoldauError):
                raise
            doing = f"{what}: " if what else ""
            raise TimedOut(f"{doing}broker {connection.name} did not answer {APIS[key].name} in time") from None

    async def retrying(self, attempt: Callable[[], Awaitable[T]], *, deadline: float, what: str) -> T:
        """The result of `attempt`, made again with growing pauses while its errors are retriable and there is time.

        Attempts are to look at `metadata` anew each time: it is refreshed after errors that say that it is old.
        """
        failures = 0
        loop = asyncio.get_running_loop()
        while True:
            try:
                return await attempt()
            except MoldauError as error:
                if not error.retriable:
                    raise
                failures += 1
                self._note(error)
                logger.debug("%s: attempt %d failed: %s", what, failures, error)
                pause = self._backoff.pause(failures, self._randomness.random())
                if loop.time() + pause >= deadline:
                    raise TimedOut(f"{what}: not done in time, after {failures} attempts; the last: {error}") from error
            await asyncio.sleep(pause)

    async def connection(self, node: int, deadline: float) -> Connection:
        """A connection to that node, opened if need be. One attempt.

        While a node that has failed before is waited for, the metadata is refreshed again and again: it has probably
        lost its offices to another, and the pauses between attempts to reach it grow longer than an election takes.
        """
        self._check_open()
        if not self._pool.failing(node):
            return await self._pool.connection(node, deadline)
        asking = asyncio.get_running_loop().create_task(self._keep_asking(), name=f"metadata instead of node {node}")
        try:
            return await self._pool.connection(node, deadline)
        finally:
            asking.cancel()

    async def _keep_asking(self) -> None:
        while True:
            self.refresh_soon()
            await asyncio.sleep(self._backoff.initial_s)

    def connected(self, node: int) -> Connection | None:
        """The connection to that node, if there is one that can be used now."""
        return self._pool.connected(node)

    # -- coordinators ----------------------------------------------------------------------------------------------

    async def coordinator(self, kind: CoordinatorKind, key: str, deadline: float) -> int:
        """The node that coordinates a group or transactional id, as `call` takes it.

        For a group that is not the broker's own id: its coordinator has a connection of its own, so that heartbeats do
        not wait behind fetches. `real_node` of pool.py gives the broker's id.
        """
        known = self._coordinators.get((kind, key))
        if known is not None:
            return known
        what = f"looking for the coordinator of {'group' if kind is CoordinatorKind.GROUP else 'transactions'} {key!r}"
        node = await self.retrying(lambda: self._find(kind, key, deadline, what), deadline=deadline, what=what)
        self._pool.learn(node)
        found = coordinator_node(node.id) if kind is CoordinatorKind.GROUP else node.id
        self._coordinators[kind, key] = found
        return found

    def coordinator_gone(self, kind: CoordinatorKind, key: str) -> None:
        """It said that it is not, or did not answer: the next one who needs it looks it up again."""
        self._coordinators.pop((kind, key), None)

    async def _find(self, kind: CoordinatorKind, key: str, deadline: float, what: str) -> Node:
        request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
        response = await self.call(
            ANY_NODE, request, deadline=deadline, min_version=0 if kind is CoordinatorKind.GROUP else 1, what=what
        )
        found = response.coordinators[0] if response.coordinators else response
        if found.error_code:
            raise error_for(found.error_code, what, found.error_message)
        return Node(found.node_id, found.host, found.port)

    # -- behind it -------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the client is closed")

    def _refresher_ended(self, task: asyncio.Task[None]) -> None:
        """Without it the client would stall in silence: a fault in it, or in a listener, ends the client aloud."""
        if task.cancelled() or self._closed:
            return
        logger.critical(
            "client %s: the metadata task failed, the client is unusable", self.client_id, exc_info=task.exception()
        )
        self._closed = True
        self._refresher.close()

    async def _reach(self, node: int | Anyone, deadline: float) -> Connection:
        self._check_open()
        if node is Anyone.ANY:
            return await self._anyone.connection(deadline)
        if node is Anyone.CONTROLLER:
            image = self.metadata
            if image.controller_id not in image.nodes:
                image = await self.refreshed(deadline)
            if image.controller_id not in image.nodes:
                raise BrokerUnavailable("the cluster has no controller at the moment")
            node = image.controller_id
        assert isinstance(node, int)
        return await self._pool.connection(node, deadline)

    async def _ask_for_metadata(self, request: MetadataRequest) -> Any:
        loop = asyncio.get_running_loop()
        if (
            self._rebootstraps
            and not self._pool.bootstrapping
            and self._refresher.last_error is not None
            and loop.time() - self._described_at > self._rebootstrap_after_s
        ):
            self._pool.forget()
        response = await self._anyone.answer(partial(self._metadata_of, request))
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            self._pool.forget()
        return response

    async def _metadata_of(self, request: MetadataRequest, connection: Connection) -> Any:
        deadline = asyncio.get_running_loop().time() + self.request_timeout_s
        return await self.call(
            connection.node_id, request, deadline=deadline, min_version=METADATA_MIN_VERSION, what="asking for metadata"
        )

    def _described(self, image: ClusterMetadata) -> None:
        self._described_at = asyncio.get_running_loop().time()
        self._pool.know(image.nodes.values())
        for listener in self._listeners:
            listener(image)

    def _lost(self, connection: Connection) -> None:
        """A broker that went away takes its offices with it: leaders and coordinators are looked up again."""
        node = real_node(connection.node_id)
        logger.debug("client %s lost a connection: %s", self.client_id, connection.failure)
        self._coordinators = {key: found for key, found in self._coordinators.items() if real_node(found) != node}
        if not self._closed:
            self.refresh_soon()

    def _note(self, error: MoldauError) -> None:
        if isinstance(error, BrokerError):
            if error.code in COORDINATOR_MOVED or error.code in STALE_METADATA:
                self.refresh_soon()
        else:
            self.refresh_soon()


def _decoder(
    connection: Connection, key: ApiKey, version: int, reply: asyncio.Future[Any]
) -> Callable[[memoryview | None, MoldauError | None], None]:
    response = APIS[key].response_type()

    def on_reply(view: memoryview | None, error: MoldauError | None) -> None:
        if reply.done():
            return
        if view is None:
            assert error is not None
            reply.set_exception(error)
            return
        try:
            # Where decoding leaves views they must be into bytes that stay; the frame does not.
            reply.set_result(response.decode(bytes(view) if response.HAS_RECORDS else view, version))
        except WireError as problem:
            reply.set_exception(
                NotKafka(f"broker {connection.name} answered with bytes that cannot be read: {problem}")
            )

    return on_reply
