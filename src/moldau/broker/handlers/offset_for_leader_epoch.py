"""OffsetForLeaderEpoch (23): the end offset of a leader epoch, with which readers detect divergent logs.

Versions 2-4.

* The response has the largest epoch that is not above the requested one, and the offset where the next epoch begins (or
  the log end offset).
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import handles
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponsePartition,
    OffsetForLeaderEpochResponseTopic,
)
from moldau.wire.number_types import LeaderEpoch


@handles(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def offset_for_leader_epoch(request: Request, message: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    topics = []
    for topic in message.topics:
        answers = [_answer(request, topic.topic, wanted) for wanted in topic.partitions]
        topics.append(OffsetForLeaderEpochResponseTopic(topic=topic.topic, partitions=answers))
    return OffsetForLeaderEpochResponse(topics=topics)


def _answer(
    request: Request, topic: str, wanted: OffsetForLeaderEpochRequestPartition
) -> OffsetForLeaderEpochResponsePartition:
    answer = OffsetForLeaderEpochResponsePartition(partition=wanted.partition)
    if not (
        request.authorized(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, audited=False)
        or request.authorized(Operation.DESCRIBE, ResourceType.TOPIC, topic)
    ):
        answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return answer
    partition = request.broker.replicas.find(topic, wanted.partition)
    if partition is None:
        answer.error_code = request.broker.replicas.why_missing(topic, wanted.partition)
        return answer
    answer.error_code = partition.leader_error() or partition.epoch_error(wanted.current_leader_epoch)
    if not answer.error_code and wanted.leader_epoch >= 0:
        answer.leader_epoch, answer.end_offset = partition.epoch_end_offset(LeaderEpoch(wanted.leader_epoch))
    return answer
