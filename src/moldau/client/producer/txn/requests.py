"""Requests of a transaction: each is sent to its coordinator, and repeated until there is an answer.

A request whose answer was lost may be repeated: the coordinator recognises the producer and the same operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any, Final, Protocol

from moldau.client.broker_errors import COORDINATOR_MOVED
from moldau.client.data_types import OffsetAndMetadata, TopicPartition
from moldau.client.errors import BrokerError, BrokerUnavailable, CommitFailed, MoldauError, TimedOut, error_for
from moldau.client.network import CoordinatorKind, Network
from moldau.client.producer.txn.errors import MEMBER_LEFT
from moldau.client.producer.txn.prepared import PreparedTransaction
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.message import Request
from moldau.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from moldau.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnRequestTopic
from moldau.wire.messages.end_txn import EndTxnRequest
from moldau.wire.messages.init_producer_id import InitProducerIdRequest
from moldau.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from moldau.wire.producer_identity import NO_IDENTITY, ProducerIdentity

FEATURE: Final = "transaction.version"

END_V2: Final = 5
OFFSETS_V2: Final = 5
PRODUCE_V2: Final = 12
"""The first request versions that mean version 2 of the protocol. A client of version 1 uses lower ones."""

ADD_PARTITIONS: Final = 3
"""The last version for clients; brokers use later ones between each other."""

INIT_TWO_PHASE: Final = 6
NO_TIMEOUT_MS: Final = 2**31 - 1


class GroupIdentity(Protocol):
    """A member of a group, as `Consumer.group_metadata()` returns it."""

    @property
    def group_id(self) -> str: ...
    @property
    def generation_id(self) -> int: ...
    @property
    def member_id(self) -> str: ...
    @property
    def group_instance_id(self) -> str | None: ...


class TransactionRequests:
    """The requests of one transactional id to its coordinators."""

    def __init__(self, network: Network, transactional_id: str) -> None:
        self._network = network
        self._id = transactional_id

    # -- requests to the transaction coordinator -------------------------------------------------------------------

    async def init(
        self, expected: ProducerIdentity, timeout_ms: int, two_phase: bool, keep_prepared: bool, deadline: float
    ) -> tuple[ProducerIdentity, ProducerIdentity, int]:
        """Return the producer's new identity, the identity of a kept prepared transaction, and the protocol version."""
        request = InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout_ms=NO_TIMEOUT_MS if two_phase else timeout_ms,
            producer_id=expected.producer_id,
            producer_epoch=expected.epoch,
            enable2_pc=two_phase,
            keep_prepared_txn=keep_prepared,
        )
        version = INIT_TWO_PHASE if two_phase or keep_prepared else None
        response = await self._ask(
            request, f"initialising transactions of {self._id!r}", deadline, version, version or 0
        )
        kept = ProducerIdentity(response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch)
        return (
            ProducerIdentity(response.producer_id, response.producer_epoch),
            kept if kept.known else NO_IDENTITY,
            await self.protocol_version(deadline),
        )

    async def protocol_version(self, deadline: float) -> int:
        """Return 2 if the cluster has finalized it and the coordinator serves the request versions, otherwise 1."""
        node = await self._network.coordinator(CoordinatorKind.TRANSACTION, self._id, deadline)
        connection = await self._network.connection(node, deadline)
        if connection.finalized_features.get(FEATURE, 0) < 2:
            return 1
        needed = {ApiKey.END_TXN: END_V2, ApiKey.TXN_OFFSET_COMMIT: OFFSETS_V2, ApiKey.PRODUCE: PRODUCE_V2}
        return 2 if all(connection.versions.get(key, (0, 0))[1] >= least for key, least in needed.items()) else 1

    async def add_partitions(
        self, identity: ProducerIdentity, partitions: Iterable[TopicPartition], deadline: float
    ) -> None:
        """Version 1: add partitions, before their first records are sent."""
        listed = sorted(partitions)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnRequestTopic(name=topic, partitions=[one.partition for one in some])
                for topic, some in groupby(listed, key=lambda one: one.topic)
            ],
        )
        await self._ask(
            request,
            f"adding partitions to a transaction of {self._id!r}",
            deadline,
            ADD_PARTITIONS,
            read=partition_errors,
        )

    async def add_offsets(self, identity: ProducerIdentity, group_id: str, deadline: float) -> None:
        """Version 1: add the group, before its first offsets are sent."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self._id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            group_id=group_id,
        )
        await self._ask(request, f"adding group {group_id!r} to a transaction of {self._id!r}", deadline)

    async def end(self, identity: ProducerIdentity, commit: bool, version: int, deadline: float) -> ProducerIdentity:
        """Commit or abort. Return the producer's identity for the next transaction."""
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=commit,
        )
        what = f"{'committing' if commit else 'aborting'} a transaction of {self._id!r}"
        if version < 2:
            await self._ask(request, what, deadline, END_V2 - 1)
            return identity
        response = await self._ask(request, what, deadline, min_version=END_V2)
        after = ProducerIdentity(response.producer_id, response.producer_epoch)
        return after if after.known else identity

    # -- requests to the group coordinator -------------------------------------------------------------------------

    async def commit_offsets(
        self,
        identity: ProducerIdentity,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: GroupIdentity,
        version: int,
        deadline: float,
    ) -> None:
        """Store offsets that become valid when the transaction commits."""
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=group.group_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=[
                TxnOffsetCommitRequestTopic(name=topic, partitions=[_offset(one, offsets[one]) for one in some])
                for topic, some in groupby(sorted(offsets), key=lambda one: one.topic)
            ],
        )
        most, least = (None, OFFSETS_V2) if version >= 2 else (OFFSETS_V2 - 1, 3)
        what = f"committing offsets of group {group.group_id!r} in a transaction of {self._id!r}"
        await self._ask(
            request, what, deadline, most, least, kind=CoordinatorKind.GROUP, key=group.group_id, read=offset_errors
        )

    # -- sending ---------------------------------------------------------------------------------------------------

    async def _ask(
        self,
        request: Request,
        what: str,
        deadline: float,
        max_version: int | None = None,
        min_version: int = 0,
        *,
        kind: CoordinatorKind = CoordinatorKind.TRANSACTION,
        key: str | None = None,
        read: Callable[[Any], Iterable[tuple[int, str]]] | None = None,
    ) -> Any:
        network = self._network
        name = self._id if key is None else key

        async def attempt() -> Any:
            node = await network.coordinator(kind, name, deadline)
            try:
                response = await network.call(
                    node, request, deadline=deadline, max_version=max_version, min_version=min_version, what=what
                )
                found = [(response.error_code, "")] if read is None else read(response)
                raise_worst(found, what)
            except (BrokerUnavailable, TimedOut):
                network.coordinator_gone(kind, name)
                raise
            except BrokerError as error:
                if error.code in COORDINATOR_MOVED:
                    network.coordinator_gone(kind, name)
                raise
            return response

        return await network.retrying(attempt, deadline=deadline, what=what)


def _offset(partition: TopicPartition, offset: OffsetAndMetadata) -> TxnOffsetCommitRequestPartition:
    return TxnOffsetCommitRequestPartition(
        partition_index=partition.partition,
        committed_offset=offset.offset,
        committed_leader_epoch=-1 if offset.leader_epoch is None else offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def partition_errors(response: Any) -> Iterable[tuple[int, str]]:
    """The error code and name of each partition in a response to AddPartitionsToTxn."""
    for topic in response.results_by_topic_v3_and_below:
        for one in topic.results_by_partition:
            yield one.partition_error_code, f"partition {one.partition_index} of {topic.name!r}"


def offset_errors(response: Any) -> Iterable[tuple[int, str]]:
    """The error code and name of each partition in a response to TxnOffsetCommit."""
    for topic in response.topics:
        for one in topic.partitions:
            yield one.error_code, f"partition {one.partition_index} of {topic.name!r}"


def raise_worst(found: Iterable[tuple[int, str]], what: str) -> None:
    """Raise one of the errors of a response, preferably one that is not retriable."""
    worst: MoldauError | None = None
    for code, place in found:
        if code == ErrorCode.NONE:
            continue
        if code == ErrorCode.INVALID_PRODUCER_EPOCH:  # the older code for the same error
            code = ErrorCode.PRODUCER_FENCED
        error: MoldauError = error_for(code, f"{what}, {place}" if place else what)
        if code in MEMBER_LEFT:
            error = CommitFailed(f"{error}; {CommitFailed.SAYS}", ErrorCode.of(code))
        # OPERATION_NOT_ATTEMPTED only says that another partition has an error: that error is more useful.
        if (
            worst is None
            or code_of(worst) == ErrorCode.OPERATION_NOT_ATTEMPTED
            or (worst.retriable and not error.retriable and code != ErrorCode.OPERATION_NOT_ATTEMPTED)
        ):
            worst = error
    if worst is not None:
        raise worst


def code_of(error: MoldauError) -> ErrorCode | None:
    return error.code if isinstance(error, BrokerError) else None


async def end_prepared(network: Network, prepared: PreparedTransaction, commit: bool, deadline: float) -> None:
    """Commit or abort a prepared transaction of any producer. May be repeated.

    Raises ProducerFenced or InvalidProducerIdMapping if another producer has used the transactional id since, or the
    transaction was aborted because of its age. Raises InvalidTxnState if it was ended with the other outcome.
    """
    if prepared.empty:
        return
    requests = TransactionRequests(network, prepared.transactional_id)
    identity = ProducerIdentity(prepared.producer_id, prepared.epoch)

    async def attempt() -> None:
        version = await requests.protocol_version(deadline)
        await requests.end(identity, commit, version, deadline)

    await network.retrying(attempt, deadline=deadline, what=f"ending the prepared transaction {prepared}")
