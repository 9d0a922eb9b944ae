"""Runner of a polled source: its rows and its offsets are written in one transaction, as they are polled.

Such a source cannot read the same rows twice, so the rows must be stored together with the offsets that come after
them. Transforms and converters work on one row independently of others: they are applied before the transaction, and
the rows go directly to their final topics. A topic in between would give the same guarantee with one more copy and a
Spark job of delay.

The transactional id belongs to the connector: a worker that takes over fences the earlier one before it reads the
offsets. With exactly.once.source.support=disabled the rows are written without transactions, and then the offsets.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from moldau.client.blocking.producer import Producer
from moldau.client.errors import IllegalStateError
from moldau.client.producer.arrow import BatchFuture
from moldau.connect.connector import Polled, PolledSourceConnector, SourceOffsets
from moldau.connect.engine.batch_result import BatchResult
from moldau.connect.engine.identities import polled_transactional_id
from moldau.connect.engine.pipeline import RecordPipeline
from moldau.connect.engine.runner import Guard, RunContext, StepOutcome
from moldau.connect.engine.source_commit import send_in_transaction
from moldau.connect.engine.source_offsets import OffsetTable, advanced
from moldau.connect.engine.source_runner import exactly_once, pipeline_spec, producer_options
from moldau.connect.engine.source_task import COLUMNS, SourceRows
from moldau.connect.engine.topic_creation import TopicRules, topic_rules
from moldau.host.event_log import event_logger
from moldau.spark.sink_options import SinkOptions
from moldau.spark.writer import Target, send_rows

log = event_logger(__name__)

TRANSACTION_TIMEOUT_MS: Final = 60_000
"""A transaction holds what one `poll` has yielded, which is already there when the transaction begins."""


class PolledRunner:
    """One polled source connector on this worker."""

    def __init__(self, context: RunContext, table: OffsetTable) -> None:
        assert isinstance(context.connector, PolledSourceConnector)
        self._context = context
        self._connector: PolledSourceConnector = context.connector
        self._table = table
        self._exactly_once = exactly_once(context)
        self._rules: TopicRules = topic_rules(context.config, context.worker)
        self._offsets = SourceOffsets()
        self._options: SinkOptions | None = None
        self._pipeline: RecordPipeline | None = None
        self._producer: Producer | None = None

    @property
    def deadline_s(self) -> float:
        return self._context.settings.deadline_s

    def open(self, guard: Guard) -> None:
        guard.doing("take-over")
        context = self._context
        self._options = producer_options(context)
        self._pipeline = RecordPipeline(pipeline_spec(context))
        if self._pipeline.json_only is not None:
            self._connector.accept_json(schemas=self._pipeline.json_only)
        settings: dict[str, Any] = dict(context.clients.producer)
        if self._exactly_once:
            settings["transactional.id"] = polled_transactional_id(context.group, context.name)
            settings.setdefault("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)
        self._producer = Producer(settings)
        if self._exactly_once:
            self._producer.init_transactions()
        self._offsets = self._table.of(context.name)

    def step(self, guard: Guard) -> StepOutcome:
        guard.doing("poll")
        total: BatchResult | None = None
        for polled in self._polled(guard):
            began = self._context.clock.monotonic()
            result = self._written(guard, polled, began)
            guard.on_result(result)
            total = result if total is None else total.plus(result)
            guard.doing("poll")
        return StepOutcome(None, self._connector.poll_interval_s)

    def _polled(self, guard: Guard) -> Iterator[Polled]:
        """What the connector yields. Its generator is closed when the attempt ends, so that it can free its things."""
        found = iter(self._connector.poll(self._offsets))
        try:
            yield from found
        finally:
            close = getattr(found, "close", None)
            if close is not None:
                close()

    def _written(self, guard: Guard, polled: Polled, began: float) -> BatchResult:
        assert self._pipeline is not None
        assert self._options is not None
        assert self._producer is not None
        rows = SourceRows(
            self._pipeline, self._context.settings.errors, self._rules, self._options, dict(self._context.clients.admin)
        )
        try:
            records = list(rows.encoded(iter([polled.batch, *polled.more])))
        finally:
            rows.close()
        guard.doing("commit")
        if self._exactly_once:
            with self._producer.transaction():
                # A transaction that has failed meanwhile refuses further records; its commit raises the reason.
                with contextlib.suppress(IllegalStateError):
                    self._send(self._producer, records)
                self._send_offsets(self._producer, polled)
        else:
            futures = self._send(self._producer, records)
            self._producer.flush()
            for future in futures:
                future.result()
            self._send_offsets(self._producer, polled)
            self._producer.flush()
        self._offsets = advanced(self._offsets, list(polled.offsets))
        for text in rows.errors.logged:
            log.error("record skipped", extra={"connector": self._context.name, "reason": text})
        return rows.result(1).lasting(self._context.clock.monotonic() - began)

    def _send(self, producer: Producer, records: Sequence[Any]) -> list[BatchFuture]:
        assert self._options is not None
        target = Target(self._options, COLUMNS)
        return [future for batch in records for future in send_rows(producer, target, batch)]

    def _send_offsets(self, producer: Producer, polled: Polled) -> None:
        send_in_transaction(producer, self._table.topic, self._table.records(self._context.name, polled.offsets))

    def close(self) -> None:
        try:
            self._connector.close()
        finally:
            if self._producer is not None:
                self._producer.close()
                self._producer = None
