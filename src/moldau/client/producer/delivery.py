"""Results of sent batches: completes, retries, splits or fails a batch after an answer or a timeout.

A batch gets its result once. Its sequence numbers and its lane are updated before its futures are completed, because
these may run the application's callbacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from moldau.client.errors import STALE_METADATA, MoldauError, TimedOut, error_for
from moldau.client.producer.accumulator import NEVER
from moldau.client.producer.batch_split import split
from moldau.client.producer.engine import Accumulator, Batch
from moldau.client.producer.metrics import Counters
from moldau.client.producer.partition_send_state import PartitionSendState
from moldau.client.producer.requests import ProduceAnswer
from moldau.client.producer.sequences import BatchFate, judge
from moldau.client.producer.transaction_hooks import TransactionHooks
from moldau.wire.errors import ErrorCode

if TYPE_CHECKING:
    from moldau.client.producer.config import ProducerConfig


class Delivery:
    """Decides about the batches of one producer and applies the decisions."""

    def __init__(
        self,
        config: ProducerConfig,
        accumulator: Accumulator,
        transactions: TransactionHooks,
        counters: Counters,
        refresh_soon: Callable[[], None],
        chance: Callable[[], float],
    ) -> None:
        self._config = config
        self._accumulator = accumulator
        self._transactions = transactions
        self._counters = counters
        self._refresh_soon = refresh_soon
        self._chance = chance

    def acknowledged(
        self, lane: PartitionSendState, batch: Batch, base_offset: int, log_append_time: int, now: float
    ) -> None:
        """The broker has the batch: the common case."""
        lane.on_wire -= 1
        lane.failures = 0
        lane.sequences.acked(batch)
        if not batch.done:  # otherwise it had failed with a timeout, and only the sequence numbers matter
            self._counters.sent(batch, now)
            batch.complete(base_offset, log_append_time)

    def answered(self, lane: PartitionSendState, batch: Batch, answer: ProduceAnswer, now: float) -> None:
        """Handle the broker's answer about a batch."""
        code = ErrorCode.of(answer.code)
        verdict = judge(code, batch, lane.sequences, self._transactions.transactional_id is not None)
        if verdict is BatchFate.DONE:
            known = code is ErrorCode.NONE  # the answer about a duplicate may have no offset
            self.acknowledged(lane, batch, answer.base_offset if known else -1, answer.log_append_time, now)
            return
        lane.on_wire -= 1
        if batch.done:
            return
        if code in STALE_METADATA:
            self._refresh_soon()
        what = f"sending {batch.count} records to {lane.partition}"
        if verdict is BatchFate.SPLIT:
            self._split(lane, batch)
        elif verdict is BatchFate.RETRY:
            self._again(lane, batch, error_for(answer.code, what, answer.message), now)
        else:
            self.give_up(lane, batch, error_for(answer.code, what, answer.message))

    def unanswered(self, lane: PartitionSendState, batch: Batch, error: MoldauError, now: float) -> None:
        """Handle a lost connection or a timeout: the broker may or may not have the batch."""
        lane.on_wire -= 1
        batch.in_doubt = True
        if not batch.done:
            self._again(lane, batch, error, now)

    def delivered_blindly(self, lane: PartitionSendState, batch: Batch, now: float) -> None:
        """Complete a batch that was written to the connection, because no answer will come (acks=0)."""
        lane.on_wire -= 1
        lane.sequences.acked(batch)
        self._counters.sent(batch, now)
        batch.complete(-1)

    def give_up(self, lane: PartitionSendState, batch: Batch, error: MoldauError) -> None:
        """Fail a batch."""
        lane.drop(batch)
        lane.sequences.given_up(batch)
        self._transactions.batch_failed(lane.partition, error)
        self._counters.failed(batch)
        batch.fail(error)

    def expire(self, lanes: Iterable[PartitionSendState], now: float) -> float:
        """Fail all batches older than delivery.timeout.ms. Return the time when the next one will be."""
        oldest = NEVER
        limit = now - self._config.delivery_timeout_s
        for lane in lanes:
            for batch in [*lane.sequences.in_flight, *lane.waiting]:
                if batch.done:
                    continue
                if batch.created_at <= limit:
                    on_wire = lane.was_sent(batch) and all(one is not batch for one in lane.waiting)
                    batch.in_doubt = batch.in_doubt or on_wire
                    self.give_up(lane, batch, self._out_of_time(lane, batch))
                else:
                    oldest = min(oldest, batch.created_at)
            while (begun := self._accumulator.oldest(lane.queue)) <= limit:
                late = self._accumulator.take(lane.queue, even_if_not_due=True)
                assert late is not None
                self.give_up(lane, late, self._out_of_time(lane, late))
            oldest = min(oldest, begun)
        return oldest + self._config.delivery_timeout_s

    def _out_of_time(self, lane: PartitionSendState, batch: Batch) -> MoldauError:
        tried = f"{batch.attempts} attempts" if batch.attempts != 1 else "1 attempt"
        why = f"; the last error: {lane.last_error}" if lane.last_error is not None else ""
        if not batch.attempts and lane.leader < 0:
            why = "; the partition has no leader"
        doubt = "; the broker may have written them nevertheless" if batch.in_doubt else ""
        return TimedOut(
            f"{batch.count} records for {lane.partition} were not delivered within delivery.timeout.ms "
            f"({self._config.delivery_timeout_s:g} s), after {tried}{why}{doubt}"
        )

    def _again(self, lane: PartitionSendState, batch: Batch, error: MoldauError, now: float) -> None:
        lane.last_error = error
        if not error.retriable and batch.sequence < 0:
            self.give_up(lane, batch, error)
            return
        if batch.attempts > self._config.retries:
            self.give_up(lane, batch, error)
            return
        if batch.created_at + self._config.delivery_timeout_s <= now:
            self.give_up(lane, batch, self._out_of_time(lane, batch))
            return
        self._counters.retried(batch)
        # Only the first batch makes the lane pause: the others failed because of it.
        if lane.sequences.is_first(batch):
            lane.failures += 1
            lane.resume_at = now + self._config.retry_backoff.pause(lane.failures, self._chance())
        lane.put_back(batch)

    def _split(self, lane: PartitionSendState, batch: Batch) -> None:
        parts = split(self._accumulator, batch)
        lane.sequences.replaced(batch, parts)
        for part in parts:
            lane.put_back(part)  # not simply in front: an earlier batch may be waiting for its retry
        self._counters.split(batch)
