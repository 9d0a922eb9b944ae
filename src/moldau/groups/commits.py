"""Offset rules: committing, fetching, deleting and expiring the offsets of a group.

A commit is accepted from a member of the current generation, or from any client if the group has no members. So a
consumer that was removed from the group cannot overwrite the offsets of the members that replaced it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from moldau.coordinator.outcome import CoordinatorOutcome, StoredRecord
from moldau.groups.classic_group import ClassicGroupState
from moldau.groups.config import GroupConfig
from moldau.groups.events import CommitOffsets, DeleteOffsets, Fetched, FetchOffsets
from moldau.groups.group import Group
from moldau.groups.stored_records import (
    CommittedOffset,
    offset_key,
    offset_tail,
    offset_value,
    parse_offset,
    parse_tail,
)
from moldau.wire.errors import ErrorCode

NO_MEMBER: Final = ""
LAST_MS: Final = (1 << 63) - 1
"""The latest time that can be stored. A client may request a retention that exceeds it."""

# -- committing --------------------------------------------------------------------------------------------------------


def commit_error(group: Group | None, event: CommitOffsets) -> ErrorCode:
    """The error that refuses this commit; NONE if it may be stored."""
    if group is None:
        if event.generation < 0:
            return ErrorCode.NONE
        return ErrorCode.GROUP_ID_NOT_FOUND if event.knows_epochs else ErrorCode.ILLEGAL_GENERATION
    if group.consumer is not None:
        return _consumer_commit_error(group, event)
    return _classic_commit_error(group, event)


def _classic_commit_error(group: Group, event: CommitOffsets) -> ErrorCode:
    classic = group.classic
    no_generation = event.generation < 0
    if classic is None or (no_generation and classic.state is ClassicGroupState.EMPTY and not classic.members):
        return ErrorCode.NONE if no_generation else ErrorCode.ILLEGAL_GENERATION
    transactional = event.producer is not None
    if not no_generation or event.member_id != NO_MEMBER or event.instance_id is not None:
        code = classic.member_error(event.member_id, event.instance_id)
        if code != ErrorCode.NONE:
            return code
        if event.generation != classic.generation:
            return ErrorCode.ILLEGAL_GENERATION
    elif not transactional:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if classic.state is ClassicGroupState.COMPLETING_REBALANCE and not transactional:
        # The leader has not assigned yet: the records that the member has read belong to the previous generation.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _consumer_commit_error(group: Group, event: CommitOffsets) -> ErrorCode:
    assert group.consumer is not None
    if event.generation < 0 and (not group.consumer.members or (event.producer and event.member_id == NO_MEMBER)):
        return ErrorCode.NONE
    member = group.consumer.members.get(event.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member.classic is None and not event.knows_epochs and event.producer is None:
        return ErrorCode.UNSUPPORTED_VERSION
    if event.generation == group.consumer.current(member.id).epoch:
        return ErrorCode.NONE
    return ErrorCode.ILLEGAL_GENERATION if member.classic is not None else ErrorCode.STALE_MEMBER_EPOCH


def commit(now_ms: int, group: Group | None, event: CommitOffsets, max_metadata: int) -> CoordinatorOutcome:
    code = commit_error(group, event)
    if code != ErrorCode.NONE:
        return CoordinatorOutcome(replies=[(event.ticket, [code] * len(event.commits))])
    if group is not None and group.classic is not None and event.member_id in group.classic.members:
        member = group.classic.members[event.member_id]
        member.deadline_ms = now_ms + member.session_timeout_ms
    expire_ms = min(now_ms + event.retention_ms, LAST_MS) if event.retention_ms >= 0 else -1
    id_bytes = event.group_id.encode()
    records: list[StoredRecord] = []
    codes = []
    for topic, partition, offset, leader_epoch, metadata in event.commits:
        if len(metadata) > max_metadata:
            codes.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            continue
        value = offset_value(offset, leader_epoch, metadata, now_ms, expire_ms)
        records.append((offset_key(id_bytes, offset_tail(topic, partition)), value))
        codes.append(ErrorCode.NONE)
    return CoordinatorOutcome(event.producer, records=records, replies=[(event.ticket, codes)])


# -- fetching ----------------------------------------------------------------------------------------------------------

FetchAnswer = tuple[ErrorCode, list[tuple[str, list[Fetched]]]]


def fetch(group: Group | None, event: FetchOffsets) -> FetchAnswer:
    if group is None:
        return ErrorCode.NONE, [(topic, [Fetched(one) for one in indexes]) for topic, indexes in event.topics or ()]
    if group.consumer is not None and not (event.member_id in (None, NO_MEMBER) and event.member_epoch < 0):
        if event.member_id not in group.consumer.members:
            return ErrorCode.UNKNOWN_MEMBER_ID, []
        if event.member_epoch != group.consumer.current(event.member_id or "").epoch:
            return ErrorCode.STALE_MEMBER_EPOCH, []
    wanted: dict[str, list[int]] = {}
    if event.topics is None:
        for tail in group.offsets.committed:
            topic, partition = parse_tail(tail)
            wanted.setdefault(topic, []).append(partition)
    else:
        for topic, indexes in event.topics:
            wanted.setdefault(topic, []).extend(indexes)
    return ErrorCode.NONE, [
        (topic, [_fetched(group, topic, index, event.require_stable) for index in indexes])
        for topic, indexes in wanted.items()
    ]


def _fetched(group: Group, topic: str, partition: int, require_stable: bool) -> Fetched:
    tail = offset_tail(topic, partition)
    if require_stable and group.offsets.pending and group.offsets.is_pending(tail):
        return Fetched(partition, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    found = group.offsets.get(tail)
    if found is None:
        return Fetched(partition)
    return Fetched(partition, found.offset, found.leader_epoch, found.metadata)


# -- deleting ----------------------------------------------------------------------------------------------------------


def delete(group: Group | None, event: DeleteOffsets) -> CoordinatorOutcome:
    if group is None:
        return CoordinatorOutcome(replies=[(event.ticket, (ErrorCode.GROUP_ID_NOT_FOUND, []))])
    if not _may_delete(group):
        return CoordinatorOutcome(replies=[(event.ticket, (ErrorCode.NON_EMPTY_GROUP, []))])
    subscribed = subscribed_topics(group)
    records: list[StoredRecord] = []
    codes = []
    for topic, partition in event.partitions:
        tail = offset_tail(topic, partition)
        if subscribed is not None and topic in subscribed:
            codes.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
            continue
        codes.append(ErrorCode.NONE)
        if tail in group.offsets.committed:
            records.append((offset_key(group.id_bytes, tail), None))
    return CoordinatorOutcome(records=records, replies=[(event.ticket, (ErrorCode.NONE, codes))])


def _may_delete(group: Group) -> bool:
    """Whether offsets may be deleted: if the group has members, their topics must be known."""
    return group.empty or subscribed_topics(group) is not None


def subscribed_topics(group: Group) -> frozenset[str] | None:
    """The topics that the members read; None if there are no members or their topics are unknown."""
    if group.consumer is not None:
        return group.consumer.subscribed_topics() if group.consumer.members else None
    if group.classic is None or not group.classic.members:
        return None
    return group.classic.subscribed_topics()


# -- expiring ----------------------------------------------------------------------------------------------------------


def expired(now_ms: int, group: Group, config: GroupConfig) -> Iterator[bytes]:
    """The key tails of the offsets that have expired by `offsets.retention.minutes`.

    A group with members keeps the offsets of the topics that they read. A group without members keeps all offsets until
    the retention has passed since the last member left. Offsets of clients that never joined, such as consumers with
    assigned partitions, expire when the retention has passed since their commit.
    """
    retention_ms = config.offsets_retention_ms
    subscribed: frozenset[str] | None = None
    empty_since_ms = -1
    if not group.empty:
        if group.classic is not None and group.classic.state is not ClassicGroupState.STABLE:
            return
        subscribed = subscribed_topics(group)
        if subscribed is None:
            return
    elif group.classic is not None and group.classic.protocol_type is not None:
        empty_since_ms = group.classic.state_since_ms
    for tail, value in group.offsets.committed.items():
        committed = parse_offset(value)
        if subscribed is not None and parse_tail(tail)[0] in subscribed:
            continue
        if _is_expired(now_ms, committed, empty_since_ms, retention_ms) and not group.offsets.is_pending(tail):
            yield tail


def _is_expired(now_ms: int, committed: CommittedOffset, empty_since_ms: int, retention_ms: int) -> bool:
    if committed.expire_ms >= 0:
        return now_ms >= committed.expire_ms
    return now_ms - max(committed.commit_ms, empty_since_ms) >= retention_ms
