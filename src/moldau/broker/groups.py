"""The group coordinator as the broker runs it: its topic, its shards, and how handlers ask them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from moldau.broker.coordination import Coordination, InternalTopic, Ticket
from moldau.broker.registry import Later, Message, Reply
from moldau.cluster.image import CONSUMER_OFFSETS, ClusterImage, topics_delta
from moldau.cluster.nodes import id_text
from moldau.groups.config import group_config
from moldau.groups.events import Call, TopicsChanged
from moldau.groups.shard import GroupShard
from moldau.host.clock import Randomness
from moldau.wire.errors import ErrorCode

if TYPE_CHECKING:
    from moldau.broker.broker import Broker
    from moldau.broker.session import Request


class Groups(Coordination[GroupShard]):
    """The shards of `__consumer_offsets`, which are told when topics change."""

    def __init__(self, broker: Broker, randomness: Randomness) -> None:
        settings = broker.settings
        topic = InternalTopic(
            CONSUMER_OFFSETS,
            settings["offsets.topic.num.partitions"],
            settings["offsets.topic.replication.factor"],
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(settings["offsets.topic.segment.bytes"]),
            },
        )
        config = group_config(settings)

        def make_shard(_: int) -> GroupShard:
            return GroupShard(config, lambda: id_text(randomness.uuid()), broker.image.topics)

        super().__init__(broker, topic, make_shard)
        broker.metadata.listen(self._image_changed)

    def _image_changed(self, old: ClusterImage, new: ClusterImage) -> None:
        if old.topics is not new.topics:
            deleted = [topic.name for topic in topics_delta(old, new).deleted]
            self.tell_all(TopicsChanged(new.topics, deleted))


class Membership(Later):
    """A request about membership, which the group's shard answers with the response."""

    __slots__ = ("_group_id", "_message", "_refused", "_request")

    def __init__(self, request: Request, group_id: str, message: Any, refused: Callable[[ErrorCode], Message]) -> None:
        self._request = request
        self._group_id = group_id
        self._message = message
        self._refused = refused

    def start(self, reply: Reply) -> None:
        request, version = self._request, self._request.version
        host = f"/{request.session.client_host}"
        ticket = Ticket(
            lambda response: reply([response.encode(version)]),
            lambda code: reply([self._refused(code).encode(version)]),
        )
        request.broker.groups.send(
            self._group_id, lambda ticket: Call(ticket, self._message, version, request.client_id, host), ticket
        )


class Part(NamedTuple):
    """One of several questions that one request asks: of which group, and what stands for an answer on an error."""

    group_id: str
    event: Callable[[Ticket], Any]
    refused: Callable[[ErrorCode], Any]


class Gathering(Later):
    """A request about several groups: each part is asked of its own shard.

    `build` makes the response of the answers, in the order of the parts.
    """

    __slots__ = ("_answers", "_build", "_left", "_parts", "_request")

    def __init__(self, request: Request, parts: Sequence[Part], build: Callable[[list[Any]], Message]) -> None:
        self._request = request
        self._parts = parts
        self._build = build
        self._answers: list[Any] = [None] * len(parts)
        self._left = len(parts)

    def start(self, reply: Reply) -> None:
        if not self._parts:
            self._finish(reply)
        groups = self._request.broker.groups
        for place, part in enumerate(self._parts):
            groups.send(part.group_id, part.event, self._ticket(reply, place, part))

    def _ticket(self, reply: Reply, place: int, part: Part) -> Ticket:
        return Ticket(
            lambda answer: self._done(reply, place, answer), lambda code: self._done(reply, place, part.refused(code))
        )

    def _done(self, reply: Reply, place: int, answer: Any) -> None:
        self._answers[place] = answer
        self._left -= 1
        if not self._left:
            self._finish(reply)

    def _finish(self, reply: Reply) -> None:
        reply([self._build(self._answers).encode(self._request.version)])
