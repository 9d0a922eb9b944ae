"""Planning of a batch: the offsets to read, divided into Spark's partitions. Pure functions."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from moldau.client.data_types import TopicPartition

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The records of one partition from offset `start` up to `until`, without `until`: the input of a task."""

    topic: str
    topic_id: str
    """32 hex digits, or "" if the broker has no topic ids. The task checks that it reads the same topic."""
    partition: int
    start: int
    until: int

    @property
    def size(self) -> int:
        """The number of offsets, which is the largest possible number of records: compaction and transactions leave
        gaps."""
        return self.until - self.start

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def between(self, start: int, until: int) -> OffsetRange:
        return OffsetRange(self.topic, self.topic_id, self.partition, start, until)


def ranges(begin: Offsets, end: Offsets, ids: Mapping[str, str]) -> list[OffsetRange]:
    """The non-empty ranges between two bounds, per partition."""
    return [
        OffsetRange(partition.topic, ids.get(partition.topic, ""), partition.partition, begin[partition], until)
        for partition, until in sorted(end.items())
        if begin[partition] < until
    ]


# Size of a micro-batch ------------------------------------------------------------------------------------------------


def backlog(begin: Offsets, latest: Offsets) -> int:
    """The number of offsets that are still to be read."""
    return sum(max(until - begin[partition], 0) for partition, until in latest.items())


def limited(begin: Offsets, latest: Offsets, limit: int) -> dict[TopicPartition, int]:
    """The end of a batch of at most `limit` offsets. Each partition contributes in proportion to its backlog.

    Every partition with a backlog contributes at least one offset; otherwise a very large one would starve the others.
    So a limit below the number of such partitions is exceeded.
    """
    sizes = {partition: until - begin[partition] for partition, until in latest.items() if until > begin[partition]}
    total = sum(sizes.values())
    if total <= limit:
        return dict(latest)
    spare = max(limit - len(sizes), 0)
    # Each partition gets one offset, plus a share of the rest in proportion to its remaining backlog. Rounding down
    # leaves fewer offsets than there are partitions. They go to the partitions that lost most by rounding.
    rest = total - len(sizes)
    shares = {partition: spare * (size - 1) // rest if rest else 0 for partition, size in sizes.items()}
    left = spare - sum(shares.values())
    by_loss = sorted(sizes, key=lambda partition: (-(spare * (sizes[partition] - 1) % max(rest, 1)), partition))
    for partition in by_loss[:left]:
        shares[partition] += 1
    return {
        partition: begin[partition] + 1 + shares[partition] if partition in sizes else until
        for partition, until in latest.items()
    }


def worth_a_batch(waiting: int, least: int, now_ms: int, last_batch_ms: int | None, max_delay_ms: int) -> bool:
    """Whether there is enough for a batch (minOffsetsPerTrigger), or the last batch was too long ago
    (maxTriggerDelay)."""
    return waiting >= least or last_batch_ms is None or now_ms - last_batch_ms >= max_delay_ms


# Division into tasks --------------------------------------------------------------------------------------------------


def split(whole: Sequence[OffsetRange], at_least: int | None, max_records: int | None) -> list[OffsetRange]:
    """Split the ranges: one task per partition, more if a range exceeds `max_records` offsets or `at_least` asks for
    more tasks.

    The largest pieces are split first, so that the pieces are as even as possible.
    """
    parts = [-(-one.size // max_records) if max_records else 1 for one in whole]
    missing = (at_least or 0) - sum(parts)
    if missing > 0:
        _cut_largest(whole, parts, missing)
    return [piece for one, count in zip(whole, parts, strict=True) for piece in _pieces(one, count)]


def grouped(pieces: Sequence[OffsetRange], at_most: int | None) -> list[tuple[OffsetRange, ...]]:
    """Group the pieces into tasks: one piece per task, or several if there are more than `at_most` pieces.

    A task costs Spark more than reading a small range. Large pieces are placed first, each in the task with the fewest
    offsets so far.
    """
    if at_most is None or len(pieces) <= at_most:
        return [(piece,) for piece in pieces]
    tasks: list[list[OffsetRange]] = [[] for _ in range(at_most)]
    heap = [(0, index) for index in range(at_most)]
    for piece in sorted(pieces, key=lambda piece: -piece.size):
        held, index = heapq.heappop(heap)
        tasks[index].append(piece)
        heapq.heappush(heap, (held + piece.size, index))
    return [tuple(task) for task in tasks]


def _cut_largest(whole: Sequence[OffsetRange], parts: list[int], missing: int) -> None:
    heap = [(-one.size / parts[index], index) for index, one in enumerate(whole) if one.size > parts[index]]
    heapq.heapify(heap)
    while missing and heap:
        _, index = heapq.heappop(heap)
        parts[index] += 1
        missing -= 1
        if whole[index].size > parts[index]:
            heapq.heappush(heap, (-whole[index].size / parts[index], index))


def _pieces(one: OffsetRange, count: int) -> Iterable[OffsetRange]:
    cuts = [one.start + one.size * index // count for index in range(count + 1)]
    return (one.between(start, until) for start, until in pairwise(cuts))
