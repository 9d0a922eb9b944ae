"""Producers and transactions: who writes to a partition, what is open, and how to end what nobody else will end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from moldau.client.admin.calls import Brokers, Calls, Coordinators, Leaders, Route, bounded
from moldau.client.admin.offsets import by_topic
from moldau.client.admin.outcome import Answers, checked, judged, listed, settled
from moldau.client.errors import TransactionalIdNotFound
from moldau.client.model import TopicPartition
from moldau.client.network import CoordinatorKind
from moldau.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersRequestTopic,
    DescribeProducersResponse,
)
from moldau.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from moldau.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from moldau.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from moldau.wire.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
    WriteTxnMarkersResponse,
)

NO_TIME = -1
FENCING_TIMEOUT_MS = 1
"""The transaction time-out of a producer that comes only to push another out: it opens no transaction."""


@dataclass(frozen=True)
class ProducerState:
    """What the leader of a partition knows of one producer that writes to it."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int | None
    transaction_start_offset: int | None
    """Where its open transaction began in this partition; None where none is open."""


@dataclass(frozen=True)
class TransactionListing:
    """A transactional id, and who uses it now."""

    id: str
    producer_id: int
    state: str
    """As Kafka names it: `Empty`, `Ongoing`, `PrepareCommit`, `CompleteAbort` …"""
    coordinator: int


@dataclass(frozen=True)
class TransactionDescription:
    """What the coordinator knows of a transactional id, and of its transaction where one is open."""

    id: str
    coordinator: int | None
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    partitions: tuple[TopicPartition, ...]


class AbortSpec(NamedTuple):
    """A transaction as a partition knows it: enough to abort it there, past its coordinator."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


# What is sent, and what the answers mean ------------------------------------------------------------------------------


def producers_request(partitions: Iterable[TopicPartition]) -> DescribeProducersRequest:
    return DescribeProducersRequest(
        topics=by_topic(
            partitions,
            lambda topic, some: DescribeProducersRequestTopic(
                name=topic, partition_indexes=[one.partition for one in some]
            ),
        )
    )


def read_producers(response: DescribeProducersResponse) -> Answers[TopicPartition, tuple[ProducerState, ...]]:
    answers: Answers[TopicPartition, tuple[ProducerState, ...]] = {}
    for topic in response.topics:
        for one in topic.partitions:
            partition = TopicPartition(topic.name, one.partition_index)
            error = judged(one.error_code, f"describing the producers of {partition}", one.error_message)
            answers[partition] = error or tuple(
                ProducerState(
                    producer.producer_id,
                    producer.producer_epoch,
                    producer.last_sequence,
                    producer.last_timestamp,
                    None if producer.coordinator_epoch < 0 else producer.coordinator_epoch,
                    None if producer.current_txn_start_offset < 0 else producer.current_txn_start_offset,
                )
                for producer in one.active_producers
            )
    return answers


def read_listing(response: ListTransactionsResponse, node: int) -> list[TransactionListing]:
    checked(response.error_code, f"listing the transactions of broker {node}")
    return [
        TransactionListing(one.transactional_id, one.producer_id, one.transaction_state, node)
        for one in response.transaction_states
    ]


def read_transactions(response: DescribeTransactionsResponse) -> Answers[str, TransactionDescription]:
    return {
        one.transactional_id: judged(one.error_code, f"describing transactional id '{one.transactional_id}'")
        or TransactionDescription(
            one.transactional_id,
            None,
            one.transaction_state,
            one.producer_id,
            one.producer_epoch,
            one.transaction_timeout_ms,
            None if one.transaction_start_time_ms == NO_TIME else one.transaction_start_time_ms,
            tuple(sorted(TopicPartition(topic.topic, index) for topic in one.topics for index in topic.partitions)),
        )
        for one in response.transaction_states
    }


def abort_request(spec: AbortSpec) -> WriteTxnMarkersRequest:
    topic, partition = spec.partition
    marker = WriteTxnMarkersRequestMarker(
        producer_id=spec.producer_id,
        producer_epoch=spec.producer_epoch,
        transaction_result=False,
        topics=[WriteTxnMarkersRequestTopic(name=topic, partition_indexes=[partition])],
        coordinator_epoch=spec.coordinator_epoch,
    )
    return WriteTxnMarkersRequest(markers=[marker])


def read_aborted(response: WriteTxnMarkersResponse) -> Answers[TopicPartition, None]:
    return {
        TopicPartition(topic.name, one.partition_index): judged(
            one.error_code, f"aborting the transaction of producer {marker.producer_id} in {topic.name}"
        )
        for marker in response.markers
        for topic in marker.topics
        for one in topic.partitions
    }


class OpenTransaction(NamedTuple):
    """A transaction that holds back a partition's readers."""

    partition: TopicPartition
    producer: ProducerState


def open_longer_than(
    producers: Mapping[TopicPartition, Sequence[ProducerState]], now_ms: int, max_ms: int
) -> list[OpenTransaction]:
    """Transactions that were not written to for longer than any transaction may be open: candidates for hanging."""
    return [
        OpenTransaction(partition, one)
        for partition, of_partition in producers.items()
        for one in of_partition
        if one.transaction_start_offset is not None and now_ms - one.last_timestamp > max_ms
    ]


def hanging(
    candidates: Iterable[OpenTransaction], transactions: Mapping[int, TransactionDescription]
) -> list[OpenTransaction]:
    """Those candidates that no coordinator is going to end.

    `transactions` has what coordinators know, by producer id. Where one still counts the partition as part of the
    producer's open transaction, its time-out will end it; where none does, nobody will.
    """
    return [
        one
        for one in candidates
        if (known := transactions.get(one.producer.producer_id)) is None or one.partition not in known.partitions
    ]


# The calls ------------------------------------------------------------------------------------------------------------


class TransactionCalls(Calls):
    """The admin's calls about producers and transactions."""

    async def describe_producers(
        self,
        partitions: TopicPartition | Iterable[TopicPartition],
        *,
        broker: int | None = None,
        timeout: float | None = None,
    ) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        """The producers that each partition knows, as its leader, or a broker that has a copy, sees them."""
        route: Route[TopicPartition] = Leaders(self) if broker is None else Brokers(lambda _partition: broker)
        return settled(
            await self._each(
                listed(partitions, TopicPartition),
                route,
                producers_request,
                lambda response, _some: read_producers(response),
                deadline=self._deadline(timeout),
                what="describing the producers of",
            )
        )

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int | None = None,
        id_pattern: str | None = None,
        timeout: float | None = None,
    ) -> list[TransactionListing]:
        """Every transactional id that coordinators know, by id; only those that meet every condition that is given."""
        deadline = self._deadline(timeout)
        request = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=-1 if longer_than_ms is None else longer_than_ms,
            transactional_id_pattern=id_pattern,
        )
        answers = await bounded(
            [
                partial(
                    self._once,
                    node,
                    request,
                    partial(read_listing, node=node),
                    deadline=deadline,
                    what=f"listing the transactions of broker {node}",
                    min_version=2 if id_pattern is not None else 1 if longer_than_ms is not None else 0,
                )
                for node in await self._nodes(deadline)
            ]
        )
        return sorted((one for listings in answers for one in listings), key=lambda one: one.id)

    async def describe_transactions(
        self, transactional_ids: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TransactionDescription]:
        """The state of transactional ids, and the partitions of their open transactions."""
        return settled(await self._described_transactions(listed(transactional_ids), self._deadline(timeout)))

    async def _described_transactions(
        self, ids: Sequence[str], deadline: float
    ) -> Answers[str, TransactionDescription]:
        route = Coordinators[str](await self._ready(), CoordinatorKind.TRANSACTION)
        found: Answers[str, TransactionDescription] = await self._each(
            ids,
            route,
            lambda some: DescribeTransactionsRequest(transactional_ids=some),
            lambda response, _some: read_transactions(response),
            deadline=deadline,
            what="describing transactional id",
        )
        coordinators = await route.targets(ids, deadline)
        for name, answer in found.items():
            node = coordinators[name]
            if isinstance(answer, TransactionDescription) and isinstance(node, int):
                found[name] = replace(answer, coordinator=node)
        return found

    async def abort_transaction(self, spec: AbortSpec, *, timeout: float | None = None) -> None:
        """End a hanging transaction in one partition by a marker, past the coordinator.

        Only for transactions that `find_hanging_transactions` found: done to a living one it takes apart what should
        have been one. `terminate_transaction` is for those.
        """
        settled(
            await self._each(
                [spec.partition],
                Leaders(self),
                lambda _some: abort_request(spec),
                lambda response, _some: read_aborted(response),
                deadline=self._deadline(timeout),
                what="aborting the transaction in",
            )
        )

    async def terminate_transaction(self, transactional_id: str, *, timeout: float | None = None) -> None:
        """Abort the open transaction of a transactional id and fence its producer: what a new producer of it does."""
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=FENCING_TIMEOUT_MS)
        await self._to_coordinator(
            transactional_id,
            request,
            what=f"terminating the transaction of '{transactional_id}'",
            timeout=timeout,
        )

    async def complete_transaction(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        timeout: float | None = None,
    ) -> None:
        """Commit or abort the transaction that a producer prepared, from another process than the producer's.

        The id and epoch are what the producer was told when it prepared: with any other the coordinator refuses.
        """
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            committed=commit,
        )
        await self._to_coordinator(
            transactional_id,
            request,
            what=f"{'committing' if commit else 'aborting'} the transaction of '{transactional_id}'",
            timeout=timeout,
        )

    async def _to_coordinator(
        self, transactional_id: str, request: EndTxnRequest | InitProducerIdRequest, *, what: str, timeout: float | None
    ) -> None:
        def read(response: EndTxnResponse | InitProducerIdResponse, ids: list[str]) -> Answers[str, None]:
            return {ids[0]: judged(response.error_code, what)}

        route = Coordinators[str](await self._ready(), CoordinatorKind.TRANSACTION)
        deadline = self._deadline(timeout)
        settled(await self._each([transactional_id], route, lambda _ids: request, read, deadline=deadline, what=what))

    async def find_hanging_transactions(
        self,
        partitions: Iterable[TopicPartition],
        *,
        longer_than_ms: int,
        broker: int | None = None,
        timeout: float | None = None,
    ) -> list[OpenTransaction]:
        """Open transactions of these partitions that no coordinator is going to end.

        `longer_than_ms` is what the brokers allow a transaction to be open at most (transaction.max.timeout.ms), and a
        little more.
        """
        deadline = self._deadline(timeout)
        producers = await self.describe_producers(partitions, broker=broker, timeout=self._left(deadline))
        candidates = open_longer_than(producers, self._clock.now_ms(), longer_than_ms)
        if not candidates:
            return []
        ids = sorted({one.producer.producer_id for one in candidates})
        listings = await self.list_transactions(producer_ids=ids, timeout=self._left(deadline))
        described = await self._described_transactions([one.id for one in listings], deadline)
        known: dict[int, TransactionDescription] = {}
        for answer in described.values():
            if isinstance(answer, TransactionDescription):
                known[answer.producer_id] = answer
            elif not isinstance(answer, TransactionalIdNotFound):  # it may have expired since it was listed
                raise answer
        return hanging(candidates, known)
