"""Transaction requests over a raw connection: one function per request."""

from __future__ import annotations

from typing import Any, NamedTuple

from moldau.wire.errors import ErrorCode
from moldau.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnRequestTransaction,
)
from moldau.wire.messages.end_txn import EndTxnRequest
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest
from moldau.wire.messages.init_producer_id import InitProducerIdRequest
from moldau.wire.producer_identity import NO_IDENTITY, ProducerIdentity
from tests.compat import wire
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until

TRANSACTION_KEY = 1
READ_COMMITTED = 1

RETRIABLE = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


class Answer(NamedTuple):
    error: ErrorCode
    identity: ProducerIdentity = NO_IDENTITY


def find_coordinator(connection: RawConnection, name: str) -> None:
    request = FindCoordinatorRequest(key=name, key_type=TRANSACTION_KEY)
    wait_until(lambda: wire.ask(connection, request, 3).error_code == 0)


def init(
    connection: RawConnection,
    name: str | None,
    *,
    expected: ProducerIdentity = NO_IDENTITY,
    timeout_ms: int = 60_000,
    version: int = 5,
    **options: Any,
) -> Answer:
    """Send one InitProducerId request."""
    response = wire.ask(
        connection,
        InitProducerIdRequest(
            transactional_id=name,
            transaction_timeout_ms=timeout_ms,
            producer_id=expected.producer_id,
            producer_epoch=expected.epoch,
            **options,
        ),
        version,
    )
    return Answer(ErrorCode(response.error_code), ProducerIdentity(response.producer_id, response.producer_epoch))


def producer(connection: RawConnection, name: str, **options: Any) -> ProducerIdentity:
    """Initialise a producer, and retry while an earlier transaction of this id is being ended."""
    find_coordinator(connection, name)
    answer: Answer = wait_until(
        lambda: None if (found := init(connection, name, **options)).error in RETRIABLE else found
    )
    assert answer.error == ErrorCode.NONE, answer
    return answer.identity


def add_each(
    connection: RawConnection,
    name: str,
    identity: ProducerIdentity,
    topic: str,
    partitions: list[int],
    *,
    version: int = 3,
) -> list[ErrorCode]:
    """The error code for each partition."""
    topics = [AddPartitionsToTxnRequestTopic(name=topic, partitions=partitions)]
    response = wire.ask(
        connection,
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=topics,
        ),
        version,
    )
    (result,) = response.results_by_topic_v3_and_below
    by_index = {one.partition_index: one.partition_error_code for one in result.results_by_partition}
    return [ErrorCode(by_index[index]) for index in partitions]


def add(connection: RawConnection, name: str, identity: ProducerIdentity, topic: str, *, version: int = 3) -> ErrorCode:
    """Add partition 0 to the transaction."""
    (error,) = add_each(connection, name, identity, topic, [0], version=version)
    return error


def verify(
    connection: RawConnection,
    name: str,
    identity: ProducerIdentity,
    topic: str,
    partition: int,
    *,
    version: int = 5,
    verify_only: bool = True,
) -> ErrorCode:
    """Verify or add partitions, as a broker does."""
    one = AddPartitionsToTxnRequestTransaction(
        transactional_id=name,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        verify_only=verify_only,
        topics=[AddPartitionsToTxnRequestTopic(name=topic, partitions=[partition])],
    )
    response = wire.ask(connection, AddPartitionsToTxnRequest(transactions=[one]), version)
    assert response.error_code == 0
    ((result,),) = [found.topic_results for found in response.results_by_transaction]
    (answer,) = result.results_by_partition
    return ErrorCode(answer.partition_error_code)


def end(connection: RawConnection, name: str, identity: ProducerIdentity, commit: bool, *, version: int) -> Answer:
    """Send one EndTxn request."""
    response = wire.ask(
        connection,
        EndTxnRequest(
            transactional_id=name,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=commit,
        ),
        version,
    )
    return Answer(ErrorCode(response.error_code), ProducerIdentity(response.producer_id, response.producer_epoch))


def write(
    connection: RawConnection,
    name: str | None,
    identity: ProducerIdentity,
    topic: str,
    *values: bytes,
    sequence: int = 0,
    partition: int = 0,
    version: int = 11,
) -> ErrorCode:
    """Write a batch of the transaction, and retry on retriable errors."""
    batch = wire.batch_of(
        *values,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        base_sequence=sequence,
        transactional=True,
    )

    def attempt() -> ErrorCode | None:
        request = wire.produce_request(topic, [(partition, batch)])
        request.transactional_id = name
        ((answer,),) = [one.partition_responses for one in wire.ask(connection, request, version).responses]
        error = ErrorCode(answer.error_code)
        return None if error in (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CONCURRENT_TRANSACTIONS) else Outcome(error)

    outcome: Outcome = wait_until(attempt)
    return outcome.error


class Outcome:
    """An error code that is true also for NONE, as `wait_until` needs it."""

    def __init__(self, error: ErrorCode) -> None:
        self.error = error


def committed_values(connection: RawConnection, topic: str) -> list[bytes | None]:
    """The values of partition 0 that a read_committed consumer returns; it skips aborted records as a client must."""
    answer = wire.fetch_one(connection, topic, isolation_level=READ_COMMITTED)
    aborted = {(one.producer_id, one.first_offset) for one in answer.aborted_transactions or ()}
    values: list[bytes | None] = []
    open_aborted: set[int] = set()
    for header, batch in wire.batches_in(answer.records):
        begun = {one for one in aborted if one[1] <= header.last_offset}
        open_aborted |= {producer for producer, _ in begun}
        aborted -= begun
        if header.is_control:
            open_aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in open_aborted):
            values += [record.value for record in wire.records_in(batch)]
    return values
