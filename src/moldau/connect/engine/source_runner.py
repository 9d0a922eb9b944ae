"""Runner of a source that can read the same slice again: plans slices, runs the Spark job, commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from moldau.client.errors import InvalidProducerEpoch, MoldauError, ProducerFenced
from moldau.connect.connector import Slice, SourceConnector, SourceOffsets, partition_key
from moldau.connect.engine.batch_result import BatchResult
from moldau.connect.engine.identities import connector_id
from moldau.connect.engine.job import balanced
from moldau.connect.engine.pipeline_spec import PipelineSpec
from moldau.connect.engine.runner import AttemptEnded, Guard, RunContext, StepOutcome
from moldau.connect.engine.source_commit import PlainCommits, SourceCommits, reached_by
from moldau.connect.engine.source_offsets import OffsetTable, advanced
from moldau.connect.engine.source_task import SourceWork, SourceWrote
from moldau.connect.engine.topic_creation import topic_rules
from moldau.host.event_log import event_logger
from moldau.spark.commit_log import DECISIONS_TOPIC, PreparedWrite
from moldau.spark.sink_broker import SinkBroker
from moldau.spark.sink_options import SinkOptions

log = event_logger(__name__)

SETTLE_AFTER_S: Final = 60.0
"""How long a source is idle before it stores that its last decision is carried out."""


def exactly_once(context: RunContext) -> bool:
    """Whether sources of this worker use transactions: `exactly.once.source.support`, enabled unless disabled."""
    return str(context.worker.get("exactly.once.source.support") or "enabled").lower() == "enabled"


def producer_options(context: RunContext) -> SinkOptions:
    """The options of the tasks' producers, checked against the brokers."""
    options = SinkOptions(
        settings=dict(context.clients.producer),
        topic=None,
        exactly_once=exactly_once(context),
        fail_on_data_loss=True,
        decisions_topic=DECISIONS_TOPIC,
        transaction_timeout_ms=None,
    )
    with SinkBroker(options) as broker:
        return broker.checked(options)


def pipeline_spec(context: RunContext) -> PipelineSpec:
    return PipelineSpec(context.name, context.config, context.settings.converters)


class SourceRunner:
    """One source connector on this worker."""

    def __init__(self, context: RunContext, table: OffsetTable) -> None:
        assert isinstance(context.connector, SourceConnector)
        self._context = context
        self._connector: SourceConnector = context.connector
        self._table = table
        self._query = connector_id(context.group, context.name)
        self._run = context.new_run()
        self._rules = topic_rules(context.config, context.worker)
        self._options: SinkOptions | None = None
        self._commits: SourceCommits | PlainCommits | None = None
        self._offsets = SourceOffsets()
        self._idle_since: float | None = None

    @property
    def deadline_s(self) -> float:
        return self._context.settings.deadline_s

    def open(self, guard: Guard) -> None:
        guard.doing("take-over")
        context = self._context
        self._options = options = producer_options(context)
        if options.exactly_once:
            self._commits = SourceCommits(options, self._query, self._run, context.name, self._table)
        else:
            self._commits = PlainCommits(context.clients.producer, context.name, self._table)
        self._offsets = self._commits.take_over()

    def step(self, guard: Guard) -> StepOutcome:
        assert self._commits is not None
        guard.doing("slices")
        slices = self._connector.slices(self._offsets)
        guard.check()
        if not slices:
            self._rest(guard)
            return StepOutcome()
        self._idle_since = None
        began = self._context.clock.monotonic()
        messages = self._run_batch(guard, slices)
        reached = reached_by(slices)
        writes = [message.write for message in messages if message.write is not None]
        self._commit(guard, writes, reached)
        self._offsets = advanced(self._offsets, [(partition, end) for partition, end in reached if end is not None])
        return StepOutcome(self._result(messages, self._context.clock.monotonic() - began))

    def _run_batch(self, guard: Guard, slices: Sequence[Slice]) -> list[SourceWrote]:
        assert self._commits is not None
        assert self._options is not None
        context = self._context
        tasks = divided(slices, guard.jobs.task_limit(context.settings.max_tasks))
        work = SourceWork(
            self._connector,
            tasks,
            pipeline_spec(context),
            context.settings.errors,
            self._options,
            dict(context.clients.admin),
            self._rules,
            self._query,
            self._run,
            self._commits.batch,
        )
        try:
            return guard.run_job(context.name, work, len(tasks))
        except (ProducerFenced, InvalidProducerEpoch):
            raise  # another worker has taken over, and has aborted what this one left
        except BaseException:
            self._abort()
            raise

    def _commit(self, guard: Guard, writes: Sequence[PreparedWrite], reached: Sequence[tuple[object, object]]) -> None:
        assert self._commits is not None
        try:
            guard.doing("commit")
        except AttemptEnded:
            self._commits.abort_writes(writes)
            raise
        try:
            self._commits.commit(writes, self._offsets, reached)  # type: ignore[arg-type]
        except (ProducerFenced, InvalidProducerEpoch):
            self._commits.abort_writes(writes)
            raise

    def _abort(self) -> None:
        """End the run of a failed batch. What cannot be aborted now is aborted by the next take-over."""
        assert self._commits is not None
        try:
            self._commits.abort()
        except MoldauError as error:
            log.warning(
                "transactions not aborted, left to the next start",
                extra={"connector": self._context.name, "reason": str(error)},
            )

    def _rest(self, guard: Guard) -> None:
        assert self._commits is not None
        now = self._context.clock.monotonic()
        if self._idle_since is None:
            self._idle_since = now
        elif now - self._idle_since >= SETTLE_AFTER_S:
            self._idle_since = float("inf")
            guard.doing("commit")
            self._commits.settle()

    def _result(self, messages: Sequence[SourceWrote], duration_s: float) -> BatchResult:
        total = BatchResult(duration_s=duration_s)
        for message in messages:
            total = total.plus(message.result)
            for text in message.logged:
                log.error("record skipped", extra={"connector": self._context.name, "reason": text})
        return total

    def close(self) -> None:
        try:
            self._connector.close()
        finally:
            if self._commits is not None:
                self._commits.close()
                self._commits = None


def divided(slices: Sequence[Slice], at_most: int) -> list[list[Slice]]:
    """The slices of each task. Those of one source partition stay together and in order."""
    by_partition: dict[str, list[Slice]] = {}
    for one in slices:
        by_partition.setdefault(partition_key(one.partition), []).append(one)
    pieces = list(by_partition.values())
    return balanced(pieces, [len(piece) for piece in pieces], at_most)
