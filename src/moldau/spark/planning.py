"""Which offsets a batch reads, and how they are cut into Spark's partitions; pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from moldau.client.model import TopicPartition

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The records of one partition from one offset up to, and not including, another: what a task reads."""

    topic: str
    topic_id: str
    """32 hex digits, or "" where the broker knows none: the task makes sure that it is still that topic."""
    partition: int
    start: int
    until: int

    @property
    def size(self) -> int:
        """Offsets, that is: at most so many records. Compaction and transactions leave gaps."""
        return self.until - self.start

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def between(self, start: int, until: int) -> OffsetRange:
        return OffsetRange(self.topic, self.topic_id, self.partition, start, until)


def ranges(begin: Offsets, end: Offsets, ids: Mapping[str, str]) -> list[OffsetRange]:
    """What lies between two places, partition by partition; nothing for those where nothing does."""
    return [
        OffsetRange(partition.topic, ids.get(partition.topic, ""), partition.partition, begin[partition], until)
        for partition, until in sorted(end.items())
        if begin[partition] < until
    ]


# How much a micro-batch takes -----------------------------------------------------------------------------------------


def backlog(begin: Offsets, latest: Offsets) -> int:
    """How many offsets are there to be read."""
    return sum(max(until - begin[partition], 0) for partition, until in latest.items())


def limited(begin: Offsets, latest: Offsets, limit: int) -> dict[TopicPartition, int]:
    """Where a batch of at most `limit` offsets ends: each partition gives in proportion to what it has.

    No partition that has something is left out, however small its share: else one that is flooded would starve the
    others. So a limit below the number of such partitions is exceeded.
    """
    sizes = {partition: until - begin[partition] for partition, until in latest.items() if until > begin[partition]}
    total = sum(sizes.values())
    if total <= limit:
        return dict(latest)
    spare = max(limit - len(sizes), 0)
    # Everyone gets one, and of the rest a share of what they have beyond it. Rounding down leaves less than one
    # each to hand out; those who lost most by it are served first.
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
    """Whether there is enough for a batch (minOffsetsPerTrigger), or too little for too long (maxTriggerDelay)."""
    return waiting >= least or last_batch_ms is None or now_ms - last_batch_ms >= max_delay_ms


# How it is cut --------------------------------------------------------------------------------------------------------


def split(whole: Sequence[OffsetRange], at_least: int | None, max_records: int | None) -> list[OffsetRange]:
    """One task a partition; more where a range is above `max_records` offsets, or where `at_least` tasks are wanted.

    The largest pieces are cut first, so that what comes out is as even as `at_least` allows.
    """
    parts = [-(-one.size // max_records) if max_records else 1 for one in whole]
    missing = (at_least or 0) - sum(parts)
    if missing > 0:
        _cut_largest(whole, parts, missing)
    return [piece for one, count in zip(whole, parts, strict=True) for piece in _pieces(one, count)]


def grouped(pieces: Sequence[OffsetRange], at_most: int | None) -> list[tuple[OffsetRange, ...]]:
    """What each task reads: one piece, or several where no more than `at_most` tasks are wanted.

    A task costs Spark more than reading a small range does. The largest go first, each to the task that has least yet.
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
