"""Events of a group coordinator shard: requests of clients, changed topics, and timers that fired.

A ticket identifies the request that waits for an answer. The shard returns it with the answer and knows nothing else
about it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from moldau.cluster.image import TopicImage
from moldau.coordinator.outcome import TxnProducer
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.wire.messages.heartbeat import HeartbeatRequest
from moldau.wire.messages.join_group import JoinGroupRequest
from moldau.wire.messages.leave_group import LeaveGroupRequest
from moldau.wire.messages.sync_group import SyncGroupRequest
from moldau.wire.topic_partition import TopicPartition

NO_OFFSET = -1
NO_EPOCH = -1

R = TypeVar("R")

# -- membership --------------------------------------------------------------------------------------------------------


MaySee = Callable[[str], bool]
"""A test of topic names. Two of them are equal if they always give the same answers."""


class MembershipRequest(NamedTuple, Generic[R]):
    """A request about membership in one group, as the client sent it. Answered with the response message."""

    ticket: Any
    request: R
    version: int
    client_id: str
    client_host: str
    may_see: MaySee | None = None
    """Whether the client may know of a topic; None if it may know of all."""


class JoinGroup(MembershipRequest[JoinGroupRequest]):
    __slots__ = ()


class SyncGroup(MembershipRequest[SyncGroupRequest]):
    __slots__ = ()


class Heartbeat(MembershipRequest[HeartbeatRequest]):
    __slots__ = ()


class LeaveGroup(MembershipRequest[LeaveGroupRequest]):
    __slots__ = ()


class ConsumerGroupHeartbeat(MembershipRequest[ConsumerGroupHeartbeatRequest]):
    __slots__ = ()


# -- offsets -----------------------------------------------------------------------------------------------------------


class Commit(NamedTuple):
    """The offset to store for one partition."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""


class CommitOffsets(NamedTuple):
    """OffsetCommit or TxnOffsetCommit. Answered with one ErrorCode per commit, in their order."""

    ticket: Any
    group_id: str
    member_id: str
    generation: int
    """The member epoch in a consumer group; negative if the client is not a member."""
    instance_id: str | None
    commits: Sequence[Commit]
    retention_ms: int = -1
    producer: TxnProducer | None = None
    """Set for TxnOffsetCommit: the offsets become visible when the transaction of this producer is committed."""
    knows_epochs: bool = True
    """Whether members of the consumer protocol may use this version of the request."""


class Fetched(NamedTuple):
    """The committed offset of one partition; the defaults mean that there is none."""

    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


class FetchOffsets(NamedTuple):
    """OffsetFetch for one group. Answered with (ErrorCode, [(topic, [Fetched…])…])."""

    ticket: Any
    group_id: str
    topics: Sequence[tuple[str, Sequence[int]]] | None
    """None for all partitions with a committed offset."""
    require_stable: bool = False
    member_id: str | None = None
    member_epoch: int = NO_EPOCH


class DeleteOffsets(NamedTuple):
    """OffsetDelete. Answered with (ErrorCode, [one ErrorCode per partition…])."""

    ticket: Any
    group_id: str
    partitions: Sequence[TopicPartition]


# -- administration ----------------------------------------------------------------------------------------------------


class DescribeGroup(NamedTuple):
    """DescribeGroups for one group. Answered with a DescribeGroupsResponseGroup."""

    ticket: Any
    group_id: str


class DescribeConsumerGroup(NamedTuple):
    """ConsumerGroupDescribe for one group. Answered with a ConsumerGroupDescribeResponseGroup."""

    ticket: Any
    group_id: str


class ListGroups(NamedTuple):
    """ListGroups for one shard. Answered with [ListGroupsResponseGroup…]. An empty filter matches every group."""

    ticket: Any
    states: Sequence[str] = ()
    types: Sequence[str] = ()


class DeleteGroup(NamedTuple):
    """DeleteGroups for one group. Answered with an ErrorCode."""

    ticket: Any
    group_id: str


class TopicsChanged(NamedTuple):
    """The topics of the cluster after a change, and the names of those that it deleted. Has no answer."""

    topics: Mapping[str, TopicImage]
    deleted: Sequence[str] = ()


GroupRequestEvent = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | ConsumerGroupHeartbeat
    | CommitOffsets
    | FetchOffsets
    | DeleteOffsets
    | DescribeGroup
    | DescribeConsumerGroup
    | ListGroups
    | DeleteGroup
    | TopicsChanged
)
"""Every event but a timer that fired (`moldau.groups.timers`)."""
