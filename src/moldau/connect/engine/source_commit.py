"""Commits of a source in the driver: one decision makes the batch visible and stores its offsets.

The decision to commit the tasks' prepared transactions and the records of connect-offsets are one transaction of the
driver's producer, whose transactional id belongs to the connector. So offsets and records never disagree, and a worker
that was replaced can store neither.

A worker that takes over first finishes the last decision and then reads the offsets. If the brokers had aborted all
transactions of that decision in the meantime (transaction.max.timeout.ms), its records are lost but its offsets are
stored: the decision also names the offsets before the batch, which are restored, and the batch is read again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from moldau.client.blocking.producer import Producer
from moldau.client.errors import IllegalStateError
from moldau.connect.connector import Offset, SourceOffsets, partition_key
from moldau.connect.engine.source_offsets import OffsetRecord, OffsetTable
from moldau.host.event_log import event_logger
from moldau.spark.commit_log import CommitDecision, PreparedWrite, query_prefix
from moldau.spark.sink_broker import SinkBroker
from moldau.spark.sink_options import SinkOptions
from moldau.spark.two_phase import TaskTransaction, TwoPhaseCommit

log = event_logger(__name__)

Reached = Sequence[tuple[Offset, Offset | None]]


class OffsetsBroker(SinkBroker):
    """Broker access whose decisions carry the records of the offsets topic."""

    def __init__(self, options: SinkOptions, offsets_topic: str) -> None:
        super().__init__(options)
        self._offsets_topic = offsets_topic
        self._with_next: Sequence[OffsetRecord] = ()

    def send_with_decision(self, records: Sequence[OffsetRecord]) -> None:
        """Store these records with the next decision."""
        self._with_next = records

    def add_to_decision(self, producer: Producer, decision: CommitDecision) -> None:
        records, self._with_next = self._with_next, ()
        send_in_transaction(producer, self._offsets_topic, records)


def send_in_transaction(producer: Producer, topic: str, records: Sequence[OffsetRecord]) -> None:
    """Send records in the open transaction. If it has failed meanwhile, because an earlier record was refused, its
    commit raises the reason: that the producer is fenced, for example."""
    try:
        for key, value in records:
            producer.send(topic, value, key=key)
    except IllegalStateError as error:
        log.debug("transaction has failed", extra={"reason": str(error)})


class SourceCommits:
    """The commits of one source, from its take-over on. Exactly once."""

    def __init__(self, options: SinkOptions, query: str, run: str, connector: str, table: OffsetTable) -> None:
        self._query = query
        self._run = run
        self._connector = connector
        self._table = table
        self.broker = OffsetsBroker(options, table.topic)
        self._commits = TwoPhaseCommit(self.broker)
        self.batch = 0
        """The number of the next batch."""

    def take_over(self) -> SourceOffsets:
        """Fence every earlier owner, finish its last decision, and return the stored offsets."""
        last, lost = self._commits.recover(self._query)
        self.batch = 0 if last is None else last.batch + 1
        if last is not None and lost:
            self._restore(last)
        return self._table.of(self._connector)

    def _restore(self, last: CommitDecision) -> None:
        before: Reached = [(partition, offset) for partition, offset in json.loads(last.note or "[]")]
        log.warning(
            "the last batch was aborted by the brokers and is read again",
            extra={"connector": self._connector, "batch": last.batch},
        )
        self._commit(self.batch, [], before, "")
        self.batch += 1

    def commit(self, writes: Sequence[PreparedWrite], before: SourceOffsets, reached: Reached) -> None:
        """Make a batch visible and store the offsets that it has reached."""
        note = json.dumps([[dict(partition), before[partition]] for partition, _ in reached])
        self._commit(self.batch, writes, reached, note)
        self.batch += 1

    def _commit(self, batch: int, writes: Sequence[PreparedWrite], reached: Reached, note: str) -> None:
        self.broker.send_with_decision(self._table.records(self._connector, reached))
        self._commits.commit(self._query, self._run, batch, writes, note)

    def abort(self) -> None:
        """End this run after a failure: attempts that still run can no longer leave an open transaction.

        As `end_run` of `two_phase.py`, but for the ids of this run only: another worker may have taken over.
        """
        self.broker.refuse_new_transactions(self._query, self._run)
        if strays := self.broker.open_transactions(f"{query_prefix(self._query)}{self._run}-", or_about_to=True):
            self.broker.fence(strays)

    def abort_writes(self, writes: Sequence[PreparedWrite]) -> None:
        """Abort transactions of this run only. For a worker that was fenced: those of the new owner are left alone."""
        decision = CommitDecision(self._query, self._run, self.batch, ())
        self.broker.abort(
            [TaskTransaction(decision.transactional_id(one), one.producer_id, one.epoch) for one in writes]
        )

    def settle(self) -> None:
        """Store that nothing is left to do, when the source is idle."""
        self._commits.settle()

    def close(self) -> None:
        self.broker.close()


class PlainCommits:
    """The commits of a source without exactly-once support: the offsets, after the records."""

    def __init__(self, producer: Mapping[str, Any], connector: str, table: OffsetTable) -> None:
        self._settings = producer
        self._connector = connector
        self._table = table
        self._producer: Producer | None = None
        self.batch = 0

    def take_over(self) -> SourceOffsets:
        return self._table.of(self._connector)

    def commit(self, writes: Sequence[PreparedWrite], before: SourceOffsets, reached: Reached) -> None:
        if self._producer is None:
            self._producer = Producer(dict(self._settings))
        futures = [
            self._producer.send(self._table.topic, value, key=key)
            for key, value in self._table.records(self._connector, reached)
        ]
        self._producer.flush()
        for future in futures:
            future.result()
        self.batch += 1

    def abort(self) -> None:
        """Nothing to abort: the rows are visible, and written again."""

    def abort_writes(self, writes: Sequence[PreparedWrite]) -> None:
        """As `abort`."""

    def settle(self) -> None:
        """Nothing is left to do after a commit."""

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close()
            self._producer = None


def reached_by(slices: Sequence[Any]) -> list[tuple[Offset, Offset | None]]:
    """The last offset of each source partition after these slices."""
    last = {partition_key(one.partition): (one.partition, one.end) for one in slices}
    return list(last.values())
