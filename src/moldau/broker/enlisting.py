"""Asks the coordinator of a transaction, wherever it is: make these partitions part of it, or are they?

Another broker is asked by AddPartitionsToTxn in its form for brokers, many transactions in one request. An answer that
does not come is COORDINATOR_NOT_AVAILABLE: to ask, or to add, once more does no harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.broker.peers import Lane, PeerUnavailable, Together
from moldau.transactions.transaction import Identity, TopicPartition
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnRequestTransaction,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResponseTransaction,
)

if TYPE_CHECKING:
    from moldau.broker.transactions import Transactions

MAX_WAITING: Final = 10_000
"""Questions for one broker that wait for their turn; who comes beyond is told to come back."""
QUESTIONS_A_REQUEST: Final = 1_000

MAX_KINDS: Final = 10_000
"""Producers with coordinators elsewhere of which is remembered what their transactions are like; of one that was
forgotten it is asked again."""

TWO_PHASE_TAG: Final = 28_015
"""A tagged field of our own in the answer for one transaction: it is of the kind that can be prepared and handed on.
Kafka's brokers do not write it, and pass over it."""


class Verdict(NamedTuple):
    """What a coordinator said about partitions of one transaction."""

    error: ErrorCode
    """What holds for all of them, where it is not NONE."""
    errors: Mapping[TopicPartition, ErrorCode] = {}
    two_phase: bool = False
    """Whether the transaction may be prepared, and handed on to another producer while it is open."""

    def of(self, partition: TopicPartition) -> ErrorCode:
        return self.error or self.errors.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR)


UNAVAILABLE: Final = Verdict(ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Question(NamedTuple):
    transactional_id: str
    identity: Identity
    partitions: Sequence[TopicPartition]
    adds: bool
    """Whether they become part of the transaction; else it is only asked whether they are."""
    answer: asyncio.Future[Verdict]


class Enlisting:
    """Asks whoever coordinates a transaction, here or on another broker."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._broker = broker = transactions.broker
        self._elsewhere: Together[Question] = Together(
            self._ask, broker.spawn, max_waiting=MAX_WAITING, max_together=QUESTIONS_A_REQUEST
        )
        self._kinds: dict[int, tuple[int, bool]] = {}
        """Of producers whose coordinators are elsewhere: the epoch, and whether its transactions are two-phase ones."""

    def is_ordinary(self, identity: Identity) -> bool:
        """Whether a producer's open transaction, whose coordinator is elsewhere, is known to be none that can be
        handed on: then the partitions that it has open need not be asked for again."""
        return self._kinds.get(identity.producer_id) == (identity.epoch, False)

    async def enlist(
        self, transactional_id: str, identity: Identity, partitions: Sequence[TopicPartition], *, adds: bool
    ) -> Verdict:
        """Has partitions made part of the transaction, as a client of version 2 leaves to the broker; or, without
        `adds`, asks whether they are.

        Its transaction before may still be getting its last markers: that is waited for a moment, since the client
        cannot know.
        """
        settings, loop = self._broker.settings, self._broker.loop
        pause_s = settings["add.partitions.to.txn.retry.backoff.ms"] / 1000
        until = loop.time() + settings["add.partitions.to.txn.retry.backoff.max.ms"] / 1000
        while True:
            if self._transactions.coordinates(transactional_id):
                verdict = await self._enlist_here(transactional_id, identity, partitions, adds)
            else:
                verdict = await self._enlist_elsewhere(transactional_id, identity, partitions, adds)
            error = verdict.of(partitions[0])
            if not adds or error != ErrorCode.CONCURRENT_TRANSACTIONS or loop.time() >= until:
                return verdict
            await asyncio.sleep(pause_s)

    async def _enlist_here(
        self, transactional_id: str, identity: Identity, partitions: Sequence[TopicPartition], adds: bool
    ) -> Verdict:
        if adds:
            error = await self._transactions.add(transactional_id, identity, frozenset(partitions))
            return Verdict(error, dict.fromkeys(partitions, error))
        shard = self._transactions.shard_of(transactional_id)
        found = shard if isinstance(shard, ErrorCode) else shard.verify(transactional_id, identity, partitions)
        return Verdict(found) if isinstance(found, ErrorCode) else Verdict(ErrorCode.NONE, found)

    async def _enlist_elsewhere(
        self, transactional_id: str, identity: Identity, partitions: Sequence[TopicPartition], adds: bool
    ) -> Verdict:
        answer: asyncio.Future[Verdict] = self._broker.loop.create_future()
        question = Question(transactional_id, identity, partitions, adds, answer)
        if not self._elsewhere.add(self._transactions.coordinator_of(transactional_id), question):
            return UNAVAILABLE
        verdict = await answer
        if not any(verdict.of(one) for one in partitions):
            self._kinds.pop(identity.producer_id, None)
            if len(self._kinds) >= MAX_KINDS:
                del self._kinds[next(iter(self._kinds))]
            self._kinds[identity.producer_id] = (identity.epoch, verdict.two_phase)
        return verdict

    async def _ask(self, broker_id: int, questions: list[Question]) -> None:
        verdicts = [UNAVAILABLE] * len(questions)
        try:
            response = await self._broker.peers.ask(broker_id, request_of(questions), Lane.VERIFICATION)
            verdicts = verdicts_of(questions, response)
        except PeerUnavailable:
            pass
        finally:
            for question, verdict in zip(questions, verdicts, strict=True):
                if not question.answer.done():  # whoever asked may be gone
                    question.answer.set_result(verdict)


# -- as it travels -----------------------------------------------------------------------------------------------------


def request_of(questions: Iterable[Question]) -> AddPartitionsToTxnRequest:
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


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return topics


def verdicts_of(questions: Sequence[Question], response: AddPartitionsToTxnResponse) -> list[Verdict]:
    """One for each question. Answers come in the order of the questions."""
    results = response.results_by_transaction
    if response.error_code or len(results) != len(questions):
        error = ErrorCode.of(response.error_code) or ErrorCode.UNKNOWN_SERVER_ERROR
        return [Verdict(error)] * len(questions)
    return [
        _verdict(result) if result.transactional_id == question.transactional_id else UNAVAILABLE
        for question, result in zip(questions, results, strict=True)
    ]


def _verdict(result: AddPartitionsToTxnResponseTransaction) -> Verdict:
    errors = {
        (topic.name, one.partition_index): ErrorCode.of(one.partition_error_code)
        for topic in result.topic_results
        for one in topic.results_by_partition
    }
    return Verdict(ErrorCode.NONE, errors, TWO_PHASE_TAG in result.unknown_tags)
