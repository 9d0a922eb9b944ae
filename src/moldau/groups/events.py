"""What can happen to a shard of the group coordinator, besides its own timers.

A ticket stands for whoever waits; the shard gives it back with the answer and knows nothing else about it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from moldau.cluster.image import TopicImage
from moldau.groups.outcome import Producer
from moldau.wire.errors import ErrorCode

NO_OFFSET = -1
NO_EPOCH = -1


class Call(NamedTuple):
    """A request about membership, as it came: Join-, Sync-, LeaveGroup, Heartbeat, ConsumerGroupHeartbeat.

    The answer is the response message.
    """

    ticket: Any
    message: Any
    version: int
    client_id: str
    client_host: str


class Commit(NamedTuple):
    """One partition's offset to be stored."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""


class CommitOffsets(NamedTuple):
    """Answer: an ErrorCode for each commit, in order."""

    ticket: Any
    group_id: str
    member_id: str
    generation: int
    """Or the member's epoch; negative: this is no member."""
    instance_id: str | None
    commits: Sequence[Commit]
    retention_ms: int = -1
    producer: Producer | None = None
    """Set for TxnOffsetCommit: the offsets count when that producer's transaction is committed."""
    knows_epochs: bool = True
    """Whether the request is of a version that a member of the new protocol may use."""


class Fetched(NamedTuple):
    """A committed offset as it is told; no offset, no epoch and an empty text where there is none."""

    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


class FetchOffsets(NamedTuple):
    """Answer: (ErrorCode, [(topic, [Fetched…])…])."""

    ticket: Any
    group_id: str
    topics: Sequence[tuple[str, Sequence[int]]] | None
    """None asks for everything."""
    require_stable: bool = False
    member_id: str | None = None
    member_epoch: int = NO_EPOCH


class DeleteOffsets(NamedTuple):
    """Answer: (ErrorCode, an ErrorCode for each partition)."""

    ticket: Any
    group_id: str
    partitions: Sequence[tuple[str, int]]


class DescribeGroup(NamedTuple):
    """Answer: a DescribeGroupsResponseGroup."""

    ticket: Any
    group_id: str


class DescribeConsumerGroup(NamedTuple):
    """Answer: a ConsumerGroupDescribeResponseGroup."""

    ticket: Any
    group_id: str


class ListGroups(NamedTuple):
    """Answer: [ListGroupsResponseGroup…]. Empty filters let everything through."""

    ticket: Any
    states: Sequence[str] = ()
    types: Sequence[str] = ()


class DeleteGroup(NamedTuple):
    """Answer: an ErrorCode."""

    ticket: Any
    group_id: str


class TopicsChanged(NamedTuple):
    """The cluster's topics are these now."""

    topics: Mapping[str, TopicImage]
    deleted: Sequence[str] = ()
