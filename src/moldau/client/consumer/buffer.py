"""Fetch buffer: fetched records that wait for the application, one queue per partition, served round-robin.

No I/O; owned by the event loop. Records that are taken continue exactly at the partition's position. A source is
dropped if it starts at another offset, or if its version is not that of the partition (after a seek, a reset or a new
assignment); the fetcher then fetches from the position again. So a mistake elsewhere can cost a fetch, but never a
record.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from moldau.client.consumer.decode import Record
from moldau.client.consumer.fetched_partition import Failure, RecordSource
from moldau.client.consumer.poll_results import PollResults, RowResults, RowSpan, Span
from moldau.client.consumer.subscription import AssignedPartition, Subscription
from moldau.client.data_types import TopicPartition
from moldau.client.errors import MoldauError

if TYPE_CHECKING:
    from moldau.records.arrow import ArrowRows


class FetchBuffer:
    """Record sources per partition. See the module's rule."""

    __slots__ = ("_held", "_sources", "_subscription", "_turns", "drained", "held")

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._sources: dict[TopicPartition, deque[RecordSource]] = {}  # without empty queues
        self._turns: deque[TopicPartition] = deque()  # the same partitions, in the order in which they are served
        self._held: dict[TopicPartition, int] = {}
        self.held = 0  # bytes of all partitions
        self.drained = False  # a source was used up since the fetcher set this to False

    def __bool__(self) -> bool:
        return bool(self._turns)

    # -- adding ----------------------------------------------------------------------------------------------------

    def add(self, source: RecordSource) -> bool:
        """Queue the records of a response. Return False if they do not continue the queue, and are dropped."""
        state = self._subscription.current(source.partition, source.version)
        if state is None or self.next_offset(state)[0] != source.position:
            return False
        sources = self._sources.get(source.partition)
        if sources is None:
            sources = self._sources[source.partition] = deque()
            self._turns.append(source.partition)
        sources.append(source)
        self._account(source.partition)
        return True

    def give_back(self, results: PollResults) -> None:
        """Put the records that the application has not seen first in their queues, and move positions back to them.

        Calls of the application that move a position take records back first. So if the version of a partition has
        changed by now, something was learnt about its log at an offset that the application has not reached: a
        truncation, or a reset. The application continues at its own offset, and everything from there on is fetched
        and checked again.
        """
        for span, source in reversed(results.take_back()):
            state = self._subscription.assigned.get(source.partition)
            if state is not span.state or state.topic_id != span.topic_id:
                continue  # revoked, or the topic was deleted and created again under the same name
            self._drop_stale(source.partition)
            if state.version != source.version:
                state.seek(source.position, source.epoch)
                self.drained = True
                continue
            state.handed_out(source.position, source.epoch)
            if source.partition in self._sources:
                self._turns.remove(source.partition)
            self._sources.setdefault(source.partition, deque()).appendleft(source)
            self._turns.appendleft(source.partition)

    def give_back_rows(self, results: RowResults) -> None:
        """Move positions back to rows that the application did not get. They are fetched again: this is rare."""
        for span in results.unread_spans():
            state = self._subscription.assigned.get(span.partition)
            if state is not span.state or state.topic_id != span.topic_id:
                continue  # as in `give_back`
            if state.version == span.version:
                state.handed_out(span.position_before, span.epoch_before)
                self._drop_stale(span.partition)
            else:
                state.seek(span.position_before, span.epoch_before)
            self.drained = True

    def next_offset(self, state: AssignedPartition) -> tuple[int | None, int]:
        """Return the offset at which the next fetch for a partition starts, and the epoch of the record before it."""
        self._drop_stale(state.partition)
        sources = self._sources.get(state.partition)
        if sources is None:
            return state.position, state.epoch
        return sources[-1].end, sources[-1].end_epoch

    def size(self, partition: TopicPartition) -> int:
        """Return the bytes that are buffered for one partition."""
        return self._held.get(partition, 0)

    def failed(self, partition: TopicPartition) -> bool:
        """Return whether the queue ends with an error. Nothing is fetched after it."""
        sources = self._sources.get(partition)
        return sources is not None and isinstance(sources[-1], Failure)

    # -- taking ----------------------------------------------------------------------------------------------------

    def take(self, limit: int, piece: int = 0) -> PollResults:
        """Take at most `limit` records and move the positions; an iteration can be recalled after each `piece`.

        An error is raised only if it is first in line; the records before it are returned first.
        """
        records: list[Record] = []
        spans: list[Span] = []
        for _ in range(len(self._turns)):  # each partition once
            partition = self._turns[0]
            state = self._drop_stale(partition)
            if state is None:
                continue
            if not state.fetchable:
                self._turns.rotate(-1)  # a paused partition keeps its records
                continue
            try:
                self._take_from(state, records, spans, limit)
            except MoldauError:
                if not records:
                    raise
                break
            if len(records) >= limit:
                break
        return PollResults(records, spans, piece)

    def _take_from(self, state: AssignedPartition, records: list[Record], spans: list[Span], limit: int) -> None:
        partition = state.partition
        sources = self._sources[partition]
        first = len(records)
        assert state.position is not None
        before, epoch_before = state.position, state.epoch
        used_up = False
        try:
            while sources and len(records) < limit:
                source = sources[0]
                try:
                    source.take(records, limit - len(records))
                except MoldauError:
                    if isinstance(source, Failure) and not records:
                        sources.popleft()  # raised once: the next fetch finds out whether the error persists
                    raise
                finally:
                    state.handed_out(source.position, source.epoch)
                if source.done:
                    sources.popleft()
                    used_up = self.drained = True
                elif len(records) < limit:
                    break  # the source has nothing more at the moment
        finally:
            if len(records) > first:
                taken = (first, len(records), before, epoch_before, state.position, state.epoch)
                spans.append(Span(partition, state, state.version, state.topic_id, *taken))
            self._after_take(partition, sources, used_up)

    def take_rows(self, rows: ArrowRows, limit: int) -> list[RowSpan]:
        """Like `take`, for at most `limit` rows of a table."""
        spans: list[RowSpan] = []
        for _ in range(len(self._turns)):  # each partition once
            partition = self._turns[0]
            state = self._drop_stale(partition)
            if state is None:
                continue
            if not state.fetchable:
                self._turns.rotate(-1)
                continue
            try:
                self._take_rows_from(state, rows, spans, limit)
            except MoldauError:
                if not rows.rows:
                    raise
                break
            if rows.rows >= limit or rows.full:
                break
        return spans

    def _take_rows_from(self, state: AssignedPartition, rows: ArrowRows, spans: list[RowSpan], limit: int) -> None:
        sources = self._sources[state.partition]
        first = rows.rows
        assert state.position is not None
        span = RowSpan(state.partition, state, state.version, state.topic_id, state.position, state.epoch)
        used_up = False
        try:
            while sources and rows.rows < limit and not rows.full:
                source = sources[0]
                try:
                    if not source.take_rows(rows, limit - rows.rows):
                        state.fetch_again()  # records taken back from an iterator are decoded already; this is rare
                        self.drained = True
                        return
                except MoldauError:
                    if isinstance(source, Failure) and not rows.rows:
                        sources.popleft()
                    raise
                finally:
                    state.handed_out(source.position, source.epoch)
                if not source.done:
                    break
                sources.popleft()
                used_up = self.drained = True
        finally:
            if rows.rows > first:
                spans.append(span)
            self._after_take(state.partition, sources, used_up)

    def _after_take(self, partition: TopicPartition, sources: deque[RecordSource], used_up: bool) -> None:
        if not sources:
            self._forget(partition)
            return
        self._account(partition)
        if used_up:
            self._turns.rotate(-1)  # the other partitions are next

    # -- dropping --------------------------------------------------------------------------------------------------

    def _drop_stale(self, partition: TopicPartition) -> AssignedPartition | None:
        """Drop the queue if it does not continue at the position. Return the partition's state if the queue is kept."""
        sources = self._sources.get(partition)
        if sources is None:
            return None
        state = self._subscription.current(partition, sources[0].version)
        if state is None or state.position != sources[0].position:
            self._forget(partition)
            self.drained = True
            return None
        return state

    def drop_unassigned(self) -> None:
        """Drop records of partitions that are no longer assigned, or whose position was moved."""
        for partition in list(self._sources):
            self._drop_stale(partition)

    def _forget(self, partition: TopicPartition) -> None:
        del self._sources[partition]
        self._turns.remove(partition)
        self.held -= self._held.pop(partition, 0)

    def _account(self, partition: TopicPartition) -> None:
        size = sum(source.size for source in self._sources[partition])
        self.held += size - self._held.get(partition, 0)
        self._held[partition] = size
