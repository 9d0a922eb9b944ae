"""ListOffsets (2): offsets by position or by timestamp.

Versions 1-11.

* Positions: -1 latest, -2 earliest, -3 the largest timestamp (version 7+), -4 earliest on local disk (8+), -5 latest in
  remote storage (9+), -6 earliest not yet uploaded (11+).
* 0 and above is a timestamp. The answer is the first record with this timestamp or a later one.
* The search for a timestamp may read the disk, so it runs in a thread. Everything else is answered at once.
* There is no remote storage: -4 is the log start offset, -5 and -6 find nothing.
* Only the leader answers. After an election, the high watermark may be below the start of the leader's epoch, and below
  what the previous leader has shown to consumers. Until it has passed the start of the epoch, offsets that depend on it
  are OFFSET_NOT_AVAILABLE (LEADER_NOT_AVAILABLE below version 5).
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import handles
from moldau.log.errors import LogError
from moldau.log.read import TimestampOffset
from moldau.replication.partition import Partition
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
READ_COMMITTED = 1
NOT_AVAILABLE_FROM = 5
LEADER_NOT_AVAILABLE = ErrorCode.LEADER_NOT_AVAILABLE


@handles(ApiKey.LIST_OFFSETS)
def list_offsets(
    request: Request, message: ListOffsetsRequest
) -> ListOffsetsResponse | Coroutine[Any, Any, ListOffsetsResponse]:
    searches: list[tuple[ListOffsetsResponsePartition, Partition, int]] = []
    topics = []
    for topic in message.topics:
        counts: dict[int, int] = {}
        for wanted in topic.partitions:
            counts[wanted.partition_index] = counts.get(wanted.partition_index, 0) + 1
        answers = []
        for wanted in {wanted.partition_index: wanted for wanted in topic.partitions}.values():
            answer = ListOffsetsResponsePartition(partition_index=wanted.partition_index)
            answers.append(answer)
            error = _refusal(request, topic.name, wanted, counts[wanted.partition_index])
            if error:
                answer.error_code = error
                continue
            partition = request.broker.replicas.find(topic.name, wanted.partition_index)
            assert partition is not None
            if wanted.timestamp >= 0 or wanted.timestamp == MAX_TIMESTAMP:
                searches.append((answer, partition, wanted.timestamp))
            else:
                _position(answer, partition, wanted.timestamp, message.isolation_level)
        topics.append(ListOffsetsResponseTopic(name=topic.name, partitions=answers))
    response = ListOffsetsResponse(topics=topics)
    if searches:
        return _search_all(request, response, searches, message.isolation_level)
    return response


def _refusal(request: Request, topic: str, wanted: ListOffsetsRequestPartition, times_named: int) -> ErrorCode:
    if times_named > 1:
        return ErrorCode.INVALID_REQUEST
    if not request.authorized(Operation.DESCRIBE, ResourceType.TOPIC, topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    partition = request.broker.replicas.find(topic, wanted.partition_index)
    if partition is None:
        return request.broker.replicas.why_missing(topic, wanted.partition_index)
    error = partition.leader_error()
    if error:
        return error
    if wanted.timestamp < 0 and request.version < SINCE.get(wanted.timestamp, 1 << 15):
        return ErrorCode.UNSUPPORTED_VERSION
    error = partition.epoch_error(wanted.current_leader_epoch)
    if not error and not partition.knows_its_end and wanted.timestamp not in (EARLIEST, EARLIEST_LOCAL):
        return ErrorCode.OFFSET_NOT_AVAILABLE if request.version >= NOT_AVAILABLE_FROM else LEADER_NOT_AVAILABLE
    return error


def _visible_end(partition: Partition, isolation_level: int) -> int:
    if isolation_level == READ_COMMITTED:
        return partition.log.stable_offset(partition.high_watermark)
    return partition.high_watermark


def _position(answer: ListOffsetsResponsePartition, partition: Partition, spec: int, isolation_level: int) -> None:
    if spec == LATEST:
        answer.offset = _visible_end(partition, isolation_level)
        answer.leader_epoch = partition.leader_epoch
    elif spec in (EARLIEST, EARLIEST_LOCAL):
        answer.offset = partition.log.start_offset
        answer.leader_epoch = partition.epoch_at(answer.offset)


async def _search_all(
    request: Request,
    response: ListOffsetsResponse,
    searches: list[tuple[ListOffsetsResponsePartition, Partition, int]],
    isolation_level: int,
) -> ListOffsetsResponse:
    for answer, partition, timestamp in searches:
        try:
            found = await request.broker.threads.run(f"read:{partition.topic}", _search, partition, timestamp)
        except LogError as error:
            answer.error_code = error.code
            continue
        if found is not None and found.offset < _visible_end(partition, isolation_level):
            answer.offset, answer.timestamp = found.offset, found.timestamp
            answer.leader_epoch = partition.epoch_at(answer.offset)
    return response


def _search(partition: Partition, timestamp: int) -> TimestampOffset | None:
    if timestamp == MAX_TIMESTAMP:
        return partition.log.max_timestamp_offset()
    return partition.log.offset_for_timestamp(timestamp)
