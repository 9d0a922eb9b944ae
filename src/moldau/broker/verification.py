"""Before a record of a transaction is written: is its partition part of that transaction?

A partition that has records of a transaction and was never made part of it would get no marker: its readers would
wait at the first of them for ever. So the first batch of a transaction in a partition is written only after the
coordinator has said yes; those that follow are known by the transaction that the log has open.

Where the coordinator is this broker, asking and writing are one step. Where it is another, the answer takes its time,
and the transaction may end meanwhile: a `Guard` notices the marker, and then the batch is not written.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from moldau.broker.enlisting import UNAVAILABLE, Verdict
from moldau.log.errors import LogError
from moldau.records import HEADER_SIZE
from moldau.replication.partition import Partition
from moldau.security import Operation, ResourceType
from moldau.transactions.transaction import Identity, TopicPartition
from moldau.wire.errors import ErrorCode

if TYPE_CHECKING:
    from moldau.broker.session import Request
    from moldau.broker.transactions import Transactions
    from moldau.wire.tuned.produce import ProduceCall

ADDS_FROM = 12
"""The version of Produce from which the broker makes partitions part of the transaction."""
ABORTABLE_FROM = 11

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


# -- what happens while an answer is on its way ------------------------------------------------------------------------


class Guard:
    """Stands while no marker of a producer has come into a partition."""

    __slots__ = ("stands", "users")

    def __init__(self) -> None:
        self.stands = True
        self.users = 0


class Guards:
    """The guards of this broker: as many as there are questions under way."""

    def __init__(self) -> None:
        self._guards: dict[tuple[str, int, int], Guard] = {}

    def take(self, topic: str, index: int, producer_id: int) -> Guard:
        """To be given back with `give`."""
        guard = self._guards.setdefault((topic, index, producer_id), Guard())
        guard.users += 1
        return guard

    def give(self, topic: str, index: int, producer_id: int, guard: Guard) -> None:
        guard.users -= 1
        if not guard.users and self._guards.get((topic, index, producer_id)) is guard:
            del self._guards[topic, index, producer_id]

    def marker_written(self, topic: str, index: int, producer_id: int) -> None:
        """What was said about the transaction before is not true of the next."""
        guard = self._guards.pop((topic, index, producer_id), None)
        if guard is not None:
            guard.stands = False


class Verification:
    """What has to be asked before a produce request can be carried out, and then the answer.

    The interleaving that guards are for: the coordinator says that the partition is part of the transaction; the
    transaction is ended, and its marker is written here; only now our turn comes. A batch written behind the marker
    would open a transaction that nobody knows of and nobody ends. (From transaction version 2 on the marker's epoch
    shuts such a batch out as well; producers before keep theirs.)
    """

    def __init__(
        self,
        transactions: Transactions,
        name: str,
        who: Identity,
        partitions: dict[TopicPartition, Partition],
        adds: bool,
        verdict: Verdict | None = None,
    ) -> None:
        self._adds = adds
        self._transactions = transactions
        self._name = name
        self._who = who
        self._partitions = partitions
        self._epochs = {key: one.leader_epoch for key, one in partitions.items()}
        self._guards = {key: transactions.guards.take(*key, who.producer_id) for key in partitions}
        self._verdict = verdict

    @property
    def settled(self) -> bool:
        return self._verdict is not None

    async def settle(self) -> None:
        """Returns when there is an answer, or none to be had."""
        self._verdict = await self._transactions.enlisting.enlist(
            self._name, self._who, tuple(self._partitions), adds=self._adds
        )

    def error_of(self, partition: Partition, identity: Identity) -> ErrorCode:
        key = (partition.topic, partition.index)
        if identity != self._who:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING  # a request has one producer
        if key not in self._partitions:
            # It was open when the request came. If it is not any more, its transaction was ended.
            return ErrorCode.NONE if is_open(partition, identity) else ErrorCode.NOT_COORDINATOR
        assert self._verdict is not None
        moved = self._partitions[key] is not partition or self._epochs[key] != partition.leader_epoch
        if moved or not self._guards[key].stands:
            return ErrorCode.NOT_COORDINATOR  # asked again, the answer may be another
        return self._verdict.of(key)

    def release(self) -> None:
        for key, guard in self._guards.items():
            self._transactions.guards.give(*key, self._who.producer_id, guard)


# -- Produce -----------------------------------------------------------------------------------------------------------


def begin_verification(request: Request, call: ProduceCall) -> Verification | None:
    """What has to be known, or waited for, before a produce request of a transaction can be carried out; nearly always
    nothing."""
    name = call.transactional_id
    if name is None or not call.acks:
        return None
    if not request.authorized(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
        return None
    transactions = request.broker.transactions
    local = transactions.coordinates(name)
    adds = request.version >= ADDS_FROM
    if not adds and (local or not request.broker.settings["transaction.partition.verification.enable"]):
        return None
    who, unknown = _unknown_partitions(request, call, local)
    if who is None:
        return None
    verdict = None
    if local:
        asked = transactions.add(name, who, frozenset(unknown))
        if asked.done() and asked.result() != ErrorCode.CONCURRENT_TRANSACTIONS:
            verdict = Verdict(asked.result(), dict.fromkeys(unknown, asked.result()))
    return Verification(transactions, name, who, unknown, adds, verdict)


def _unknown_partitions(
    request: Request, call: ProduceCall, local: bool
) -> tuple[Identity | None, dict[TopicPartition, Partition]]:
    """Who writes, and where to without being known there; nobody where there is no such partition."""
    broker = request.broker
    found: dict[TopicPartition, Partition] = {}
    who: Identity | None = None
    for topic, partitions in call.topics:
        for index, records in partitions:
            identity = transactional_producer(records)
            partition = None if identity is None else broker.replicas.find(topic, index)
            if identity is None or partition is None or partition.leader_error():
                continue
            if is_open(partition, identity) and (local or broker.transactions.enlisting.is_ordinary(identity)):
                continue
            if request.authorized(Operation.WRITE, ResourceType.TOPIC, partition.topic):
                who = who or identity  # a request has one producer; a batch of another one will not verify
                found[partition.topic, index] = partition
    return who, found


def check_transaction(
    request: Request, call: ProduceCall, partition: Partition, identity: Identity, verification: Verification | None
) -> None:
    """LogError where this batch must not be written."""
    name = call.transactional_id
    if name is None or not request.authorized(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
        raise LogError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "")
    if code := partition.leader_error():
        raise LogError(code, f"{partition.topic}-{partition.index} is not led here")  # nobody was asked about it
    transactions, version = request.broker.transactions, request.version
    local = transactions.coordinates(name)
    known = is_open(partition, identity) and (local or transactions.enlisting.is_ordinary(identity))
    if known and transactions.is_kept(name):
        raise LogError(ErrorCode.INVALID_PRODUCER_EPOCH, "the transaction is prepared, and somebody else ends it")
    if verification is not None:
        error = verification.error_of(partition, identity)
    elif known or (version < ADDS_FROM and not request.broker.settings["transaction.partition.verification.enable"]):
        return
    elif local:
        error = transactions.verify(name, identity, (partition.topic, partition.index))
    else:
        error = UNAVAILABLE.error  # the coordinator has just moved away from here; or acks=0, which cannot wait
    if error != ErrorCode.NONE:
        code = told_to_writer(error, abortable=version >= ABORTABLE_FROM, waits=version >= ADDS_FROM)
        raise LogError(code, f"{partition.topic}-{partition.index} is not part of the transaction ({error.name})")
