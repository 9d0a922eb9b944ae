"""TxnOffsetCommit (28): offsets that count when the producer's transaction is committed, and never if it is aborted.

Versions 0-5. The group coordinator stores them in the name of the producer; from version 3 the consumer's membership
is checked as in OffsetCommit. Before that the group's partition of `__consumer_offsets` must be part of the
transaction: AddOffsetsToTxn made it so, or, from version 5 (transaction version 2), this request does.

* Not part of the transaction: TRANSACTION_ABORTABLE from version 4, INVALID_TXN_STATE before.
* Below version 2 a coordinator that loads is told as COORDINATOR_NOT_AVAILABLE: clients of that time would give up.
"""

from __future__ import annotations

from moldau.broker.coordination import Ticket
from moldau.broker.registry import handles
from moldau.broker.session import Request
from moldau.broker.verification import told_to_writer
from moldau.cluster.image import CONSUMER_OFFSETS
from moldau.groups.events import Commit, CommitOffsets
from moldau.groups.outcome import Producer
from moldau.security import Operation, ResourceType
from moldau.transactions.transaction import Identity, TopicPartition
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

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
    """Stores the offsets if they are part of the transaction, and it has not ended while that was asked."""
    broker = request.broker
    index = broker.groups.index_of(message.group_id)
    if index < 0:
        return ErrorCode.NOT_COORDINATOR
    guards, place = broker.transactions.guards, (CONSUMER_OFFSETS, index, message.producer_id)
    guard = guards.take(*place)
    try:
        error = await _part_of_transaction(request, message, (CONSUMER_OFFSETS, index))
        if error == ErrorCode.NONE and not guard.stands:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    finally:
        guards.give(*place, guard)
    return error or await _commit(request, message, commits)


async def _part_of_transaction(
    request: Request, message: TxnOffsetCommitRequest, partition: TopicPartition
) -> ErrorCode:
    """NONE when the group's offsets are part of the transaction."""
    broker, name = request.broker, message.transactional_id
    identity = Identity(message.producer_id, message.producer_epoch)
    adds = request.version >= ADDS_FROM
    local = broker.transactions.coordinates(name)
    if local and broker.transactions.verify(name, identity, partition) == ErrorCode.NONE:
        return ErrorCode.NONE
    if not adds and not broker.settings["transaction.partition.verification.enable"]:
        return ErrorCode.NONE
    error = (await broker.transactions.enlisting.enlist(name, identity, (partition,), adds=adds)).of(partition)
    error = told_to_writer(error, abortable=request.version >= ABORTABLE_FROM, waits=adds)
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if error == ErrorCode.NOT_ENOUGH_REPLICAS else error


async def _commit(
    request: Request, message: TxnOffsetCommitRequest, commits: list[Commit]
) -> list[ErrorCode] | ErrorCode:
    future = request.broker.loop.create_future()

    def answer(result: list[ErrorCode] | ErrorCode) -> None:
        if not future.done():
            future.set_result(result)

    request.broker.groups.send(
        message.group_id,
        lambda ticket: CommitOffsets(
            ticket,
            message.group_id,
            message.member_id,
            message.generation_id,
            message.group_instance_id,
            commits,
            producer=Producer(message.producer_id, message.producer_epoch),
        ),
        Ticket(answer, answer),
    )
    result: list[ErrorCode] | ErrorCode = await future
    return result


def _response(
    request: Request, message: TxnOffsetCommitRequest, errors: ErrorCode | dict[Place, ErrorCode]
) -> TxnOffsetCommitResponse:
    def told(place: Place) -> ErrorCode:
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
                        partition_index=one.partition_index, error_code=told((topic_place, place))
                    )
                    for place, one in enumerate(topic.partitions)
                ],
            )
            for topic_place, topic in enumerate(message.topics)
        ]
    )
