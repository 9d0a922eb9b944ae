"""TxnOffsetCommit (28): commit offsets as part of a transaction.

Versions 0-5.

* The offsets take effect when the transaction is committed, and are discarded when it is aborted.
* The group coordinator stores them for the producer. From version 3 on, the membership of the consumer is checked as in
  OffsetCommit.
* The group's partition of `__consumer_offsets` must be part of the transaction. AddOffsetsToTxn has added it, or, from
  version 5 on (transaction version 2), this request adds it. Otherwise the error is TRANSACTION_ABORTABLE (version 4
  and later) or INVALID_TXN_STATE.
* Below version 2 a coordinator that is loading answers COORDINATOR_NOT_AVAILABLE, because older clients give up on
  COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import handles
from moldau.broker.txn.txn_verification import writer_error
from moldau.cluster.image import CONSUMER_OFFSETS
from moldau.coordinator.outcome import TxnProducer
from moldau.coordinator.runtime import Ticket
from moldau.groups.events import Commit, CommitOffsets
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from moldau.wire.producer_identity import ProducerIdentity
from moldau.wire.topic_partition import TopicPartition

LOADING_FROM = 2
ABORTABLE_FROM = 4
ADDS_FROM = 5

Place = tuple[int, int]


@handles(ApiKey.TXN_OFFSET_COMMIT)
async def txn_offset_commit(request: Request, message: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    if error := _refusal(request, message):
        return _response(request, message, error)
    errors: dict[Place, ErrorCode] = {}
    commits: dict[Place, Commit] = {}
    for topic_place, topic in enumerate(message.topics):
        known = request.broker.image.topics.get(topic.name)
        may = request.authorized(Operation.READ, ResourceType.TOPIC, topic.name)
        for place, one in enumerate(topic.partitions):
            at = (topic_place, place)
            if not may:
                errors[at] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif known is None or not 0 <= one.partition_index < len(known.partitions):
                errors[at] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                commits[at] = Commit(
                    topic.name,
                    one.partition_index,
                    one.committed_offset,
                    one.committed_leader_epoch,
                    one.committed_metadata or "",
                )
    if commits:
        codes = await _commit_as_part(request, message, list(commits.values()))
        errors |= (
            dict.fromkeys(commits, codes) if isinstance(codes, ErrorCode) else dict(zip(commits, codes, strict=True))
        )
    return _response(request, message, errors)


def _refusal(request: Request, message: TxnOffsetCommitRequest) -> ErrorCode:
    if not message.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if not request.authorized(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, message.transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not message.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if not request.authorized(Operation.READ, ResourceType.GROUP, message.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return ErrorCode.NONE


async def _commit_as_part(
    request: Request, message: TxnOffsetCommitRequest, commits: list[Commit]
) -> list[ErrorCode] | ErrorCode:
    """Store the offsets if they are part of the transaction, and if it has not ended during the verification."""
    broker = request.broker
    index = broker.groups.runtime.index_of(message.group_id)
    if index < 0:
        return ErrorCode.NOT_COORDINATOR
    watches, place = broker.transactions.marker_watches, (CONSUMER_OFFSETS, index, message.producer_id)
    watch = watches.begin(*place)
    try:
        error = await _part_of_transaction(request, message, TopicPartition(CONSUMER_OFFSETS, index))
        if error == ErrorCode.NONE and watch.marker_written:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    finally:
        watches.end(*place, watch)
    return error or await _commit(request, message, commits)


async def _part_of_transaction(
    request: Request, message: TxnOffsetCommitRequest, partition: TopicPartition
) -> ErrorCode:
    """NONE if the group's partition of `__consumer_offsets` is part of the transaction, or has just been added."""
    broker, name = request.broker, message.transactional_id
    identity = ProducerIdentity(message.producer_id, message.producer_epoch)
    adds = request.version >= ADDS_FROM
    local = broker.transactions.coordinates(name)
    if local and broker.transactions.verify(name, identity, partition) == ErrorCode.NONE:
        return ErrorCode.NONE
    if not adds and not broker.settings["transaction.partition.verification.enable"]:
        return ErrorCode.NONE
    error = (await broker.transactions.partition_adder.add_or_verify(name, identity, (partition,), adds=adds)).of(
        partition
    )
    error = writer_error(error, abortable=request.version >= ABORTABLE_FROM, waits=adds)
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if error == ErrorCode.NOT_ENOUGH_REPLICAS else error


async def _commit(
    request: Request, message: TxnOffsetCommitRequest, commits: list[Commit]
) -> list[ErrorCode] | ErrorCode:
    future = request.broker.loop.create_future()

    def answer(result: list[ErrorCode] | ErrorCode) -> None:
        if not future.done():
            future.set_result(result)

    request.broker.groups.runtime.send(
        message.group_id,
        lambda ticket: CommitOffsets(
            ticket,
            message.group_id,
            message.member_id,
            message.generation_id,
            message.group_instance_id,
            commits,
            producer=TxnProducer(message.producer_id, message.producer_epoch),
        ),
        Ticket(answer, answer),
    )
    result: list[ErrorCode] | ErrorCode = await future
    return result


def _response(
    request: Request, message: TxnOffsetCommitRequest, errors: ErrorCode | dict[Place, ErrorCode]
) -> TxnOffsetCommitResponse:
    def error_at(place: Place) -> ErrorCode:
        error = errors if isinstance(errors, ErrorCode) else errors[place]
        if error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and request.version < LOADING_FROM:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return error

    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=one.partition_index, error_code=error_at((topic_place, place))
                    )
                    for place, one in enumerate(topic.partitions)
                ],
            )
            for topic_place, topic in enumerate(message.topics)
        ]
    )
