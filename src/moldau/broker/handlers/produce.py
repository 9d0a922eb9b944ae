"""Produce (0): append record batches to partitions.

Versions 0-13. Versions 0-2 are served only because old clients conclude from them in ApiVersions that compression is
supported. The only record format is 2; older formats are INVALID_RECORD.

A request has two phases. First, all batches are appended in order, inside the read callback. Then the response waits
until the high watermark has passed the records, if the topic requires it (a flush before the acknowledgement, or other
replicas).

* acks=0 has no response. An error closes the connection, which is the only way such a client can notice it.
* Each partition has one batch. All its records are validated before anything is written.
* A transactional batch is written only if the partition is part of the transaction. The client has added it before, or,
  from version 12 on (transaction version 2), this request adds it. Otherwise the error is TRANSACTION_ABORTABLE
  (version 11 and later) or INVALID_TXN_STATE.
* A broker that does not lead a partition answers NOT_LEADER_OR_FOLLOWER, from version 10 on with the leader (KIP-951).
* A client that exceeds its byte rate is throttled: the response says for how long, and the broker reads no further
  request from it meanwhile.
* A topic with schema validation (`confluent.value.schema.validation` …) refuses records without the id of a schema that
  the registry has under their subject: INVALID_RECORD, with the records. See `broker/schema_ids/`.
* An unknown topic is UNKNOWN_TOPIC_OR_PARTITION by name and UNKNOWN_TOPIC_ID by id. Produce never creates topics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from moldau.broker.connection.session import Request
from moldau.broker.quotas.request_time import throttle_time
from moldau.broker.requests.delayed_requests import DelayedProduce
from moldau.broker.requests.handler_registry import (
    NO_REPLY,
    Answer,
    Body,
    DeferredAnswer,
    Encodable,
    NoReply,
    Reply,
    handles,
)
from moldau.broker.requests.leader_hints import MOVED, CurrentLeader, addresses, present_leader
from moldau.broker.schema_ids.schema_validation import Refusals, SchemaCheck
from moldau.broker.txn.txn_verification import Verification, transactional_producer
from moldau.cluster.image import INTERNAL_TOPICS
from moldau.log.errors import LogError, RejectedBatch
from moldau.records.batch_layout import CODEC_MASK, FLAGS_AT, LENGTH_AT, LENGTH_END, Codec
from moldau.replication.partition import Partition
from moldau.security import Operation, ResourceType
from moldau.security.quota_entities import PRODUCER_BYTE_RATE
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.tuned.produce import PartitionAnswer, ProduceCall, decode_produce, encode_produce

ALL_REPLICAS = -1
NO_ACKS = 0
VALID_ACKS = (ALL_REPLICAS, NO_ACKS, 1)
ZSTD_FROM = 7
ERROR_TEXTS_FROM = 8
LEADERS_FROM = 10

Results = list[tuple[str | bytes, list[PartitionAnswer]]]
Failures = dict[tuple[int, int], LogError]

NONE_REFUSED: Refusals = {}

WRITE, TOPIC = Operation.WRITE, ResourceType.TOPIC
"""Once, not per request: the lookup of an enum's member takes a tenth of a microsecond."""


@handles(ApiKey.PRODUCE, min_version=0, raw=True)
def produce(request: Request, body: memoryview) -> Answer:
    call = decode_produce(body, request.version)
    if request.broker.quotas.active:
        _count_bytes(request, len(body))
    if request.broker.schema_validation is not None:
        check = request.broker.schema_validation.begin(request, call)
        if check is not None:
            if not check.settled:
                return _wait_for_schemas(request, bytearray(body), check)
            return _verify(request, body, call, check.refusals())
    if call.transactional_id is not None:
        return _verify(request, body, call)
    return _produce(request, call)


def _verify(request: Request, body: memoryview, call: ProduceCall, refused: Refusals = NONE_REFUSED) -> Answer:
    """Append, after the transaction is verified if the request has one."""
    verification = request.broker.produce_verifier.begin(request, call)
    if verification is None:
        return _produce(request, call, None, refused)
    if not verification.settled:
        return _wait_for_transaction(request, bytearray(body), verification, refused)
    try:
        return _produce(request, call, verification, refused)
    finally:
        verification.release()


def _count_bytes(request: Request, size: int) -> None:
    """Throttle the client if it exceeds its byte rate. The records are appended nevertheless. Later requests wait, also
    those that the client sent before it got this response."""
    quota = request.session.quota
    limit = quota.limits(request.client_id).produce
    if limit is not None:
        quota.throttle(PRODUCER_BYTE_RATE, limit.charge(size, request.broker.loop.time()))


async def _wait_for_schemas(request: Request, body: bytearray, check: SchemaCheck) -> Encodable | NoReply:
    """Wait until the registry has said which schemas it has, and then append. As below, later requests wait."""
    await check.settle()
    view = memoryview(body)
    answer = _verify(request, view, decode_produce(view, request.version), check.refusals())
    if isinstance(answer, Coroutine):
        return await answer
    return await _finished(request, answer)


async def _wait_for_transaction(
    request: Request, body: bytearray, verification: Verification, refused: Refusals
) -> Encodable | NoReply:
    """Wait until the partitions are part of the transaction, and then append.

    This is a coroutine, so the connection dispatches no further request meanwhile: later batches must be appended after
    this one. `body` is a copy, because the connection reuses its receive buffer.
    """
    try:
        await verification.settle()
        answer = _produce(request, decode_produce(memoryview(body), request.version), verification, refused)
    finally:
        verification.release()
    return await _finished(request, answer)


async def _finished(request: Request, answer: Answer) -> Encodable | NoReply:
    """The response of a request that is answered by a coroutine."""
    if isinstance(answer, NoReply):
        return answer
    if isinstance(answer, DeferredAnswer):
        future: asyncio.Future[Body] = request.broker.loop.create_future()

        def answered(encoded: Body) -> None:
            if not future.done():  # if the client has disconnected, its task was cancelled
                future.set_result(encoded)

        answer.start(answered)
        return Encoded(await future)
    assert isinstance(answer, list)
    return Encoded(answer)


class Encoded:
    """A response that is already encoded."""

    __slots__ = ("_body",)

    def __init__(self, body: Body) -> None:
        self._body = body

    def encode(self, version: int) -> bytes:
        return b"".join(self._body)


def _produce(
    request: Request,
    call: ProduceCall,
    verification: Verification | None = None,
    refused: Refusals = NONE_REFUSED,
) -> Answer:
    results: Results = []
    failures: Failures = {}
    unsafe: list[tuple[tuple[int, int], Partition, int]] = []
    denied = None if call.transactional_id is None else _transaction_refusal(request, call)
    for topic_place, (topic, partitions) in enumerate(call.topics):
        answers: list[PartitionAnswer] = []
        results.append((topic, answers))
        refusal = denied or _topic_refusal(request, call, topic)
        for place, (index, records) in enumerate(partitions):
            partition = None
            try:
                if refusal is not None:
                    raise refusal
                partition = _partition(request, topic, index)
                producer = transactional_producer(records)
                if producer is not None:
                    request.broker.produce_verifier.check(request, call, partition, producer, verification)
                if refused and (topic_place, place) in refused:
                    raise refused[topic_place, place]
                answer, next_offset = _append(request, partition, records, call.acks)
            except LogError as error:
                failures[topic_place, place] = error
                start = partition.log.start_offset if partition is not None and isinstance(error, RejectedBatch) else -1
                answer = PartitionAnswer(index, error.code, -1, -1, start)
            else:
                is_safe = partition.is_safe if call.acks == ALL_REPLICAS else partition.is_stored
                if not is_safe(next_offset):
                    unsafe.append(((topic_place, place), partition, next_offset))
            answers.append(answer)
    if call.acks == NO_ACKS:
        if failures:
            _close_for_failure(request, failures)
        return NO_REPLY
    if unsafe:
        return PendingProduce(request, call, results, failures, unsafe)
    return [_encode(request, results, failures)]


def _transaction_refusal(request: Request, call: ProduceCall) -> LogError | None:
    """The error if this client cannot write in this transaction. It is for the whole request, as in Kafka: nothing is
    said about the topics."""
    assert call.transactional_id is not None
    if request.authorized(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, call.transactional_id, audited=False):
        return None
    if not any(transactional_producer(records) for _, partitions in call.topics for _, records in partitions):
        return None
    request.authorized(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, call.transactional_id)  # for the audit log
    return LogError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "")


def _topic_refusal(request: Request, call: ProduceCall, topic: str | bytes) -> LogError | None:
    """The error if this client cannot write to this topic."""
    if call.acks not in VALID_ACKS:
        return LogError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={call.acks}; allowed are -1 (all), 0 and 1")
    name = topic
    if isinstance(topic, bytes):
        known = request.broker.image.topic_by_id(topic)
        if known is None:
            return LogError(ErrorCode.UNKNOWN_TOPIC_ID, "")
        name = known.name
    assert isinstance(name, str)
    if not request.authorized(WRITE, TOPIC, name):
        return LogError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "")
    if name in INTERNAL_TOPICS:
        return LogError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is an internal topic: only brokers write to it")
    return None


def _partition(request: Request, topic: str | bytes, index: int) -> Partition:
    partition = request.broker.replicas.find(topic, index)
    if partition is None:
        raise LogError(request.broker.replicas.why_missing(topic, index), "")
    return partition


def _append(
    request: Request, partition: Partition, records: memoryview | None, acks: int
) -> tuple[PartitionAnswer, int]:
    """The partition's answer, and the offset after its last record."""
    if records is None:
        raise LogError(ErrorCode.INVALID_RECORD, "the request has no records for this partition")
    broker = request.broker
    if request.version < ZSTD_FROM and len(records) > FLAGS_AT and records[FLAGS_AT] & CODEC_MASK == Codec.ZSTD:
        raise LogError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7 or later")
    try:
        result = partition.append(records, broker.now_ms(), all_replicas=acks == ALL_REPLICAS)
    except RejectedBatch as error:
        if error.code == ErrorCode.CORRUPT_MESSAGE and not _is_whole(records):
            # Clients retry after CORRUPT_MESSAGE, but a batch that the client itself has truncated stays truncated.
            error.code = ErrorCode.INVALID_RECORD
        raise
    metrics = broker.metrics
    metrics.bytes_in += len(records)
    metrics.messages_in += result.last_offset - result.first_offset + 1
    broker.replicas.appended(partition)
    start = partition.log.start_offset
    answer = PartitionAnswer(partition.index, 0, result.first_offset, result.log_append_time_ms, start)
    return answer, result.last_offset + 1


def _is_whole(records: memoryview) -> bool:
    """Whether the records have as many bytes as the length field of the batch says."""
    return (
        len(records) >= LENGTH_END
        and int.from_bytes(records[LENGTH_AT:LENGTH_END], signed=True) <= len(records) - LENGTH_END
    )


class PendingProduce(DeferredAnswer):
    """The second phase: some partitions have appended their records but cannot acknowledge them yet."""

    __slots__ = ("_call", "_failures", "_request", "_results", "_unsafe")

    def __init__(
        self,
        request: Request,
        call: ProduceCall,
        results: Results,
        failures: Failures,
        unsafe: list[tuple[tuple[int, int], Partition, int]],
    ) -> None:
        self._request = request
        self._call = call._replace(topics=[])  # the records are in the log, and their frame is no longer valid
        self._results = results
        self._failures = failures
        self._unsafe = unsafe

    def start(self, reply: Reply) -> None:
        def complete() -> None:
            for (topic_place, place), code in delayed.errors.items():
                if code != ErrorCode.NONE:
                    answers = self._results[topic_place][1]
                    answers[place] = PartitionAnswer(answers[place].partition, code, -1, -1, -1)
                    self._failures[topic_place, place] = LogError(code, "")
            reply([_encode(self._request, self._results, self._failures)])

        delayed = DelayedProduce(complete)
        for place, partition, next_offset in self._unsafe:
            delayed.await_partition(place, partition, next_offset, all_replicas=self._call.acks == ALL_REPLICAS)
        delayed.start(self._request.broker.loop, self._call.timeout_ms / 1000)


def _encode(request: Request, results: Results, failures: Failures) -> bytes:
    throttle_ms = 0
    if request.broker.quotas.active:
        throttle_time(request)
        throttle_ms = request.session.quota.throttle_ms
    if not failures or not _has_details(request.version, failures):
        return encode_produce(request.version, results, throttle_ms)
    from moldau.wire.messages import produce as messages

    broker = request.broker
    responses = []
    leaders: list[CurrentLeader] = []
    for topic_place, (topic, answers) in enumerate(results):
        partitions = []
        for place, answer in enumerate(answers):
            partition = messages.ProduceResponsePartition(
                index=answer.partition,
                error_code=answer.error_code,
                base_offset=answer.base_offset,
                log_append_time_ms=answer.log_append_time_ms,
                log_start_offset=answer.log_start_offset,
            )
            error = failures.get((topic_place, place))
            if error is not None:
                partition.error_message = error.message or None
                partition.record_errors = [
                    messages.ProduceResponseRecordError(batch_index=index, batch_index_error_message=text)
                    for index, text in (error.record_errors if isinstance(error, RejectedBatch) else ())
                ]
            if answer.error_code in MOVED:
                leader = present_leader(broker.image, broker.node_id, topic, answer.partition)
                if leader is not None:
                    leaders.append(leader)
                    partition.current_leader = messages.ProduceResponseCurrentLeader(
                        leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
                    )
            partitions.append(partition)
        one = messages.ProduceResponseTopic(partition_responses=partitions)
        if isinstance(topic, bytes):
            one.topic_id = topic
        else:
            one.name = topic
        responses.append(one)
    endpoints = [
        messages.ProduceResponseNodeEndpoint(node_id=one.node_id, host=one.host, port=one.port, rack=one.rack)
        for one in addresses(broker.image, request.session.listener.name, leaders)
    ]
    response = messages.ProduceResponse(responses=responses, node_endpoints=endpoints, throttle_time_ms=throttle_ms)
    return response.encode(request.version)


def _has_details(version: int, failures: Failures) -> bool:
    """Whether the response has leader hints or error messages, and the version has fields for them."""
    if version >= LEADERS_FROM and any(error.code in MOVED for error in failures.values()):
        return True
    return version >= ERROR_TEXTS_FROM and any(error.message for error in failures.values())


def _close_for_failure(request: Request, failures: Failures) -> None:
    error = next(iter(failures.values()))
    request.broker.connections.log_client_error(
        "produce with acks=0 failed, connection closed", request.session, f"{error.code.name} {error.message}".rstrip()
    )
    request.session.close()
