"""Before a record of a transaction is written: is its partition part of that transaction?

A partition that has records of a transaction and was never made part of it would get no marker: its readers would
wait at the first of them for ever. So the first batch of a transaction in a partition is written only after the
coordinator has said yes; those that follow are known by the transaction that the log has open.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from moldau.log.errors import LogError
from moldau.records import HEADER_SIZE
from moldau.replication.partition import Partition
from moldau.security import Operation, ResourceType
from moldau.transactions.events import AddPartitions
from moldau.transactions.transaction import Identity, TopicPartition
from moldau.wire.errors import ErrorCode

if TYPE_CHECKING:
    from moldau.broker.session import Request
    from moldau.wire.tuned.produce import ProduceCall

ADDS_FROM = 12
"""The version of Produce from which the broker makes partitions part of the transaction."""
ABORTABLE_FROM = 11
CLIENT_VERSION = 2

ATTRIBUTES = 22
TRANSACTIONAL = 0x10
_PRODUCER = Struct(">qh")
_PRODUCER_AT = 43

_COMES_BACK = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def told_to_writer(error: ErrorCode, *, abortable: bool, waits: bool) -> ErrorCode:
    """What somebody who writes hears where the coordinator answered `error`: clients of each time retry, abort or give
    up on different codes. `abortable`: it knows TRANSACTION_ABORTABLE; `waits`: it knows that the transaction before
    may still be ending."""
    if error == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error == ErrorCode.TRANSACTION_ABORTABLE and not abortable:
        return ErrorCode.INVALID_TXN_STATE
    if error in _COMES_BACK and not (waits and error == ErrorCode.CONCURRENT_TRANSACTIONS):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return error


def transactional_producer(records: memoryview | None) -> Identity | None:
    """Who wrote a batch that is part of a transaction; None for any other, and for what is no batch."""
    if records is None or len(records) < HEADER_SIZE or not records[ATTRIBUTES] & TRANSACTIONAL:
        return None
    return Identity(*_PRODUCER.unpack_from(records, _PRODUCER_AT))


def is_open(partition: Partition, identity: Identity) -> bool:
    """Whether the log has this producer's transaction open, and so knows it to be known."""
    producer = partition.log.producers.producers.get(identity.producer_id)
    return producer is not None and producer.transaction_start >= 0 and producer.epoch == identity.epoch


def check_transaction(request: Request, call: ProduceCall, partition: Partition, identity: Identity) -> None:
    """LogError where this batch must not be written."""
    name = call.transactional_id
    if name is None or not request.authorized(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
        raise LogError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "")
    broker, version = request.broker, request.version
    if is_open(partition, identity):
        if broker.transactions.is_kept(name):
            raise LogError(ErrorCode.INVALID_PRODUCER_EPOCH, "the transaction is prepared, and somebody else ends it")
        return
    if version < ADDS_FROM and not broker.settings["transaction.partition.verification.enable"]:
        return
    error = broker.transactions.verify(name, identity, (partition.topic, partition.index))
    if error != ErrorCode.NONE:
        code = told_to_writer(error, abortable=version >= ABORTABLE_FROM, waits=version >= ADDS_FROM)
        raise LogError(code, f"{partition.topic}-{partition.index} is not part of the transaction ({error.name})")


def begin_adding(request: Request, call: ProduceCall) -> tuple[str, Identity, frozenset[TopicPartition]] | None:
    """Has the coordinator add the partitions of a produce request that its transaction does not know yet.

    None where there is nothing to wait for, as nearly always; else what to wait for. How it went, `check_transaction`
    finds out.
    """
    name, missing = call.transactional_id, _unknown_partitions(request, call)
    if name is None or missing is None or not call.acks:
        return None
    asked = request.broker.transactions.ask(name, lambda ticket: AddPartitions(ticket, name, *missing, CLIENT_VERSION))
    if asked.done() and asked.result() != ErrorCode.CONCURRENT_TRANSACTIONS:
        return None
    return name, *missing


def _unknown_partitions(request: Request, call: ProduceCall) -> tuple[Identity, frozenset[TopicPartition]] | None:
    name = call.transactional_id
    if name is None or not request.authorized(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
        return None
    found: set[TopicPartition] = set()
    who: Identity | None = None
    for topic, partitions in call.topics:
        for index, records in partitions:
            identity = transactional_producer(records)
            partition = None if identity is None else request.broker.replicas.find(topic, index)
            if identity is None or partition is None or is_open(partition, identity):
                continue
            if request.authorized(Operation.WRITE, ResourceType.TOPIC, partition.topic):
                who = who or identity  # a request has one producer; a batch of another one will not verify
                found.add((partition.topic, index))
    return None if who is None else (who, frozenset(found))
