"""Runner of a sink: positions, batches and commits of one sink connector.

The ends of the partitions come from `topic_watch.py`, which asks the brokers once for all sinks of the process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from moldau.client.admin.offsets import OffsetSpec
from moldau.client.blocking.admin import Admin
from moldau.client.data_types import TopicPartition
from moldau.client.errors import MoldauError
from moldau.connect.connector import SinkCommit, SinkConnector, SinkSlice
from moldau.connect.engine import sink_plan
from moldau.connect.engine.batch_result import BatchResult
from moldau.connect.engine.identities import consumer_group, sink_transactional_id
from moldau.connect.engine.runner import Guard, RunContext, StepOutcome
from moldau.connect.engine.sink_commit import SinkCommits
from moldau.connect.engine.sink_plan import CommittedMark, SinkView
from moldau.connect.engine.sink_task import SinkWork, SinkWrote
from moldau.connect.engine.source_runner import pipeline_spec
from moldau.connect.engine.topic_watch import Wanted
from moldau.host.event_log import event_logger
from moldau.spark import options as spark_options
from moldau.spark.options import REFUSED, SourceOptions

log = event_logger(__name__)

AUTO_OFFSET_RESET: Final = "auto.offset.reset"
REST_S: Final = 0.5
"""A connector that let all records wait is not asked again before this time has passed."""


class OffsetsLost(MoldauError):
    """A position that does not exist any more, and auto.offset.reset is none."""


class SinkRunner:
    """One sink connector on this worker."""

    def __init__(self, context: RunContext) -> None:
        assert isinstance(context.connector, SinkConnector)
        self._context = context
        self._connector: SinkConnector = context.connector
        settings = context.settings
        group, name = context.group, context.name
        self._commits = SinkCommits(
            context.clients,
            sink_transactional_id(group, name),
            consumer_group(name),
            settings.errors,
            settings.deadline_s,
        )
        self._options = read_options(context.clients.consumer, settings.deadline_s)
        self._reset = str(context.clients.consumer.get(AUTO_OFFSET_RESET, "earliest")).lower()
        self._admin: Admin | None = None
        self._written: Mapping[TopicPartition, int] | None = None
        self._dead_until: dict[TopicPartition, int] = {}
        self._batch = 0
        self._rests_until = 0.0
        self.positions: dict[TopicPartition, int] = {}
        self._topic_ids: dict[str, str] = {}
        """The ids of the topics that the positions belong to."""
        self.view = SinkView()
        """Replaced by the engine's thread while no step runs."""

    @property
    def deadline_s(self) -> float:
        return self._context.settings.deadline_s

    def open(self, guard: Guard) -> None:
        guard.doing("take-over")
        self._admin = Admin(dict(self._context.clients.admin))
        self._commits.take_over()
        self._commits.prepare_dead_letters(self._admin)
        guard.doing("start")
        self._connector.start()
        guard.doing("start")
        self._written = self._connector.written_offsets()
        committed = self._commits.committed(self._admin)
        marks = {partition: CommittedMark.parse(found.metadata) for partition, found in committed.items()}
        # A clock may go back, and committed offsets may be deleted: the larger one is newer than every earlier batch.
        self._batch = max([self._context.clock.now_ms(), *(mark.batch + 1 for mark in marks.values())])
        self._dead_until = {partition: mark.dead_until for partition, mark in marks.items()}
        self.positions = {partition: found.offset for partition, found in committed.items()}
        self.positions.update(self._written or {})

    # -- asked by the engine's thread while no step runs --------------------------------------------------------------

    @property
    def wanted(self) -> Wanted:
        return Wanted(self._context.settings.topics, self._context.settings.topics_regex)

    @property
    def max_tasks(self) -> int:
        return self._context.settings.max_tasks

    def has_work(self, view: SinkView) -> bool:
        if sink_plan.recreated(self._topic_ids, view):
            return True
        return self._context.clock.monotonic() >= self._rests_until and sink_plan.has_work(self.positions, view)

    def lag(self, view: SinkView) -> int:
        return sink_plan.lag(self.positions, view)

    # -- a batch ------------------------------------------------------------------------------------------------------

    def step(self, guard: Guard) -> StepOutcome:
        view = self.view
        guard.doing("positions")
        self._place(view)
        guard.doing("due")
        due = self._connector.due(sink_plan.pending(self.positions, view))
        slices = sink_plan.capped(due, self._context.settings.batch_offsets)
        if not slices:
            self._rests_until = self._context.clock.monotonic() + REST_S
            return StepOutcome()
        began = self._context.clock.monotonic()
        messages = self._run_batch(guard, view, slices)
        self._commit(guard, slices, messages)
        self._batch += 1
        self.positions.update({one.partition: one.end for one in slices})
        return StepOutcome(self._result(messages, self._context.clock.monotonic() - began))

    def _place(self, view: SinkView) -> None:
        """Give a position to every partition that has none, or whose position is gone."""
        assert self._admin is not None
        replaced = sink_plan.recreated(self._topic_ids, view)
        gone = sorted({*sink_plan.truncated(self.positions, view), *replaced})
        new = sink_plan.unknown(self.positions, view)
        if new:
            found = self._commits.committed(self._admin, new)
            self.positions.update({partition: one.offset for partition, one in found.items()})
            new = [partition for partition in new if partition not in found]
        if not gone and not new:
            self._topic_ids.update(view.ids)
            return
        if self._reset == "none":
            raise OffsetsLost(
                f"{(gone + new)[0]} has no valid position, and consumer.override.auto.offset.reset is none; set the "
                "offsets of the connector, or choose earliest or latest"
            )
        for partition in gone:
            log.warning(
                "position does not exist any more, it is reset",
                extra={
                    "connector": self._context.name,
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "position": self.positions.get(partition),
                    "reset": self._reset,
                },
            )
        spec = OffsetSpec.LATEST if self._reset == "latest" else OffsetSpec.EARLIEST
        listed = self._admin.list_offsets(dict.fromkeys([*gone, *new], spec), isolation_level="read_committed")
        self.positions.update({partition: one.offset for partition, one in listed.items()})
        self._topic_ids.update(view.ids)

    def _run_batch(self, guard: Guard, view: SinkView, slices: Sequence[SinkSlice]) -> list[SinkWrote]:
        context = self._context
        tasks = sink_plan.divided(slices, guard.jobs.task_limit(context.settings.max_tasks))
        work = SinkWork(
            self._connector,
            slices,
            tasks,
            view.ids,
            pipeline_spec(context),
            context.settings.errors,
            self._options,
            dict(context.clients.producer),
            self._batch,
            {(one.topic, one.partition): until for one, until in self._dead_until.items()},
        )
        return guard.run_job(context.name, work, len(tasks))

    def _commit(self, guard: Guard, slices: Sequence[SinkSlice], wrote: Sequence[SinkWrote]) -> None:
        guard.doing("commit")
        messages: dict[int, Any] = {}
        for one in wrote:
            messages.update(one.messages)
        letters = [letter for one in wrote for letter in one.dead_letters]
        commit = SinkCommit(
            self._context.name, self._batch, slices, [messages[number] for number in range(len(slices))]
        )
        self._commits.commit(slices, letters, self._batch, partial(self._publish, guard, commit))

    def _publish(self, guard: Guard, commit: SinkCommit) -> None:
        guard.check()
        self._connector.commit(commit)

    def _result(self, messages: Sequence[SinkWrote], duration_s: float) -> BatchResult:
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
            self._commits.close()
            if self._admin is not None:
                self._admin.close()
                self._admin = None


def read_options(consumer: Mapping[str, Any], deadline_s: float) -> SourceOptions:
    """The options of the tasks that read topics. Records of transactions that were not committed are never read."""
    settings = {
        f"kafka.{name}": str(value)
        for name, value in consumer.items()
        if name not in REFUSED and name not in ("group.id", "isolation.level")
    }
    lose = str(consumer.get(AUTO_OFFSET_RESET, "earliest")).lower() != "none"
    given = {
        **settings,
        "kafka.isolation.level": "read_committed",
        "subscribe": "topics-of-the-sink",
        "failOnDataLoss": str(not lose).lower(),
        "kafkaConsumer.pollTimeoutMs": str(max(int(deadline_s * 1000), 1)),
        "groupIdPrefix": "moldau-connect",
    }
    return spark_options.parse(given, streaming=False)
