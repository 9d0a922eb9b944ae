"""DeleteRecords (21): move the start of partitions forward.

Versions 0-2. Offset -1 means everything that is visible. Below the start nothing happens; above the high watermark is
OFFSET_OUT_OF_RANGE. Topics that are only compacted refuse (POLICY_VIOLATION): their old records are the state. Whole
segments below the new start are removed in the background.
"""

from __future__ import annotations

from moldau.broker.registry import handles
from moldau.broker.session import Request
from moldau.cluster.image import INTERNAL_TOPICS
from moldau.log.errors import LogError
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsResponsePartition,
    DeleteRecordsResponseTopic,
)

EVERYTHING = -1


@handles(ApiKey.DELETE_RECORDS)
async def delete_records(request: Request, message: DeleteRecordsRequest) -> DeleteRecordsResponse:
    topics = []
    for topic in message.topics:
        answers = []
        for wanted in topic.partitions:
            answer = DeleteRecordsResponsePartition(partition_index=wanted.partition_index, low_watermark=-1)
            answers.append(answer)
            try:
                answer.low_watermark = await _delete(request, topic.name, wanted.partition_index, wanted.offset)
            except LogError as error:
                answer.error_code = error.code
        topics.append(DeleteRecordsResponseTopic(name=topic.name, partitions=answers))
    return DeleteRecordsResponse(topics=topics)


async def _delete(request: Request, topic: str, index: int, offset: int) -> int:
    replicas = request.broker.replicas
    if not request.authorized(Operation.DELETE, ResourceType.TOPIC, topic):
        raise LogError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "")
    if topic in INTERNAL_TOPICS:
        raise LogError(ErrorCode.INVALID_TOPIC_EXCEPTION, "")
    partition = replicas.find(topic, index)
    if partition is None:
        raise LogError(replicas.why_missing(topic, index), "")
    if error := partition.leader_error():
        raise LogError(error, "")
    if not partition.log.config.deletes:
        raise LogError(ErrorCode.POLICY_VIOLATION, "")
    target = partition.high_watermark if offset == EVERYTHING else offset
    if not 0 <= target <= partition.high_watermark:
        raise LogError(ErrorCode.OFFSET_OUT_OF_RANGE, "")
    if target > partition.log.start_offset:
        await replicas.delete_before(partition, target)
    return partition.log.start_offset
