"""Network layer of a client: metadata, connections, coordinators, single requests, and retries.

There is one Network per client; the loop that started it owns it. Deadlines are times of the loop's clock, in seconds.
Only `retrying`, `topic`, `coordinator` and the background refresh of the metadata retry. All other methods try once,
because only the caller knows whether a request may be sent twice.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import Enum, IntEnum
from functools import partial
from typing import Any, Final, TypeVar

from moldau.client.any_broker import AnyBroker
from moldau.client.backoff import Backoff
from moldau.client.broker_errors import (
    COORDINATOR_MOVED,
    STALE_METADATA,
    BrokerError,
    error_for,
)
from moldau.client.client_errors import BrokerUnavailable, ClosedError, MoldauError, NotKafka, TimedOut
from moldau.client.connection import Connection
from moldau.client.data_types import Node, TopicPartition
from moldau.client.metadata import ClusterMetadata, TopicMetadata, with_leaders
from moldau.client.pool import ConnectionPool, coordinator_node, real_node
from moldau.client.refresh import MIN_VERSION as METADATA_MIN_VERSION
from moldau.client.refresh import Refresher
from moldau.client.settings import ClientSettings
from moldau.host.clock import Randomness, SystemRandomness
from moldau.host.event_log import event_logger
from moldau.wire.api import APIS, ApiKey
from moldau.wire.errors import ErrorCode, WireError
from moldau.wire.message import Request
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest
from moldau.wire.messages.metadata import MetadataRequest

T = TypeVar("T")

log = event_logger(__name__)


class Anyone(Enum):
    """Targets of a request that are not given by a broker id."""

    ANY = "any broker"
    CONTROLLER = "the controller"


ANY_NODE: Final = Anyone.ANY
CONTROLLER: Final = Anyone.CONTROLLER


class CoordinatorKind(IntEnum):
    """The kinds of coordinators."""

    GROUP = 0
    TRANSACTION = 1


_numbers = itertools.count(1)


def _client_id(settings: ClientSettings) -> str:
    """Return client.id, or a generated name in the form of Kafka's Java clients."""
    given: str = settings["client.id"]
    if given:
        return given
    kind = "adminclient" if settings.kind == "admin" else settings.kind
    group = settings["group.id"] if kind == "consumer" else None
    return f"{kind}-{group}-{next(_numbers)}" if group else f"{kind}-{next(_numbers)}"


class Network:
    """One client's metadata of the cluster, and its connections."""

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
        """Start to fetch metadata in the background. An unreachable broker is not an error here."""
        loop = asyncio.get_running_loop()
        self._described_at = loop.time()
        self._task = loop.create_task(self._refresher.run(), name=f"metadata of {self.client_id}")
        self._task.add_done_callback(self._refresher_ended)

    async def close(self) -> None:
        """Close all connections. All waiting calls fail with ClosedError."""
        self._closed = True
        self._refresher.close()
        if self._task is not None:
            self._task.cancel()
        await self._pool.close()
        if self._task is not None:
            await asyncio.wait([self._task])

    # -- metadata --------------------------------------------------------------------------------------------------

    @property
    def metadata(self) -> ClusterMetadata:
        """The latest image of the cluster."""
        return self._refresher.image

    def on_metadata(self, listener: Callable[[ClusterMetadata], None]) -> None:
        """Call `listener` with each new image, in the loop. It must not block or raise."""
        self._listeners.append(listener)

    def follow(self, topics: Iterable[str]) -> None:
        """Keep metadata of these topics. A producer calls this again while it uses them (metadata.max.idle.ms)."""
        topics = tuple(topics)
        self._only_looked_up.difference_update(topics)
        self._refresher.follow(topics)

    def unfollow(self, topics: Iterable[str]) -> None:
        """Stop keeping metadata of these topics."""
        self._refresher.followed.remove(topics)

    def follow_all(self, on: bool) -> None:
        """Keep metadata of all topics, or (False) only of those that are followed by name."""
        if on and not self._refresher.followed.all:
            self._refresher.soon()
        self._refresher.followed.all = on

    def refresh_soon(self) -> None:
        """Refresh the metadata in the background, at most once per retry.backoff.ms."""
        self._refresher.soon()

    async def refreshed(self, deadline: float) -> ClusterMetadata:
        """Return an image that was requested after this call."""
        self._check_open()
        return await self._refresher.refreshed(deadline)

    def new_leaders(self, leaders: Mapping[TopicPartition, tuple[int, int]], nodes: Iterable[Node] = ()) -> None:
        """Add leaders (id, epoch) from a Produce or Fetch response to the image, if their epochs are newer."""
        image = with_leaders(self.metadata, leaders, nodes)
        self._pool.know(image.nodes.values())
        self._refresher.replace(image)

    async def topic(self, name: str, deadline: float) -> TopicMetadata:
        """Wait until the topic is known, and follow it from then on.

        Raises errors that are not retriable (InvalidTopic, TopicAuthorizationFailed, NotKafka …) at once. At the
        deadline it raises UnknownTopicOrPartition if a broker answered that the topic does not exist, and TimedOut if
        no broker answered.
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
        """Stop following a topic after the last lookup, if it was not found and is followed for lookups only."""
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
        """Send one request to one node, once, in the highest version that both sides know. Return its response.

        Raises TimedOut, BrokerUnavailable, NotKafka or UnsupportedByBroker. The caller checks error codes in the
        response. `timeout_s` is for requests that may take longer than request.timeout.ms, such as JoinGroup. If the
        deadline comes first, the call raises TimedOut and the connection stays open. If the broker does not answer
        within the timeout, the connection is closed.
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
            raise TimedOut(
                f"{doing}broker {connection.name} did not answer {APIS[key].name} before the timeout of the call"
            ) from None

    async def retrying(self, attempt: Callable[[], Awaitable[T]], *, deadline: float, what: str) -> T:
        """Return the result of `attempt`, repeated with growing pauses until the deadline if its error is retriable.

        An attempt must read `metadata` again each time, because it is refreshed after errors that show that it is old.
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
                log.debug("attempt failed", extra={"call": what, "attempt": failures, "reason": str(error)})
                pause = self._backoff.pause(failures, self._randomness.random())
                if loop.time() + pause >= deadline:
                    tries = "1 attempt" if failures == 1 else f"{failures} attempts"
                    raise TimedOut(f"{what}: timed out after {tries}; the last error: {error}") from error
            await asyncio.sleep(pause)

    async def connection(self, node: int, deadline: float) -> Connection:
        """Return a connection to the node, opened if necessary. One attempt.

        During the wait for a node that has failed before, the metadata is refreshed repeatedly: other brokers have
        probably taken over its partitions, and the pauses between attempts become longer than an election takes.
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
        """Return the open connection to the node, or None."""
        return self._pool.connected(node)

    # -- coordinators ----------------------------------------------------------------------------------------------

    async def coordinator(self, kind: CoordinatorKind, key: str, deadline: float) -> int:
        """Return the coordinator of a group or transactional id, as a node for `call`.

        For a group this is not the broker id: the coordinator has its own connection, so that heartbeats do not wait
        for fetches. `real_node` of pool.py returns the broker id.
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
        """Forget a coordinator that has moved or does not answer. The next call looks it up again."""
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

    # -- helpers ---------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the client is closed")

    def _refresher_ended(self, task: asyncio.Task[None]) -> None:
        """Close the client with a log message if the metadata task fails. Otherwise the client would hang silently."""
        if task.cancelled() or self._closed:
            return
        log.critical(
            "the metadata task failed, the client is unusable",
            exc_info=task.exception(),
            extra={"client_id": self.client_id},
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
                raise BrokerUnavailable("the cluster has no controller at the moment; try again")
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
        """Look up leaders and coordinators again after a lost connection, because the broker may be down."""
        node = real_node(connection.node_id)
        log.debug("connection lost", extra={"client_id": self.client_id, "reason": str(connection.failure)})
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
            # Messages with records keep views of the data. The frame's buffer is reused, so they need a copy.
            reply.set_result(response.decode(bytes(view) if response.HAS_RECORDS else view, version))
        except WireError as problem:
            reply.set_exception(NotKafka(f"broker {connection.name} sent a response that cannot be decoded: {problem}"))

    return on_reply
