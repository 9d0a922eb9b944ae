"""OffsetCommit (8): store the offsets of a group.

Versions 2-10; from version 10 on topics have ids instead of names.

* The response is sent when the offsets are replicated.
* Each partition has its own error. Unknown topics are refused by this handler, other errors come from the group.
"""

from __future__ import annotations

from typing import Any

from moldau.broker.connection.session import Request
from moldau.broker.coordinators.group_coordinator import GroupQuery, MultiGroupRequest
from moldau.broker.requests.handler_registry import Answer, handles
from moldau.coordinator.runtime import Ticket
from moldau.groups.events import Commit, CommitOffsets
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

MEMBER_EPOCHS_FROM = 9
TOPIC_IDS_FROM = 10


@handles(ApiKey.OFFSET_COMMIT)
def offset_commit(request: Request, message: OffsetCommitRequest) -> Answer:
    allowed = request.authorized(Operation.READ, ResourceType.GROUP, message.group_id)
    commits: list[Commit] = []
    places: list[OffsetCommitResponsePartition] = []
    topics = []
    for topic in message.topics:
        name, code = _topic(request, topic) if allowed else ("", ErrorCode.GROUP_AUTHORIZATION_FAILED)
        partitions = []
        for one in topic.partitions:
            answer = OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=code)
            partitions.append(answer)
            if code == ErrorCode.NONE and request.broker.image.partition(name, one.partition_index) is None:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif code == ErrorCode.NONE:
                places.append(answer)
                commits.append(
                    Commit(
                        name,
                        one.partition_index,
                        one.committed_offset,
                        one.committed_leader_epoch,
                        one.committed_metadata or "",
                    )
                )
        topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
    response = OffsetCommitResponse(topics=topics)
    if not commits:
        return response

    def event(ticket: Ticket) -> CommitOffsets:
        return CommitOffsets(
            ticket,
            message.group_id,
            message.member_id,
            message.generation_id_or_member_epoch,
            message.group_instance_id,
            commits,
            message.retention_time_ms,
            knows_epochs=request.version >= MEMBER_EPOCHS_FROM,
        )

    def build(answers: list[Any]) -> OffsetCommitResponse:
        for place, code in zip(places, answers[0], strict=True):
            place.error_code = code
        return response

    return MultiGroupRequest(request, [GroupQuery(message.group_id, event, lambda code: [code] * len(commits))], build)


def _topic(request: Request, topic: OffsetCommitRequestTopic) -> tuple[str, ErrorCode]:
    """The name of a topic, and the error if offsets cannot be committed for it."""
    name = topic.name
    if request.version >= TOPIC_IDS_FROM:
        known = request.broker.image.topic_by_id(topic.topic_id)
        if known is None:
            return "", ErrorCode.UNKNOWN_TOPIC_ID
        name = known.name
    if not request.authorized(Operation.READ, ResourceType.TOPIC, name):
        return name, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return name, ErrorCode.NONE
