"""Routing and retries of admin calls: sends the items of a call to the right brokers, one request per broker.

A module per subject defines how to build the request and read the response, in pure functions. It passes them to
`Calls._each` with a route (the controller, any broker, a coordinator, the partition leaders). Each item has its own
result. An item that fails for good does not delay the others. An item with a retriable error is sent again until the
timeout of the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from moldau.client import arguments
from moldau.client.admin.outcome import (
    Answers,
    K,
    V,
    leaves_doubt,
    unanswered,
    worth_retrying,
)
from moldau.client.data_types import NO_LEADER, Node, TopicPartition
from moldau.client.errors import COORDINATOR_MOVED, BrokerError, ClosedError, ErrorCode, MoldauError, error_for
from moldau.client.network import ANY_NODE, Anyone, CoordinatorKind, Network
from moldau.client.settings import ClientSettings
from moldau.host.clock import Clock, SystemClock
from moldau.wire.message import Request, Response
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

T = TypeVar("T")
Target = int | Anyone

MAX_THINGS_IN_A_REQUEST = 2_000
"""Requests stay small enough to be answered within request.timeout.ms, for any number of items per call."""

MAX_REQUESTS_AT_ONCE = 32
"""The maximum number of concurrent requests of one call, over all brokers."""


NO_CREATION_FROM = 4
"""The first version of Metadata that can be requested without creating the topics."""


class BrokerRoute(Protocol[K]):
    """The broker for each item."""

    async def targets(self, things: Sequence[K], deadline: float) -> Answers[K, Target]: ...

    def failed(self, thing: K, error: MoldauError) -> None:
        """Called with each error that will be retried, so that the next attempt may use another broker."""


class Fixed(Generic[K]):
    """The same target for all items: a broker, the controller, or any broker."""

    def __init__(self, target: Target) -> None:
        self._target = target

    async def targets(self, things: Sequence[K], deadline: float) -> Answers[K, Target]:
        return dict.fromkeys(things, self._target)

    def failed(self, thing: K, error: MoldauError) -> None:
        pass


class Brokers(Generic[K]):
    """Items that belong to a certain broker."""

    def __init__(self, broker: Callable[[K], int]) -> None:
        self._broker = broker

    async def targets(self, things: Sequence[K], deadline: float) -> Answers[K, Target]:
        return {thing: self._broker(thing) for thing in things}

    def failed(self, thing: K, error: MoldauError) -> None:
        pass


class Coordinators(Generic[K]):
    """Items of a group or a transactional id: the target is its coordinator."""

    def __init__(self, network: Network, kind: CoordinatorKind, key: Callable[[K], str] = str) -> None:
        self._network = network
        self._kind = kind
        self._key = key

    async def targets(self, things: Sequence[K], deadline: float) -> Answers[K, Target]:
        async def find(key: str) -> Target | MoldauError:
            try:
                return await self._network.coordinator(self._kind, key, deadline)
            except MoldauError as error:
                return error

        keys = list(dict.fromkeys(map(self._key, things)))
        nodes = dict(zip(keys, await bounded([partial(find, key) for key in keys]), strict=True))
        return {thing: nodes[self._key(thing)] for thing in things}

    def failed(self, thing: K, error: MoldauError) -> None:
        if leaves_doubt(error) or (isinstance(error, BrokerError) and error.code in COORDINATOR_MOVED):
            self._network.coordinator_gone(self._kind, self._key(thing))


class Leaders:
    """Partitions: the target is the leader, which is looked up again for each attempt."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def targets(self, things: Sequence[TopicPartition], deadline: float) -> Answers[TopicPartition, Target]:
        topics = list(dict.fromkeys(partition.topic for partition in things))
        response = await self._calls._metadata(topics, deadline)
        return read_leaders(response, things)

    def failed(self, thing: TopicPartition, error: MoldauError) -> None:
        pass


def read_leaders(response: MetadataResponse, things: Sequence[TopicPartition]) -> Answers[TopicPartition, Target]:
    topics = {topic.name: topic for topic in response.topics}
    leaders = {
        TopicPartition(topic.name, one.partition_index): one
        for topic in response.topics
        if topic.name is not None
        for one in topic.partitions
    }
    answers: Answers[TopicPartition, Target] = {}
    for partition in things:
        what = f"finding the leader of {partition}"
        topic, found = topics.get(partition.topic), leaders.get(partition)
        if topic is not None and topic.error_code:
            answers[partition] = error_for(topic.error_code, what)
        elif found is None:
            answers[partition] = error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, what)
        elif found.leader_id == NO_LEADER:
            answers[partition] = error_for(found.error_code or ErrorCode.LEADER_NOT_AVAILABLE, what)
        else:
            answers[partition] = found.leader_id
    return answers


async def bounded(calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Return all results in order, with at most MAX_REQUESTS_AT_ONCE calls at a time. A failure cancels the rest."""
    if len(calls) == 1:
        return [await calls[0]()]
    places = asyncio.Semaphore(MAX_REQUESTS_AT_ONCE)

    async def one(call: Callable[[], Awaitable[T]]) -> T:
        async with places:
            return await call()

    tasks = [asyncio.ensure_future(one(call)) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


class Calls:
    """Common base of all admin calls: the network, timeouts, and retries."""

    _clock: Clock = SystemClock()

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._network = Network(settings)
        self._start: asyncio.Task[None] | None = None
        self._closed = False

    def _deadline(self, timeout: float | None) -> float:
        timeout = arguments.seconds("timeout", timeout)
        if timeout is None:
            timeout = self._settings.seconds("default.api.timeout.ms")
        return asyncio.get_running_loop().time() + timeout

    def _left(self, deadline: float) -> float:
        """The time left until the deadline, as the timeout of a nested call."""
        return max(0.0, deadline - asyncio.get_running_loop().time())

    def _broker_timeout_ms(self, deadline: float) -> int:
        """The timeout of a broker for one request: request.timeout.ms, or the time left until the deadline."""
        left_ms = int(self._left(deadline) * 1000)
        request_timeout_ms: int = self._settings["request.timeout.ms"]
        return max(1, min(left_ms, request_timeout_ms))

    async def _ready(self) -> Network:
        """Return the network. The first call starts it, and concurrent calls wait for the same start."""
        if self._closed:
            raise ClosedError("the admin client is closed; create a new one")
        if self._start is None:
            self._start = asyncio.ensure_future(self._network.start())
        await asyncio.shield(self._start)
        return self._network

    async def _close(self) -> None:
        self._closed = True
        await self._network.close()

    async def _metadata(self, topics: Sequence[str] | None, deadline: float) -> MetadataResponse:
        """Request metadata of these topics, or of all (None), without creating topics."""
        request = MetadataRequest(
            topics=None if topics is None else [MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=False,
        )
        network = await self._ready()
        response: MetadataResponse = await network.call(
            ANY_NODE, request, deadline=deadline, min_version=NO_CREATION_FROM, what="looking up topics"
        )
        # The next request may go to one of these brokers.
        network.new_leaders({}, (Node(one.node_id, one.host, one.port, one.rack) for one in response.brokers))
        return response

    async def _nodes(self, deadline: float) -> list[int]:
        """The ids of all online brokers."""
        network = await self._ready()
        response = await network.retrying(
            lambda: self._metadata((), deadline), deadline=deadline, what="looking up the brokers"
        )
        return sorted(broker.node_id for broker in response.brokers)

    async def _once(
        self,
        target: Target,
        request: Request,
        read: Callable[[Any], T],
        *,
        deadline: float,
        what: str,
        min_version: int = 0,
    ) -> T:
        """Send a request with one result, and retry it. `read` returns the result or raises the error."""
        network = await self._ready()

        async def attempt() -> T:
            return read(await network.call(target, request, deadline=deadline, min_version=min_version, what=what))

        return await network.retrying(attempt, deadline=deadline, what=what)

    async def _each(
        self,
        things: Iterable[K],
        route: BrokerRoute[K],
        make: Callable[[list[K]], Request],
        read: Callable[[Any, list[K]], Answers[K, V]],
        *,
        deadline: float,
        what: str,
        min_version: int = 0,
        max_version: int | None = None,
    ) -> Answers[K, V]:
        """Send each item to the broker that `route` names, until each has a final result.

        `make` builds the request for some of the items, `read` reads the response. `what` describes the operation on
        an item for error messages: "creating topic".
        """
        network = await self._ready()
        asking = _Asking(
            network, list(dict.fromkeys(things)), route, make, read, deadline, what, min_version, max_version
        )
        return await asking.answers()


class _Asking(Generic[K, V]):
    """One call about many items: the pending items, and the results of the others."""

    def __init__(
        self,
        network: Network,
        things: list[K],
        route: BrokerRoute[K],
        make: Callable[[list[K]], Request],
        read: Callable[[Any, list[K]], Answers[K, V]],
        deadline: float,
        what: str,
        min_version: int,
        max_version: int | None,
    ) -> None:
        self._network = network
        self._things = things
        self._route = route
        self._make = make
        self._read = read
        self._deadline = deadline
        self._what = what
        self._versions = (min_version, max_version)
        self._answered: Answers[K, V] = {}
        self._pending: dict[K, MoldauError | None] = dict.fromkeys(things)
        """The items without a final result, each with its last retriable error."""

    async def answers(self) -> Answers[K, V]:
        if self._pending:
            try:
                await self._network.retrying(self._attempt, deadline=self._deadline, what=self._what)
            except MoldauError as error:
                # No item has a result: raise one error instead of the same error for each item.
                if not error.retriable or not self._answered:
                    raise
                self._answered |= dict.fromkeys(self._pending, error)
        return {thing: self._answered[thing] for thing in self._things}

    async def _attempt(self) -> None:
        """Send the pending items once. Raises if items are still pending: the caller pauses and calls it again."""
        targets = await self._route.targets(list(self._pending), self._deadline)
        of_target: dict[Target, list[K]] = {}
        for thing, target in targets.items():
            if isinstance(target, MoldauError):
                self._note(thing, target)
            else:
                of_target.setdefault(target, []).append(thing)
        await bounded(
            [
                partial(self._exchange, target, some[start : start + MAX_THINGS_IN_A_REQUEST])
                for target, some in of_target.items()
                for start in range(0, len(some), MAX_THINGS_IN_A_REQUEST)
            ]
        )
        for error in self._pending.values():
            if error is not None:
                raise error

    async def _exchange(self, target: Target, batch: list[K]) -> None:
        what = f"{self._what} {batch[0]}" if len(batch) == 1 else f"{self._what} ({len(batch)} of them)"
        minimum, maximum = self._versions
        try:
            response: Response = await self._network.call(
                target, self._make(batch), deadline=self._deadline, min_version=minimum, max_version=maximum, what=what
            )
            found = self._read(response, batch)
        except MoldauError as error:
            found = dict.fromkeys(batch, error)
        for thing in batch:
            self._note(thing, found[thing] if thing in found else unanswered(f"{self._what} {thing}"))

    def _note(self, thing: K, answer: V | MoldauError) -> None:
        if isinstance(answer, MoldauError):
            if worth_retrying(answer):
                self._pending[thing] = answer
                self._route.failed(thing, answer)
                return
            before = self._pending[thing]
            if before is not None and leaves_doubt(before):
                answer.add_note(f"An earlier attempt got no response and may have succeeded: {before}")
        self._answered[thing] = answer
        del self._pending[thing]
