"""Adding partitions to transactions: asks the transaction's coordinator, on this broker or on another one.

The coordinator either adds the partitions to the transaction or verifies that they are part of it. Another broker is
asked with AddPartitionsToTxn in its form for brokers, which carries many transactions per request. If no answer comes,
the result is COORDINATOR_NOT_AVAILABLE. The client may retry: adding or verifying twice does no harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moldau.broker.peers import PeerLane, Peers, PeerUnavailable, RequestBatcher
from moldau.settings import BrokerSettings
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnRequestTransaction,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResponseTransaction,
)
from moldau.wire.producer_identity import ProducerIdentity
from moldau.wire.topic_partition import TopicPartition, by_topic

if TYPE_CHECKING:
    from moldau.broker.coordinators.txn_coordinator import TxnCoordinator

MAX_WAITING: Final = 10_000
"""Questions that wait for one broker. Further ones are answered with COORDINATOR_NOT_AVAILABLE."""
QUESTIONS_PER_REQUEST: Final = 1_000

MAX_PRODUCERS: Final = 10_000
"""Producers, with coordinators on other brokers, for which the adder remembers whether their transactions are
two-phase. For a forgotten producer the coordinator is asked again."""

TWO_PHASE_TAG: Final = 28_015
"""Moldau's own tagged field in the answer for one transaction: it can be prepared, and another producer may end it.
Kafka's brokers do not write this field, and skip it when they read it."""


class AddPartitionsResult(NamedTuple):
    """A coordinator's answer about partitions of one transaction."""

    error: ErrorCode
    """If it is not NONE, the error of all partitions."""
    errors: Mapping[TopicPartition, ErrorCode] = {}
    two_phase: bool = False
    """Whether the transaction can be prepared, and handed over to another producer while it is open."""

    def of(self, partition: TopicPartition) -> ErrorCode:
        return self.error or self.errors.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR)


UNAVAILABLE: Final = AddPartitionsResult(ErrorCode.COORDINATOR_NOT_AVAILABLE)


class AddPartitionsQuestion(NamedTuple):
    transactional_id: str
    identity: ProducerIdentity
    partitions: Sequence[TopicPartition]
    adds: bool
    """True to add the partitions to the transaction, False to verify that they are part of it."""
    answer: asyncio.Future[AddPartitionsResult]


class TxnPartitionAdder:
    """Asks the coordinators of transactions, on this broker and on others."""

    def __init__(
        self,
        coordinator: TxnCoordinator,
        peers: Peers,
        settings: Callable[[], BrokerSettings],
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._coordinator = coordinator
        self._peers = peers
        self._settings = settings
        self._elsewhere: RequestBatcher[AddPartitionsQuestion] = RequestBatcher(
            self._ask, spawn, max_waiting=MAX_WAITING, max_batch=QUESTIONS_PER_REQUEST
        )
        self._two_phase: dict[int, tuple[int, bool]] = {}
        """For producers with coordinators on other brokers: the epoch, and whether its transactions are two-phase."""

    def is_one_phase(self, identity: ProducerIdentity) -> bool:
        """Whether a producer's transaction, coordinated by another broker, is known not to be a two-phase one.

        No other producer can take over such a transaction. So its open partitions need not be verified again.
        """
        return self._two_phase.get(identity.producer_id) == (identity.epoch, False)

    async def add_or_verify(
        self, transactional_id: str, identity: ProducerIdentity, partitions: Sequence[TopicPartition], *, adds: bool
    ) -> AddPartitionsResult:
        """With `adds`, add partitions to the transaction, as clients of transaction version 2 expect it of the broker.
        Otherwise verify that they are part of it.

        The coordinator may still be writing markers of the producer's previous transaction. The client does not know
        that, so adding is tried again until `add.partitions.to.txn.retry.backoff.max.ms` have passed.
        """
        settings, loop = self._settings(), asyncio.get_running_loop()
        pause_s = settings["add.partitions.to.txn.retry.backoff.ms"] / 1000
        until = loop.time() + settings["add.partitions.to.txn.retry.backoff.max.ms"] / 1000
        while True:
            if self._coordinator.coordinates(transactional_id):
                result = await self._ask_here(transactional_id, identity, partitions, adds)
            else:
                result = await self._ask_elsewhere(transactional_id, identity, partitions, adds)
            error = result.of(partitions[0])
            if not adds or error != ErrorCode.CONCURRENT_TRANSACTIONS or loop.time() >= until:
                return result
            await asyncio.sleep(pause_s)

    async def _ask_here(
        self, transactional_id: str, identity: ProducerIdentity, partitions: Sequence[TopicPartition], adds: bool
    ) -> AddPartitionsResult:
        if adds:
            error = await self._coordinator.add(transactional_id, identity, frozenset(partitions))
            return AddPartitionsResult(error, dict.fromkeys(partitions, error))
        shard = self._coordinator.shard_of(transactional_id)
        found = shard if isinstance(shard, ErrorCode) else shard.verify(transactional_id, identity, partitions)
        return (
            AddPartitionsResult(found) if isinstance(found, ErrorCode) else AddPartitionsResult(ErrorCode.NONE, found)
        )

    async def _ask_elsewhere(
        self, transactional_id: str, identity: ProducerIdentity, partitions: Sequence[TopicPartition], adds: bool
    ) -> AddPartitionsResult:
        answer: asyncio.Future[AddPartitionsResult] = asyncio.get_running_loop().create_future()
        question = AddPartitionsQuestion(transactional_id, identity, partitions, adds, answer)
        if not self._elsewhere.add(self._coordinator.coordinator_of(transactional_id), question):
            return UNAVAILABLE
        result = await answer
        if not any(result.of(one) for one in partitions):
            self._two_phase.pop(identity.producer_id, None)
            if len(self._two_phase) >= MAX_PRODUCERS:
                del self._two_phase[next(iter(self._two_phase))]
            self._two_phase[identity.producer_id] = (identity.epoch, result.two_phase)
        return result

    async def _ask(self, broker_id: int, questions: list[AddPartitionsQuestion]) -> None:
        results = [UNAVAILABLE] * len(questions)
        try:
            response = await self._peers.ask(broker_id, request_of(questions), PeerLane.VERIFICATION)
            results = results_of(questions, response)
        except PeerUnavailable:
            pass
        finally:
            for question, result in zip(questions, results, strict=True):
                if not question.answer.done():  # its client may have disconnected
                    question.answer.set_result(result)


# -- request and response ----------------------------------------------------------------------------------------------


def request_of(questions: Iterable[AddPartitionsQuestion]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnRequestTransaction(
                transactional_id=one.transactional_id,
                producer_id=one.identity.producer_id,
                producer_epoch=one.identity.epoch,
                verify_only=not one.adds,
                topics=[
                    AddPartitionsToTxnRequestTopic(name=topic, partitions=indexes)
                    for topic, indexes in by_topic(one.partitions).items()
                ],
            )
            for one in questions
        ]
    )


def results_of(
    questions: Sequence[AddPartitionsQuestion], response: AddPartitionsToTxnResponse
) -> list[AddPartitionsResult]:
    """One result for each question. The response has them in the order of the questions."""
    results = response.results_by_transaction
    if response.error_code or len(results) != len(questions):
        error = ErrorCode.of(response.error_code) or ErrorCode.UNKNOWN_SERVER_ERROR
        return [AddPartitionsResult(error)] * len(questions)
    return [
        _result(result) if result.transactional_id == question.transactional_id else UNAVAILABLE
        for question, result in zip(questions, results, strict=True)
    ]


def _result(result: AddPartitionsToTxnResponseTransaction) -> AddPartitionsResult:
    errors = {
        TopicPartition(topic.name, one.partition_index): ErrorCode.of(one.partition_error_code)
        for topic in result.topic_results
        for one in topic.results_by_partition
    }
    return AddPartitionsResult(ErrorCode.NONE, errors, TWO_PHASE_TAG in result.unknown_tags)
