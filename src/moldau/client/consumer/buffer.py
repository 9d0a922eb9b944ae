"""Fetched records that wait for the application: a queue a partition, partitions in turn.

Pure, and owned by the event loop. What is handed out continues exactly where the partition stands: a source whose
version is not the partition's (there was a seek, a reset, a new assignment) or that begins anywhere else is dropped,
and the fetcher asks again from the position. So a mistake elsewhere can cost a fetch, but never a record.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from moldau.client.consumer.decode import Record
from moldau.client.consumer.handout import Handout, Span
from moldau.client.consumer.run import Failure, Source
from moldau.client.consumer.subscription import PartitionState, Subscription
from moldau.client.errors import MoldauError
from moldau.client.model import TopicPartition

if TYPE_CHECKING:
    from moldau.records.arrow import ArrowRows


class FetchBuffer:
    """Sources of records by partition. See the module's rule."""

    __slots__ = ("_held", "_sources", "_subscription", "_turns", "drained", "held")

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._sources: dict[TopicPartition, deque[Source]] = {}  # none of these is empty
        self._turns: deque[TopicPartition] = deque()  # the same partitions, the next one first
        self._held: dict[TopicPartition, int] = {}
        self.held = 0  # bytes in all
        self.drained = False  # something has been used up since somebody set this to False

    def __bool__(self) -> bool:
        return bool(self._turns)

    # -- what comes in ---------------------------------------------------------------------------------------------

    def add(self, source: Source) -> bool:
        """Queue what an answer brought; False where it does not continue what is there, and is dropped."""
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

    def give_back(self, handout: Handout) -> None:
        """Put what the application has not seen of `handout` before everything else, and positions back with it.

        Whoever moves a position for the application takes the rest back first. So if it has moved by now, that was on
        behalf of what was learnt about the log, at a point that the application has not come to: it goes on from where
        it is, and everything from there on is fetched, and judged, again.
        """
        for span, source in reversed(handout.take_back()):
            state = self._subscription.assigned.get(source.partition)
            if state is not span.state or state.topic_id != span.topic_id:
                continue  # no longer ours, or another topic of that name
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

    def next_offset(self, state: PartitionState) -> tuple[int | None, int]:
        """Where the next fetch for a partition begins, and the epoch of what stands before that."""
        self._drop_stale(state.partition)
        sources = self._sources.get(state.partition)
        if sources is None:
            return state.position, state.epoch
        return sources[-1].end, sources[-1].end_epoch

    def size(self, partition: TopicPartition) -> int:
        """Bytes that wait for one partition."""
        return self._held.get(partition, 0)

    def failed(self, partition: TopicPartition) -> bool:
        """Whether an error waits to be told, behind which nothing is to be fetched."""
        sources = self._sources.get(partition)
        return sources is not None and isinstance(sources[-1], Failure)

    # -- what goes out ---------------------------------------------------------------------------------------------

    def take(self, limit: int, piece: int = 0) -> Handout:
        """At most `limit` records, and all positions with them; iteration may be recalled after a `piece`.

        An error is raised when it is the very next thing; what comes before it is handed out first.
        """
        records: list[Record] = []
        spans: list[Span] = []
        for _ in range(len(self._turns)):  # each partition once
            partition = self._turns[0]
            state = self._drop_stale(partition)
            if state is None:
                continue
            if not state.fetchable:
                self._turns.rotate(-1)  # what is paused keeps its data
                continue
            try:
                self._take_from(state, records, spans, limit)
            except MoldauError:
                if not records:
                    raise
                break
            if len(records) >= limit:
                break
        return Handout(records, spans, piece)

    def _take_from(self, state: PartitionState, records: list[Record], spans: list[Span], limit: int) -> None:
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
                        sources.popleft()  # told once: whether it still holds, the next fetch will say
                    raise
                finally:
                    state.handed_out(source.position, source.epoch)
                if source.done:
                    sources.popleft()
                    used_up = self.drained = True
                elif len(records) < limit:
                    break  # it gives nothing now
        finally:
            if len(records) > first:
                taken = (first, len(records), before, epoch_before, state.position, state.epoch)
                spans.append(Span(partition, state, state.version, state.topic_id, *taken))
            self._settle(partition, sources, used_up)

    def take_rows(self, rows: ArrowRows, limit: int) -> None:
        """At most `limit` rows into a table; else as `take`, and all of them are the application's at once."""
        for _ in range(len(self._turns)):  # each partition once
            partition = self._turns[0]
            state = self._drop_stale(partition)
            if state is None:
                continue
            if not state.fetchable:
                self._turns.rotate(-1)
                continue
            try:
                self._take_rows_from(state, rows, limit)
            except MoldauError:
                if not rows.rows:
                    raise
                return
            if rows.rows >= limit or rows.full:
                return

    def _take_rows_from(self, state: PartitionState, rows: ArrowRows, limit: int) -> None:
        sources = self._sources[state.partition]
        used_up = False
        try:
            while sources and rows.rows < limit and not rows.full:
                source = sources[0]
                try:
                    if not source.take_rows(rows, limit - rows.rows):
                        state.fetch_again()  # decoded already, and taken back from an iterator: a rare way to go
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
            self._settle(state.partition, sources, used_up)

    def _settle(self, partition: TopicPartition, sources: deque[Source], used_up: bool) -> None:
        if not sources:
            self._forget(partition)
            return
        self._account(partition)
        if used_up:
            self._turns.rotate(-1)  # now the others

    # -- what goes away --------------------------------------------------------------------------------------------

    def _drop_stale(self, partition: TopicPartition) -> PartitionState | None:
        """Let go of what no longer continues the partition; its state, if something is left."""
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
        """Give free what was fetched for partitions that are no longer assigned, or that have moved."""
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
