"""Broker access of the sink's two-phase commit, through blocking calls of our clients."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from moldau.client.admin.admin import Admin
from moldau.client.admin.calls import bounded
from moldau.client.admin.configs import ConfigResource
from moldau.client.admin.offsets import OffsetSpec
from moldau.client.admin.topics import NewTopic
from moldau.client.blocking.consumer import Consumer
from moldau.client.blocking.producer import Producer
from moldau.client.data_types import TopicPartition
from moldau.client.errors import (
    ConfigurationError,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    MoldauError,
    ProducerFenced,
    TopicAlreadyExists,
    TransactionalIdNotFound,
    UnknownTopicOrPartition,
)
from moldau.client.loop_thread import LoopThread
from moldau.client.settings import ADMIN, CONSUMER, ClientTable
from moldau.client.settings.security import SECURITY_SETTINGS
from moldau.host.event_log import event_logger
from moldau.spark.commit_log import CommitDecision, driver_id, encode, gate_id, latest
from moldau.spark.sink_options import SinkOptions
from moldau.spark.two_phase import TaskTransaction

T = TypeVar("T")

CONNECTING: Final = frozenset({"bootstrap.servers", "client.dns.lookup", *(one.name for one in SECURITY_SETTINGS)})
"""The settings that every client of the sink needs."""

log = event_logger(__name__)

LONGEST_TRANSACTION_MS: Final = 900_000
"""The default of the brokers' transaction.max.timeout.ms."""
POLL_S: Final = 1.0
DECISIONS_TAIL: Final = 256
TAIL_GROWTH: Final = 16
"""The last offsets of the decisions topic that are read first, and how many times more if the query is not in them."""
OVER: Final = ("CompleteCommit", "PrepareCommit")
ABORTED: Final = ("CompleteAbort", "PrepareAbort")


class DecisionUnclear(MoldauError):
    """The broker no longer knows whether a transaction of a decision was committed."""


def settings_of(table: ClientTable, options: SinkOptions) -> dict[str, Any]:
    """The settings of the sink's producer that another kind of client has, too: addresses, TLS and login."""
    return {name: value for name, value in options.settings.items() if name in CONNECTING and name in table}


class SinkBroker:
    """The admin client and, for the driver of a query, the producer that writes its decisions."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._thread = LoopThread.acquire()
        self._admin = Admin(settings_of(ADMIN, options))
        self._decisions: Producer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._decisions is not None:
            self._decisions.close()
            self._decisions = None
        self._run(self._admin.close())
        self._thread.release()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._thread.run(work)

    # -- checking the options ---------------------------------------------------------------------------------------

    def checked(self, options: SinkOptions) -> SinkOptions:
        """The options, completed with settings of the broker. Raises if the topic does not exist and the broker will
        not create it."""
        missing = options.topic is not None and not self._exists(options.topic)
        if not missing and not options.exactly_once:
            return options
        configs = self._run(self._broker_configs())
        if missing and configs.get("auto.create.topics.enable") == "false":
            raise ConfigurationError(
                f"option topic: there is no topic {options.topic!r} on {options.settings['bootstrap.servers']}, and "
                "the brokers do not create topics on first use (auto.create.topics.enable=false); create it, for "
                f"example with: moldau topics create {options.topic} --partitions 3"
            )
        if not options.exactly_once:
            return options
        two_phase = configs.get("transaction.two.phase.commit.enable") == "true"
        longest_ms = int(configs.get("transaction.max.timeout.ms") or LONGEST_TRANSACTION_MS)
        wanted_ms = options.transaction_timeout_ms or longest_ms
        if wanted_ms > longest_ms:
            raise ConfigurationError(
                f"option transactionTimeoutMs: {wanted_ms} is greater than the broker's limit of {longest_ms} "
                "(transaction.max.timeout.ms); use a smaller value"
            )
        return replace(options, two_phase=two_phase, transaction_timeout_ms=wanted_ms)

    def _exists(self, topic: str) -> bool:
        try:
            self._run(self._admin.describe_topics([topic]))
        except UnknownTopicOrPartition:
            return False
        return True

    async def _broker_configs(self) -> dict[str, str | None]:
        """The settings of one broker: all brokers of a cluster should have the same limits and rules."""
        node = (await self._admin.describe_cluster()).brokers[0].id
        resource = ConfigResource.broker(node)
        configs = (await self._admin.describe_configs([resource]))[resource]
        return {name: entry.value for name, entry in configs.items()}

    # -- decisions -------------------------------------------------------------------------------------------------

    def take_over(self, query: str) -> CommitDecision | None:
        self._run(self._ensure_decisions_topic())
        if self._decisions is not None:
            self._decisions.close()
        self._decisions = Producer(
            {
                **self._options.settings,
                "transactional.id": driver_id(query),
                "compression.type": "zstd",
                "linger.ms": 0,
            }
        )
        self._decisions.init_transactions()
        return self.last_decision(query)

    def decide(self, decision: CommitDecision) -> None:
        producer = self._decisions
        assert producer is not None, "take_over() must be called before decide()"
        key, value = encode(decision)
        with producer.transaction():
            producer.send(self._options.decisions_topic, value, key=key)
            self.add_to_decision(producer, decision)

    def add_to_decision(self, producer: Producer, decision: CommitDecision) -> None:
        """Send further records in the transaction of the decision. For subclasses that store offsets with it."""

    async def _ensure_decisions_topic(self) -> None:
        topic = self._options.decisions_topic
        try:
            await self._admin.create_topics(
                [NewTopic(topic, partitions=1, configs={"cleanup.policy": "compact", "segment.ms": "86400000"})]
            )
        except TopicAlreadyExists:
            pass

    def last_decision(self, query: str) -> CommitDecision | None:
        """The last decision of a query in the topic. Reads the end of the topic first, and more of it only if needed.

        Any place to begin is safe: if a record of the query comes after it, the last such record is the last of all.
        A running query commits often, so its last decision is near the end. The topic is compacted, but a day of
        decisions may wait for it.

        Reads up to the log end offset, not only to the last stable offset: while another query writes its decision,
        ours may come after it.
        """
        partition = TopicPartition(self._options.decisions_topic, 0)
        key = query.encode()
        end = self._run(self._admin.list_offsets({partition: OffsetSpec.LATEST}))[partition].offset
        settings = settings_of(CONSUMER, self._options)
        with Consumer(settings | {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}) as consumer:
            consumer.assign([partition])
            tail = DECISIONS_TAIL
            while True:
                begin = max(0, end - tail)
                consumer.seek(partition, begin)
                found: list[tuple[bytes | None, bytes | None]] = []
                while consumer.position(partition) < end:
                    found += [
                        (record.key, record.value) for record in consumer.poll(timeout=POLL_S) if record.key == key
                    ]
                if found or begin == 0:
                    return latest(query, found)
                tail *= TAIL_GROWTH

    # -- transactions ----------------------------------------------------------------------------------------------

    def commit(self, transactions: Sequence[TaskTransaction]) -> list[TaskTransaction]:
        lost = self._run(bounded([partial(self._committed_or_lost, one) for one in transactions]))
        return [one for one, gone in zip(transactions, lost, strict=True) if gone]

    def abort(self, transactions: Sequence[TaskTransaction]) -> None:
        self._run(bounded([partial(self._aborted, one) for one in transactions]))

    def refuse_new_transactions(self, query: str, run: str) -> None:
        self._run(self._admin.terminate_transaction(gate_id(query, run)))

    def gate_is_closed(self, query: str, run: str) -> bool:
        try:
            self._run(self._admin.describe_transactions([gate_id(query, run)]))
        except TransactionalIdNotFound:
            return False
        return True

    def open_transactions(self, prefix: str, *, or_about_to: bool = False) -> list[str]:
        listed = self._run(self._admin.list_transactions(states=["Ongoing", "Empty"] if or_about_to else ["Ongoing"]))
        return [one.id for one in listed if one.id.startswith(prefix)]

    def fence(self, transactional_ids: Sequence[str]) -> None:
        self._run(bounded([partial(self._admin.terminate_transaction, name) for name in transactional_ids]))

    async def _committed_or_lost(self, one: TaskTransaction) -> bool:
        """Commit the transaction; return True if it was aborted."""
        try:
            await self._admin.complete_transaction(*one, commit=True)
            return False
        except (ProducerFenced, InvalidProducerEpoch, InvalidTxnState, InvalidProducerIdMapping) as refused:
            return not await self._was_committed(one, refused)

    async def _was_committed(self, one: TaskTransaction, refused: MoldauError) -> bool:
        """Whether a transaction that can no longer be committed was committed before (True) or aborted (False)."""
        try:
            found = (await self._admin.describe_transactions([one.transactional_id]))[one.transactional_id]
        except TransactionalIdNotFound as forgotten:
            raise DecisionUnclear(
                f"transaction {one.transactional_id} was decided, but the broker has since deleted its state "
                "(transactional.id.expiration.ms), so it is unknown whether its rows were committed. Check the "
                "topic, and start the query with a new checkpoint"
            ) from forgotten
        ours = found.producer_id == one.producer_id and found.producer_epoch in (one.epoch, one.epoch + 1)
        if ours and found.state in OVER:
            return True
        if ours and found.state in ABORTED:
            return False
        raise DecisionUnclear(
            f"transaction {one.transactional_id} was decided, but its id has since been used again (producer "
            f"{found.producer_id}, epoch {found.producer_epoch}, {found.state}), so it is unknown whether its rows "
            "were committed. Check that no other query uses this checkpoint"
        ) from refused

    async def _aborted(self, one: TaskTransaction) -> None:
        try:
            await self._admin.complete_transaction(*one, commit=False)
        except (ProducerFenced, InvalidProducerEpoch, InvalidTxnState, InvalidProducerIdMapping) as over:
            log.info(
                "transaction has already ended", extra={"transactional_id": one.transactional_id, "reason": str(over)}
            )
