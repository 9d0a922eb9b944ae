"""OffsetFetch (9): the committed offsets of groups.

Versions 1-10; from version 8 on for several groups, from version 10 on with topic ids.

* A null list of topics means all (from version 2 on).
* A partition without a committed offset has offset -1 and no error.
* With `require_stable`, an offset that an open transaction may replace is UNSTABLE_OFFSET_COMMIT.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from moldau.broker.connection.session import Request
from moldau.broker.coordinators.group_coordinator import GroupQuery, MultiGroupRequest
from moldau.broker.requests.handler_registry import Answer, handles
from moldau.coordinator.runtime import Ticket
from moldau.groups.commits import FetchAnswer
from moldau.groups.events import Fetched, FetchOffsets
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseGroupTopic,
    OffsetFetchResponseGroupTopicPartition,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from moldau.wire.primitives import ZERO_UUID

GROUP_ERRORS_FROM = 2
MANY_GROUPS_FROM = 8
TOPIC_IDS_FROM = 10


class Question(NamedTuple):
    """The request for one group: the topics to ask its shard for, and the topics that this handler has refused."""

    group: OffsetFetchRequestGroup
    topics: list[tuple[str, Sequence[int]]] | None
    refused: list[OffsetFetchResponseGroupTopic]


@handles(ApiKey.OFFSET_FETCH)
def offset_fetch(request: Request, message: OffsetFetchRequest) -> Answer:
    groups = message.groups
    if request.version < MANY_GROUPS_FROM:
        topics = message.topics
        groups = [
            OffsetFetchRequestGroup(
                group_id=message.group_id,
                topics=None
                if topics is None
                else [
                    OffsetFetchRequestGroupTopic(name=one.name, partition_indexes=one.partition_indexes)
                    for one in topics
                ],
            )
        ]
    answered: dict[int, OffsetFetchResponseGroup] = {}
    queries: list[GroupQuery] = []
    questions: list[Question] = []
    for place, group in enumerate(groups):
        if not request.authorized(Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
            answered[place] = OffsetFetchResponseGroup(
                group_id=group.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
            )
            continue
        question = _question(request, group)
        questions.append(question)
        queries.append(_query(question, message.require_stable))

    def build(answers: list[Any]) -> OffsetFetchResponse:
        from_shards = iter([_group(request, *pair) for pair in zip(questions, answers, strict=True)])
        results = [answered.get(place) or next(from_shards) for place in range(len(groups))]
        if request.version >= MANY_GROUPS_FROM:
            return OffsetFetchResponse(groups=results)
        return _single(request.version, message, results[0])

    return MultiGroupRequest(request, queries, build)


def _question(request: Request, group: OffsetFetchRequestGroup) -> Question:
    if group.topics is None:
        return Question(group, None, [])
    topics: list[tuple[str, Sequence[int]]] = []
    refused = []
    for topic in group.topics:
        name, code = topic.name, ErrorCode.NONE
        if request.version >= TOPIC_IDS_FROM:
            known = request.broker.image.topic_by_id(topic.topic_id)
            if known is None:
                code = ErrorCode.UNKNOWN_TOPIC_ID
            else:
                name = known.name
        if code == ErrorCode.NONE and not request.authorized(Operation.DESCRIBE, ResourceType.TOPIC, name):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if code == ErrorCode.NONE:
            topics.append((name, topic.partition_indexes))
        else:
            nothing = [Fetched(index, error=code) for index in topic.partition_indexes]
            refused.append(_topic(topic.name, topic.topic_id, nothing))
    return Question(group, topics, refused)


def _query(question: Question, require_stable: bool) -> GroupQuery:
    group = question.group

    def event(ticket: Ticket) -> FetchOffsets:
        return FetchOffsets(
            ticket, group.group_id, question.topics, require_stable, group.member_id, group.member_epoch
        )

    return GroupQuery(group.group_id, event, lambda code: (code, []))


def _group(request: Request, question: Question, answer: FetchAnswer) -> OffsetFetchResponseGroup:
    code, found = answer
    topics = []
    for name, partitions in found:
        known = request.broker.image.topics.get(name)
        if question.topics is None and (
            (known is None and request.version >= TOPIC_IDS_FROM)
            or not request.authorized(Operation.DESCRIBE, ResourceType.TOPIC, name, audited=False)
        ):
            continue
        topics.append(_topic(name, ZERO_UUID if known is None else known.id, partitions))
    if code == ErrorCode.NONE:
        topics += question.refused
    return OffsetFetchResponseGroup(group_id=question.group.group_id, topics=topics, error_code=code)


def _topic(name: str, topic_id: bytes, partitions: Sequence[Fetched]) -> OffsetFetchResponseGroupTopic:
    return OffsetFetchResponseGroupTopic(
        name=name,
        topic_id=topic_id,
        partitions=[
            OffsetFetchResponseGroupTopicPartition(
                partition_index=one.partition,
                committed_offset=one.offset,
                committed_leader_epoch=one.leader_epoch,
                metadata=one.metadata,
                error_code=one.error,
            )
            for one in partitions
        ],
    )


def _single(version: int, message: OffsetFetchRequest, group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """The response below version 8. Below version 2, each partition has the error of the group."""
    topics = group.topics
    if version < GROUP_ERRORS_FROM and group.error_code != ErrorCode.NONE:
        code = ErrorCode(group.error_code)
        topics = [
            _topic(one.name, ZERO_UUID, [Fetched(index, error=code) for index in one.partition_indexes])
            for one in message.topics or ()
        ]
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=one.partition_index,
                        committed_offset=one.committed_offset,
                        committed_leader_epoch=one.committed_leader_epoch,
                        metadata=one.metadata,
                        error_code=one.error_code,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in topics
        ],
    )
