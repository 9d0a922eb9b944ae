"""Group coordinator of a broker: its internal topic, its shards, and the requests that handlers send to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from moldau.broker.requests.handler_registry import DeferredAnswer, Encodable, Reply
from moldau.cluster.image import CONSUMER_OFFSETS, ClusterImage, topics_delta
from moldau.cluster.image_publisher import Listener as ImageListener
from moldau.cluster.nodes import id_text
from moldau.coordinator.runtime import CoordinatorHost, CoordinatorRuntime, InternalTopic, Ticket
from moldau.groups.config import MemberTimes, group_config, own_times, same_times
from moldau.groups.events import MembershipRequest, TopicsChanged
from moldau.groups.shard import GroupShard
from moldau.host.clock import Randomness
from moldau.security import Authorizer, Operation, Principal, ResourceType
from moldau.settings import BrokerSettings
from moldau.wire.errors import ErrorCode
from moldau.wire.message import Response

if TYPE_CHECKING:
    from moldau.broker.connection.session import Request

M = TypeVar("M")


class GroupCoordinator:
    """The shards of `__consumer_offsets`. They get an event when topics change."""

    def __init__(
        self,
        host: CoordinatorHost,
        settings: Callable[[], BrokerSettings],
        listen: Callable[[ImageListener], object],
        randomness: Randomness,
    ) -> None:
        at_start = settings()
        topic = InternalTopic(
            CONSUMER_OFFSETS,
            at_start["offsets.topic.num.partitions"],
            at_start["offsets.topic.replication.factor"],
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(at_start["offsets.topic.segment.bytes"]),
            },
        )
        config = group_config(at_start)
        common = same_times(config)

        def times_of(group_id: str) -> MemberTimes:
            overrides = host.image().group_config(group_id)
            return own_times(settings(), overrides) if overrides else common(group_id)

        def make_shard(_: int) -> GroupShard:
            return GroupShard(config, lambda: id_text(randomness.uuid()), host.image().topics, times_of)

        self.runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(host, topic, make_shard)
        listen(self._image_changed)

    def _image_changed(self, old: ClusterImage, new: ClusterImage) -> None:
        if old.topics is not new.topics:
            deleted = [topic.name for topic in topics_delta(old, new).deleted]
            self.runtime.tell_all(TopicsChanged(new.topics, deleted))
        elif old.security.acls is not new.security.acls:
            self.runtime.tell_all(TopicsChanged(new.topics, []))  # patterns may match more topics, or fewer


@dataclass(frozen=True, slots=True)
class TopicView:
    """The topics that a client may describe, by the rules that are in force at each question."""

    authorizer: Authorizer
    principal: Principal
    host: str

    def __call__(self, topic: str) -> bool:
        return self.authorizer.authorize(self.principal, self.host, Operation.DESCRIBE, ResourceType.TOPIC, topic)


def topic_view(request: Request) -> TopicView | None:
    """What the client may see; None without access control."""
    authorizer, session = request.broker.authorizer, request.session
    return TopicView(authorizer, session.principal, session.client_host) if authorizer.enabled else None


class GroupRequest(DeferredAnswer, Generic[M]):
    """A request of a group member. The shard of the group builds the response."""

    __slots__ = ("_encode", "_event", "_group_id", "_message", "_refused", "_request")

    def __init__(
        self,
        request: Request,
        group_id: str,
        event: type[MembershipRequest[M]],
        message: M,
        refused: Callable[[ErrorCode], Encodable],
        encode: Callable[[Any, int], bytes] = Response.encode,
    ) -> None:
        self._request = request
        self._group_id = group_id
        self._event = event
        self._message = message
        self._refused = refused
        self._encode = encode

    def start(self, reply: Reply) -> None:
        request, version = self._request, self._request.version
        host = f"/{request.session.client_host}"
        ticket = Ticket(
            lambda response: reply([self._encode(response, version)]),
            lambda code: reply([self._encode(self._refused(code), version)]),
        )
        may_see = topic_view(request)
        request.broker.groups.runtime.send(
            self._group_id,
            lambda ticket: self._event(ticket, self._message, version, request.client_id, host, may_see),
            ticket,
        )


class GroupQuery(NamedTuple):
    """The part of a request that is about one group: the event for its shard, and the answer in case of an error."""

    group_id: str
    event: Callable[[Ticket], Any]
    refused: Callable[[ErrorCode], Any]


class MultiGroupRequest(DeferredAnswer):
    """A request about several groups, each answered by its own shard.

    `build` makes the response from the answers, which are in the order of the queries.
    """

    __slots__ = ("_answers", "_build", "_left", "_queries", "_request")

    def __init__(
        self, request: Request, queries: Sequence[GroupQuery], build: Callable[[list[Any]], Encodable]
    ) -> None:
        self._request = request
        self._queries = queries
        self._build = build
        self._answers: list[Any] = [None] * len(queries)
        self._left = len(queries)

    def start(self, reply: Reply) -> None:
        if not self._queries:
            self._finish(reply)
        runtime = self._request.broker.groups.runtime
        for place, query in enumerate(self._queries):
            runtime.send(query.group_id, query.event, self._ticket(reply, place, query))

    def _ticket(self, reply: Reply, place: int, query: GroupQuery) -> Ticket:
        return Ticket(
            lambda answer: self._done(reply, place, answer), lambda code: self._done(reply, place, query.refused(code))
        )

    def _done(self, reply: Reply, place: int, answer: Any) -> None:
        self._answers[place] = answer
        self._left -= 1
        if not self._left:
            self._finish(reply)

    def _finish(self, reply: Reply) -> None:
        reply([self._build(self._answers).encode(self._request.version)])
