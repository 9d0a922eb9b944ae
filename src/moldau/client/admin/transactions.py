"""Transaction calls of the admin client: producers of a partition, open transactions, and ways to end them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from moldau.client import arguments
from moldau.client.admin.calls import BrokerRoute, Brokers, Calls, Coordinators, Leaders, bounded
from moldau.client.admin.outcome import Answers, checked, judged, settled
from moldau.client.admin.topics import broker_id
from moldau.client.data_types import TopicPartition
from moldau.client.errors import TransactionalIdNotFound
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
from moldau.wire.topic_partition import by_topic

NO_TIME = -1
MAX_EPOCH = (1 << 15) - 1
FENCING_TIMEOUT_MS = 1
"""The transaction timeout for an InitProducerId that only fences a producer and opens no transaction."""


@dataclass(frozen=True)
class ProducerState:
    """The state of one producer in a partition, as the leader has it."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int | None
    transaction_start_offset: int | None
    """The first offset of its open transaction in this partition, or None if it has none."""


@dataclass(frozen=True)
class TransactionListing:
    """A transactional id in the result of `list_transactions`."""

    id: str
    producer_id: int
    state: str
    """Kafka's name of the state: `Empty`, `Ongoing`, `PrepareCommit`, `CompleteAbort` …"""
    coordinator: int


@dataclass(frozen=True)
class TransactionDescription:
    """A transactional id and its current transaction, as the coordinator has them."""

    id: str
    coordinator: int | None
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    partitions: tuple[TopicPartition, ...]


class AbortSpec(NamedTuple):
    """A transaction in one partition, for `abort_transaction`, which aborts it there without its coordinator."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


# -- requests and responses --------------------------------------------------------------------------------------------


def producers_request(partitions: Iterable[TopicPartition]) -> DescribeProducersRequest:
    return DescribeProducersRequest(
        topics=[
            DescribeProducersRequestTopic(name=topic, partition_indexes=indexes)
            for topic, indexes in by_topic(partitions).items()
        ]
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
    """An open transaction in a partition. Consumers with read_committed cannot read past its first record."""

    partition: TopicPartition
    producer: ProducerState


def open_longer_than(
    producers: Mapping[TopicPartition, Sequence[ProducerState]], now_ms: int, max_ms: int
) -> list[OpenTransaction]:
    """Return open transactions without a write for longer than `max_ms`: they may be hanging."""
    return [
        OpenTransaction(partition, one)
        for partition, of_partition in producers.items()
        for one in of_partition
        if one.transaction_start_offset is not None and now_ms - one.last_timestamp > max_ms
    ]


def hanging(
    candidates: Iterable[OpenTransaction], transactions: Mapping[int, TransactionDescription]
) -> list[OpenTransaction]:
    """Return the candidates that no coordinator will end.

    `transactions` has the descriptions of the coordinators, by producer id. If a coordinator has the partition in the
    producer's open transaction, it will abort it after the timeout. Otherwise the transaction is hanging.
    """
    return [
        one
        for one in candidates
        if (known := transactions.get(one.producer.producer_id)) is None or one.partition not in known.partitions
    ]


# -- calls -------------------------------------------------------------------------------------------------------------


class TransactionCalls(Calls):
    """Admin calls about producers and transactions."""

    async def describe_producers(
        self,
        partitions: TopicPartition | Iterable[TopicPartition],
        *,
        broker: int | None = None,
        timeout: float | None = None,
    ) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        """Return the active producers of each partition, from its leader or from the replica on `broker`."""
        node = None if broker is None else broker_id("broker", broker)
        route: BrokerRoute[TopicPartition] = Leaders(self) if node is None else Brokers(lambda _partition: node)
        return settled(
            await self._each(
                arguments.partitions("partitions", partitions),
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
        """Return the transactional ids of all coordinators, sorted by id.

        `states`, `producer_ids`, `longer_than_ms` (age of the transaction) and `id_pattern` (RE2 syntax) restrict the
        result; an id must meet all of them.
        """
        deadline = self._deadline(timeout)
        request = ListTransactionsRequest(
            state_filters=arguments.texts("states", states),
            producer_id_filters=arguments.several("producer_ids", producer_ids, arguments.number, "a list of ints"),
            duration_filter=-1 if longer_than_ms is None else arguments.number("longer_than_ms", longer_than_ms),
            transactional_id_pattern=None if id_pattern is None else arguments.text("id_pattern", id_pattern),
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
        """Return the state of transactional ids, and the partitions of their open transactions.

        Raises TransactionalIdNotFound if the cluster does not have an id.
        """
        return settled(
            await self._described_transactions(
                arguments.texts("transactional_ids", transactional_ids), self._deadline(timeout)
            )
        )

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
        """Write an abort marker for a hanging transaction into one partition, without its coordinator.

        Use it only for results of `find_hanging_transactions`. On an active transaction it would abort one partition
        while others may be committed; use `terminate_transaction` for those.
        """
        arguments.instance("spec", spec, AbortSpec, 'AbortSpec(TopicPartition("orders", 0), 17, 3, 0)')
        spec = spec._replace(partition=arguments.partition("partition of spec", spec.partition))
        arguments.number("producer_id of spec", spec.producer_id)
        arguments.number("producer_epoch of spec", spec.producer_epoch, -1, MAX_EPOCH)
        arguments.number("coordinator_epoch of spec", spec.coordinator_epoch, -1, arguments.MAX_INT32)
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
        """Abort the open transaction of a transactional id and fence its producer, as a new producer would do."""
        arguments.text("transactional_id", transactional_id)
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
        """Commit or abort a prepared transaction of a producer in another process.

        `producer_id` and `producer_epoch` are those of the PreparedTransaction that `prepare_transaction` returned; the
        coordinator refuses any others.
        """
        request = EndTxnRequest(
            transactional_id=arguments.text("transactional_id", transactional_id),
            producer_id=arguments.number("producer_id", producer_id),
            producer_epoch=arguments.number("producer_epoch", producer_epoch, -1, MAX_EPOCH),
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
        """Return the open transactions of these partitions that no coordinator will end.

        Give a little more than transaction.max.timeout.ms of the brokers as `longer_than_ms`.
        """
        deadline = self._deadline(timeout)
        arguments.number("longer_than_ms", longer_than_ms)
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
            elif not isinstance(answer, TransactionalIdNotFound):  # the id may have expired since `list_transactions`
                raise answer
        return hanging(candidates, known)
