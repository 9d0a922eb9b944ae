"""DeleteRecords (21): delete the records of partitions below an offset.

Versions 0-2.

* Offset -1 means the high watermark. An offset below the log start offset changes nothing. An offset above the high
  watermark is OFFSET_OUT_OF_RANGE.
* Topics that are only compacted refuse with POLICY_VIOLATION: their old records are part of the state.
* Whole segments below the new log start offset are deleted in the background.
* The response is sent when all live replicas have the new log start offset. After the request's timeout the error is
  REQUEST_TIMED_OUT, but the records will be deleted nevertheless.
"""

from __future__ import annotations

import asyncio

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import handles
from moldau.cluster.image import INTERNAL_TOPICS
from moldau.log.errors import LogError
from moldau.replication.partition import Partition
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
    deletions: list[tuple[DeleteRecordsResponsePartition, Deletion]] = []
    for topic in message.topics:
        answers = []
        for wanted in topic.partitions:
            answer = DeleteRecordsResponsePartition(partition_index=wanted.partition_index, low_watermark=-1)
            answers.append(answer)
            try:
                deletions.append((answer, _begin(request, topic.name, wanted.partition_index, wanted.offset)))
            except LogError as error:
                answer.error_code = error.code
        topics.append(DeleteRecordsResponseTopic(name=topic.name, partitions=answers))
    pending = [deletion.done for _, deletion in deletions]
    if pending:
        await asyncio.wait(pending, timeout=max(0, message.timeout_ms) / 1000)
    for answer, deletion in deletions:
        if not deletion.done.done():
            answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        elif code := deletion.done.result():
            answer.error_code = code
        else:
            answer.low_watermark = deletion.partition.log.start_offset
    return DeleteRecordsResponse(topics=topics)


class Deletion:
    """The deletion in one partition. `done` is set when all live replicas have the new log start offset."""

    __slots__ = ("done", "partition")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.done: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

    def acknowledged(self, error: ErrorCode) -> None:
        if not self.done.done():
            self.done.set_result(error)


def _begin(request: Request, topic: str, index: int, offset: int) -> Deletion:
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
    deletion = Deletion(partition)
    replicas.delete_before(partition, max(target, partition.log.start_offset), deletion)
    return deletion
