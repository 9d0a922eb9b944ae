"""OffsetDelete (47): delete committed offsets of a group.

Version 0.

* Offsets of topics that members subscribe to are kept (GROUP_SUBSCRIBED_TO_TOPIC).
"""

from __future__ import annotations

from typing import Any

from moldau.broker.connection.session import Request
from moldau.broker.coordinators.group_coordinator import GroupQuery, MultiGroupRequest
from moldau.broker.requests.handler_registry import Answer, handles
from moldau.coordinator.runtime import Ticket
from moldau.groups.events import DeleteOffsets
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from moldau.wire.topic_partition import TopicPartition


@handles(ApiKey.OFFSET_DELETE)
def offset_delete(request: Request, message: OffsetDeleteRequest) -> Answer:
    if not request.authorized(Operation.DELETE, ResourceType.GROUP, message.group_id):
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    partitions: list[TopicPartition] = []
    places: list[OffsetDeleteResponsePartition] = []
    topics = []
    for topic in message.topics:
        allowed = request.authorized(Operation.READ, ResourceType.TOPIC, topic.name)
        answers = [OffsetDeleteResponsePartition(partition_index=one.partition_index) for one in topic.partitions]
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
        for answer in answers:
            if not allowed:
                answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif request.broker.image.partition(topic.name, answer.partition_index) is None:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                places.append(answer)
                partitions.append(TopicPartition(topic.name, answer.partition_index))

    def event(ticket: Ticket) -> DeleteOffsets:
        return DeleteOffsets(ticket, message.group_id, partitions)

    def build(answers: list[Any]) -> OffsetDeleteResponse:
        code, codes = answers[0]
        if code != ErrorCode.NONE:
            return OffsetDeleteResponse(error_code=code)
        for place, result in zip(places, codes, strict=True):
            place.error_code = result
        return OffsetDeleteResponse(topics=topics)

    return MultiGroupRequest(request, [GroupQuery(message.group_id, event, lambda code: (code, []))], build)
