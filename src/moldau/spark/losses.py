"""What a query can no longer read, and what is done about it: `failOnDataLoss` makes it an error or a warning."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from moldau.client.errors import MoldauError
from moldau.client.model import TopicPartition
from moldau.spark.offsets import StreamOffset
from moldau.spark.planning import OffsetRange

logger = logging.getLogger(__name__)

SHOWN = 10
"""How many losses a message names one by one."""


class DataLoss(MoldauError):
    """Records that the query should have read are gone."""


@dataclass(frozen=True)
class TopicShape:
    """A topic as it is now."""

    id: str
    """32 hex digits, or "" from a broker that knows no ids."""
    partitions: tuple[int, ...]
    """Those that the query reads."""


@dataclass(frozen=True)
class Loss:
    """One thing that is gone."""

    partition: TopicPartition
    text: str


def report(losses: Sequence[Loss], *, fail: bool) -> None:
    """Raises, or warns and lets the query go on with what there is."""
    if not losses:
        return
    text = "; ".join(loss.text for loss in losses[:SHOWN])
    if len(losses) > SHOWN:
        text += f"; and {len(losses) - SHOWN} more"
    if fail:
        raise DataLoss(f"{text}. To go on without these records, set the option failOnDataLoss to false")
    logger.warning("%s. The query goes on without these records, because failOnDataLoss is false", text)


def still_valid(start: StreamOffset, topics: Mapping[str, TopicShape]) -> tuple[dict[TopicPartition, int], list[Loss]]:
    """Which of a query's offsets still mean something, and what was lost with the others."""
    valid: dict[TopicPartition, int] = {}
    losses = []
    for partition, offset in sorted(start.offsets.items()):
        shape = topics.get(partition.topic)
        known_id = start.ids.get(partition.topic, "")
        where = f"{partition} from offset {offset} on cannot be read"
        if shape is None:
            losses.append(Loss(partition, f"{where}: topic {partition.topic!r} is gone"))
        elif known_id and shape.id and known_id != shape.id:
            text = f"{where}: topic {partition.topic!r} was deleted and created again (id {known_id}, now {shape.id})"
            losses.append(Loss(partition, f"{text}; the new topic is another one and is read from its beginning"))
        elif partition.partition not in shape.partitions:
            losses.append(Loss(partition, f"{where}: the topic has no such partition any more"))
        else:
            valid[partition] = offset
    return valid, losses


def cut_short(begin: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> list[Loss]:
    """Partitions that end before where the query already is: something took their end away."""
    return [
        Loss(partition, f"{partition} ends at offset {latest[partition]}, and the query had read up to {offset}")
        for partition, offset in sorted(begin.items())
        if latest.get(partition, offset) < offset
    ]


def begun_late(earliest: Mapping[TopicPartition, int]) -> list[Loss]:
    """New partitions whose first records aged out before the query saw them."""
    return [
        Loss(partition, f"{partition} is new to the query and begins at offset {offset}: what was before that is gone")
        for partition, offset in sorted(earliest.items())
        if offset > 0
    ]


def overtaken(
    ranges: Iterable[OffsetRange], earliest: Mapping[TopicPartition, int]
) -> tuple[list[OffsetRange], list[Loss]]:
    """What of the ranges is left where retention or a deletion of records has moved the beginning of the log."""
    left = []
    losses = []
    for one in ranges:
        first = earliest[one.topic_partition]
        if first > one.start:
            losses.append(gone_before(one, first))
        if first < one.until:
            left.append(one.between(max(one.start, first), one.until))
    return left, losses


def gone_before(one: OffsetRange, first: int) -> Loss:
    """The partition begins at `first` now: what of this range was before that is gone."""
    lost = f"{one.topic_partition} has lost offsets {one.start} to {min(first, one.until) - 1}"
    why = f"they aged out or were deleted before the query read them, and the partition begins at {first} now"
    return Loss(one.topic_partition, f"{lost}: {why}")


def gone_topics(ranges: Iterable[OffsetRange], topics: Mapping[str, TopicShape]) -> list[Loss]:
    """Ranges of a logged batch whose topic is not the same any more: nothing of them can be read again."""
    found = []
    for one in ranges:
        shape = topics.get(one.topic)
        where = f"{one.topic_partition}, offsets {one.start} to {one.until - 1}, cannot be read"
        if shape is None:
            found.append(Loss(one.topic_partition, f"{where}: topic {one.topic!r} is gone"))
        elif one.topic_id and shape.id and one.topic_id != shape.id:
            text = f"{where}: topic {one.topic!r} was deleted and created again (id {one.topic_id}, now {shape.id})"
            found.append(Loss(one.topic_partition, text))
        elif one.partition not in shape.partitions:
            found.append(Loss(one.topic_partition, f"{where}: the topic has no such partition any more"))
    return found
