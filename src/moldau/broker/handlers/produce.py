"""Produce (0): append record batches to partitions.

Versions 0-13 are answered; below 3 only so that old clients can learn from ApiVersions that compression is there:
record format 2 is the only one taken, anything older is INVALID_RECORD.

Two phases. First every batch is appended, in order, inside the read callback. Then, only where the topic demands it (a
flush before acknowledging; with replicas, their copies), the answer waits until the high watermark has passed the
records.

* acks=0 has no answer. An error under acks=0 closes the connection, which is the only way such a client can notice.
* One batch a partition. Batches are validated down to the record before anything is written.
* A batch of a transaction is written only where the transaction's coordinator has the partition: added by the client
  before, or, from version 12 (transaction version 2), by this request. Not so: TRANSACTION_ABORTABLE from version 11,
  INVALID_TXN_STATE before.
* A broker that does not lead a partition answers NOT_LEADER_OR_FOLLOWER, from version 10 on with who does (KIP-951).
* A topic unknown by name is UNKNOWN_TOPIC_OR_PARTITION, by id UNKNOWN_TOPIC_ID; producing never creates topics.
"""

from __future__ import annotations

import asyncio

from moldau.broker.delayed import DelayedProduce
from moldau.broker.redirects import MOVED, Leader, addresses, present_leader
from moldau.broker.registry import NO_REPLY, Answer, Body, Later, Message, Reply, handles
from moldau.broker.session import Request
from moldau.broker.verification import Verification, begin_verification, check_transaction, transactional_producer
from moldau.cluster.image import INTERNAL_TOPICS
from moldau.log.errors import LogError, RejectedBatch
from moldau.replication.partition import Partition
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.tuned.produce import PartitionAnswer, ProduceCall, decode_produce, encode_produce

ALL_REPLICAS = -1
NO_ACKS = 0
VALID_ACKS = (ALL_REPLICAS, NO_ACKS, 1)
ZSTD_FROM = 7
ERROR_TEXTS_FROM = 8
LEADERS_FROM = 10
CODEC_ZSTD = 4
_CODEC_BYTE = 22
_LENGTH_AT, _LENGTH_END = 8, 12

Results = list[tuple[str | bytes, list[PartitionAnswer]]]
Failures = dict[tuple[int, int], LogError]


@handles(ApiKey.PRODUCE, min_version=0, raw=True)
def produce(request: Request, body: memoryview) -> Answer:
    call = decode_produce(body, request.version)
    if call.transactional_id is not None:
        verification = begin_verification(request, call)
        if verification is not None:
            if not verification.settled:
                return _wait_for_transaction(request, bytearray(body), verification)
            try:
                return _produce(request, call, verification)
            finally:
                verification.release()
    return _produce(request, call)


async def _wait_for_transaction(request: Request, body: bytearray, verification: Verification) -> Message:
    """Nothing else of this connection is begun before the transaction has taken the partitions in: the batches behind
    this one come after it. The request's bytes are our own copy, since the connection reads on."""
    try:
        await verification.settle()
        answer = _produce(request, decode_produce(memoryview(body), request.version), verification)
    finally:
        verification.release()
    if isinstance(answer, Later):
        future: asyncio.Future[Body] = request.broker.loop.create_future()

        def answered(encoded: Body) -> None:
            if not future.done():  # the client may be gone, and its task with it; others wait behind it
                future.set_result(encoded)

        answer.start(answered)
        return Encoded(await future)
    assert isinstance(answer, list)
    return Encoded(answer)


class Encoded:
    """An answer that is encoded already."""

    __slots__ = ("_body",)

    def __init__(self, body: Body) -> None:
        self._body = body

    def encode(self, version: int) -> bytes:
        return b"".join(self._body)


def _produce(request: Request, call: ProduceCall, verification: Verification | None = None) -> Answer:
    results: Results = []
    failures: Failures = {}
    unsafe: list[tuple[tuple[int, int], Partition, int]] = []
    for topic_place, (topic, partitions) in enumerate(call.topics):
        answers: list[PartitionAnswer] = []
        results.append((topic, answers))
        refusal = _topic_refusal(request, call, topic)
        for place, (index, records) in enumerate(partitions):
            partition = None
            try:
                if refusal is not None:
                    raise refusal
                partition = _partition(request, topic, index)
                producer = transactional_producer(records)
                if producer is not None:
                    check_transaction(request, call, partition, producer, verification)
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
        return Unsafe(request, call, results, failures, unsafe)
    return [_encode(request, results, failures)]


def _topic_refusal(request: Request, call: ProduceCall, topic: str | bytes) -> LogError | None:
    """Why nothing can be written to this topic by this client, if so."""
    if call.acks not in VALID_ACKS:
        return LogError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={call.acks}; allowed are -1 (all), 0 and 1")
    name = topic
    if isinstance(topic, bytes):
        known = request.broker.image.topic_by_id(topic)
        if known is None:
            return LogError(ErrorCode.UNKNOWN_TOPIC_ID, "")
        name = known.name
    assert isinstance(name, str)
    if not request.authorized(Operation.WRITE, ResourceType.TOPIC, name):
        return LogError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "")
    if name in INTERNAL_TOPICS:
        return LogError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is written by the broker alone")
    return None


def _partition(request: Request, topic: str | bytes, index: int) -> Partition:
    partition = request.broker.replicas.find(topic, index)
    if partition is None:
        raise LogError(request.broker.replicas.why_missing(topic, index), "")
    return partition


def _append(
    request: Request, partition: Partition, records: memoryview | None, acks: int
) -> tuple[PartitionAnswer, int]:
    """The partition's answer, and the offset behind its last record."""
    if records is None:
        raise LogError(ErrorCode.INVALID_RECORD, "a produce request without records")
    broker = request.broker
    if request.version < ZSTD_FROM and len(records) > _CODEC_BYTE and records[_CODEC_BYTE] & 7 == CODEC_ZSTD:
        raise LogError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7 or later")
    try:
        result = partition.append(records, broker.now_ms(), all_replicas=acks == ALL_REPLICAS)
    except RejectedBatch as error:
        if error.code == ErrorCode.CORRUPT_MESSAGE and not _is_whole(records):
            # Corruption is worth a retry to clients; what its sender cut short will never be longer.
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
    """Whether there are as many bytes as the batch says that it has."""
    return (
        len(records) >= _LENGTH_END
        and int.from_bytes(records[_LENGTH_AT:_LENGTH_END], signed=True) <= len(records) - _LENGTH_END
    )


class Unsafe(Later):
    """The second phase: some partitions have taken their records, but may not acknowledge them yet."""

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
        self._call = call._replace(topics=[])  # the records are in the log, and their frame is gone
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
    if not failures or not _in_detail(request.version, failures):
        return encode_produce(request.version, results)
    from moldau.wire.messages import produce as messages

    responses = []
    leaders: list[Leader] = []
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
                leader = present_leader(request.broker, topic, answer.partition)
                if leader is not None:
                    leaders.append(leader)
                    partition.current_leader = messages.ProduceResponseCurrentLeader(
                        leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
                    )
            partitions.append(partition)
        response = messages.ProduceResponseTopic(partition_responses=partitions)
        if isinstance(topic, bytes):
            response.topic_id = topic
        else:
            response.name = topic
        responses.append(response)
    endpoints = [
        messages.ProduceResponseNodeEndpoint(node_id=one.node_id, host=one.host, port=one.port, rack=one.rack)
        for one in addresses(request.broker, request.session.listener.name, leaders)
    ]
    return messages.ProduceResponse(responses=responses, node_endpoints=endpoints).encode(request.version)


def _in_detail(version: int, failures: Failures) -> bool:
    """Whether there is more to say than the codes, and the version has words for it."""
    if version >= LEADERS_FROM and any(error.code in MOVED for error in failures.values()):
        return True
    return version >= ERROR_TEXTS_FROM and any(error.message for error in failures.values())


def _close_for_failure(request: Request, failures: Failures) -> None:
    error = next(iter(failures.values()))
    request.broker.connections.complain(
        "produce with acks=0 failed, connection closed", request.session, f"{error.code.name} {error.message}".rstrip()
    )
    request.session.close()
