"""Transaction verification: checks that a partition is part of a transaction before its records are written.

A partition that is not part of the transaction would get no marker. Its readers with isolation level read_committed
would wait at the first record of the transaction for ever. So the first batch of a transaction in a partition is
written only after the coordinator has confirmed the partition. Later batches need no question: the log has the
transaction open.

If this broker is the coordinator, verifying and writing are one step. If another broker is, the answer takes time and
the transaction may end meanwhile. `marker_watches` notices the marker, and the batch is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.broker.txn.txn_partition_adder import UNAVAILABLE, AddPartitionsResult
from moldau.log.errors import LogError
from moldau.records.batch_layout import FLAGS_AT, HEADER_SIZE, PRODUCER, PRODUCER_AT, TRANSACTIONAL_BIT
from moldau.replication.manager import ReplicaManager
from moldau.replication.partition import Partition
from moldau.security import Operation, ResourceType
from moldau.settings import BrokerSettings
from moldau.wire.errors import ErrorCode
from moldau.wire.number_types import ProducerId
from moldau.wire.producer_identity import ProducerIdentity
from moldau.wire.topic_partition import TopicPartition

if TYPE_CHECKING:
    from moldau.broker.connection.session import Request
    from moldau.broker.coordinators.txn_coordinator import TxnCoordinator
    from moldau.wire.tuned.produce import ProduceCall

ADDS_FROM = 12
"""The version of Produce from which the broker adds partitions to the transaction."""
ABORTABLE_FROM = 11
"""The version of Produce from which clients know TRANSACTION_ABORTABLE."""

_RETRIABLE = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def writer_error(error: ErrorCode, *, abortable: bool, waits: bool) -> ErrorCode:
    """The error for a client that writes, if the coordinator has answered `error`.

    Client versions differ in the codes on which they retry, abort or give up. `abortable`: the client knows
    TRANSACTION_ABORTABLE. `waits`: it knows CONCURRENT_TRANSACTIONS, sent while the previous transaction still ends.
    """
    if error == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error == ErrorCode.TRANSACTION_ABORTABLE and not abortable:
        return ErrorCode.INVALID_TXN_STATE
    if error in _RETRIABLE and not (waits and error == ErrorCode.CONCURRENT_TRANSACTIONS):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return error


def transactional_producer(records: memoryview | None) -> ProducerIdentity | None:
    """The producer of a transactional batch; None for other batches, and for bytes that are no batch."""
    if records is None or len(records) < HEADER_SIZE or not records[FLAGS_AT] & TRANSACTIONAL_BIT:
        return None
    return ProducerIdentity(*PRODUCER.unpack_from(records, PRODUCER_AT))


def is_open(partition: Partition, identity: ProducerIdentity) -> bool:
    """Whether the log has a transaction of this producer open. Then the partition was verified before."""
    producer = partition.log.producers.producers.get(ProducerId(identity.producer_id))
    return producer is not None and producer.transaction_start >= 0 and producer.epoch == identity.epoch


class Verification:
    """The verification of one produce request: the question to the coordinator, and then its answer.

    `marker_watches` describes the interleaving with the end of the transaction. (From transaction version 2 on, the
    epoch of the marker also fences such a batch. Earlier producers keep their epoch.)
    """

    def __init__(
        self,
        coordinator: TxnCoordinator,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: dict[TopicPartition, Partition],
        adds: bool,
        result: AddPartitionsResult | None = None,
    ) -> None:
        self._adds = adds
        self._coordinator = coordinator
        self._transactional_id = transactional_id
        self._producer = producer
        self._partitions = partitions
        self._epochs = {key: one.leader_epoch for key, one in partitions.items()}
        self._watches = {key: coordinator.marker_watches.begin(*key, producer.producer_id) for key in partitions}
        self._result = result

    @property
    def settled(self) -> bool:
        return self._result is not None

    async def settle(self) -> None:
        """Wait for the coordinator's answer, or for the error that replaces it."""
        self._result = await self._coordinator.partition_adder.add_or_verify(
            self._transactional_id, self._producer, tuple(self._partitions), adds=self._adds
        )

    def error_of(self, partition: Partition, identity: ProducerIdentity) -> ErrorCode:
        key = (partition.topic, partition.index)
        if identity != self._producer:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING  # all batches of a request have the same producer
        if key not in self._partitions:
            # The transaction was open in this partition when the request arrived. If it is not open now, it has ended.
            return ErrorCode.NONE if is_open(partition, identity) else ErrorCode.NOT_COORDINATOR
        assert self._result is not None
        moved = self._partitions[key] is not partition or self._epochs[key] != partition.leader_epoch
        if moved or self._watches[key].marker_written:
            return ErrorCode.NOT_COORDINATOR  # the answer may be outdated: the client retries and we ask again
        return self._result.of(key)

    def release(self) -> None:
        for key, watch in self._watches.items():
            self._coordinator.marker_watches.end(*key, self._producer.producer_id, watch)


class ProduceVerifier:
    """Verifies the transactional batches of Produce requests."""

    def __init__(
        self, coordinator: TxnCoordinator, replicas: ReplicaManager, settings: Callable[[], BrokerSettings]
    ) -> None:
        self._coordinator = coordinator
        self._replicas = replicas
        self._settings = settings

    def begin(self, request: Request, call: ProduceCall) -> Verification | None:
        """Begin the verification of a request. None if there is nothing to verify, which is the usual case."""
        name = call.transactional_id
        if name is None or not call.acks:
            return None
        if not request.authorized(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
            return None
        coordinator = self._coordinator
        local = coordinator.coordinates(name)
        adds = request.version >= ADDS_FROM
        if not adds and (local or not self._verifies()):
            return None
        producer, unverified = self._unverified_partitions(request, call, local)
        if producer is None:
            return None
        result = None
        if local:
            added = coordinator.add(name, producer, frozenset(unverified))
            if added.done() and added.result() != ErrorCode.CONCURRENT_TRANSACTIONS:
                result = AddPartitionsResult(added.result(), dict.fromkeys(unverified, added.result()))
        return Verification(coordinator, name, producer, unverified, adds, result)

    def check(
        self,
        request: Request,
        call: ProduceCall,
        partition: Partition,
        identity: ProducerIdentity,
        verification: Verification | None,
    ) -> None:
        """Raise LogError if this batch must not be written."""
        name = call.transactional_id
        if name is None or not request.authorized(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
            raise LogError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "")
        if code := partition.leader_error():
            # `begin` has skipped such a partition.
            raise LogError(code, f"{partition.topic}-{partition.index} is not led here")
        coordinator, version = self._coordinator, request.version
        local = coordinator.coordinates(name)
        known = is_open(partition, identity) and (local or coordinator.partition_adder.is_one_phase(identity))
        if known and coordinator.is_kept(name):
            raise LogError(
                ErrorCode.INVALID_PRODUCER_EPOCH, "the transaction is prepared, and another producer will end it"
            )
        if verification is not None:
            error = verification.error_of(partition, identity)
        elif known or (version < ADDS_FROM and not self._verifies()):
            return
        elif local:
            error = coordinator.verify(name, identity, TopicPartition(partition.topic, partition.index))
        else:
            error = UNAVAILABLE.error  # the coordinator has just moved to another broker; or acks=0, which cannot wait
        if error != ErrorCode.NONE:
            code = writer_error(error, abortable=version >= ABORTABLE_FROM, waits=version >= ADDS_FROM)
            raise LogError(code, f"{partition.topic}-{partition.index} is not part of the transaction ({error.name})")

    def _verifies(self) -> bool:
        enabled: bool = self._settings()["transaction.partition.verification.enable"]
        return enabled

    def _unverified_partitions(
        self, request: Request, call: ProduceCall, local: bool
    ) -> tuple[ProducerIdentity | None, dict[TopicPartition, Partition]]:
        """The producer, and the partitions for which the coordinator must be asked. The producer is None if there are
        none."""
        found: dict[TopicPartition, Partition] = {}
        producer: ProducerIdentity | None = None
        for topic, partitions in call.topics:
            for index, records in partitions:
                identity = transactional_producer(records)
                partition = None if identity is None else self._replicas.find(topic, index)
                if identity is None or partition is None or partition.leader_error():
                    continue
                if is_open(partition, identity) and (local or self._coordinator.partition_adder.is_one_phase(identity)):
                    continue
                if request.authorized(Operation.WRITE, ResourceType.TOPIC, partition.topic):
                    producer = producer or identity  # a batch of a second producer is refused by `error_of`
                    found[TopicPartition(partition.topic, index)] = partition
        return producer, found
