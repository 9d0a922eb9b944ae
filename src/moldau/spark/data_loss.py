"""Data loss: detects records that a query can no longer read; `failOnDataLoss` makes that an error or a warning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from moldau.client.data_types import TopicPartition
from moldau.client.errors import MoldauError
from moldau.host.event_log import event_logger
from moldau.spark.offsets import StreamOffset
from moldau.spark.options import SourceSubscription
from moldau.spark.planning import OffsetRange

log = event_logger(__name__)

SHOWN = 10
"""The number of losses that a message lists."""


class DataLoss(MoldauError):
    """Records that the query should have read no longer exist."""


class WrongCheckpoint(MoldauError):
    """The checkpoint was written by a query that reads other topics."""


@dataclass(frozen=True)
class TopicShape:
    """The current id and partitions of a topic."""

    id: str
    """32 hex digits, or "" from a broker without topic ids."""
    partitions: tuple[int, ...]
    """The partitions that the query reads."""


@dataclass(frozen=True)
class Loss:
    """One loss, in one partition."""

    partition: TopicPartition
    text: str


def report(losses: Sequence[Loss], *, fail: bool) -> None:
    """Raise DataLoss, or log a warning and let the query continue without the lost records."""
    if not losses:
        return
    text = "; ".join(loss.text for loss in losses[:SHOWN])
    if len(losses) > SHOWN:
        text += f"; and {len(losses) - SHOWN} more"
    if fail:
        raise DataLoss(f"{text}. To continue without these records, set the option failOnDataLoss to false")
    log.warning("records are lost; the query continues because failOnDataLoss is false", extra={"reason": text})


def subscribed(
    partitions: Iterable[TopicPartition], subscription: SourceSubscription, *, fail: bool
) -> frozenset[TopicPartition]:
    """The partitions of a checkpoint that the query subscribes to. Others are an error or a warning."""
    known = frozenset(partitions)
    own = frozenset(partition for partition in known if subscription.covers(partition))
    if own == known:
        return own
    others = sorted({partition.topic for partition in known - own})
    text = (
        f"the checkpoint belongs to a query on {', '.join(map(repr, others[:SHOWN]))}, and this query has "
        f"{subscription}"
    )
    if fail:
        raise WrongCheckpoint(f"{text}: use another checkpointLocation for another query")
    log.warning(
        "the checkpoint has other topics, which are ignored because failOnDataLoss is false", extra={"reason": text}
    )
    return own


def still_valid(start: StreamOffset, topics: Mapping[str, TopicShape]) -> tuple[dict[TopicPartition, int], list[Loss]]:
    """The offsets of a query that are still valid, and the losses in the other partitions."""
    valid: dict[TopicPartition, int] = {}
    losses = []
    for partition, offset in sorted(start.offsets.items()):
        shape = topics.get(partition.topic)
        known_id = start.ids.get(partition.topic, "")
        where = f"{partition} from offset {offset} on cannot be read"
        if shape is None:
            losses.append(Loss(partition, f"{where}: topic {partition.topic!r} does not exist any more"))
        elif known_id and shape.id and known_id != shape.id:
            text = f"{where}: topic {partition.topic!r} was deleted and created again (id {known_id}, now {shape.id})"
            losses.append(Loss(partition, f"{text}; the query reads the new topic from its beginning"))
        elif partition.partition not in shape.partitions:
            losses.append(Loss(partition, f"{where}: the topic has no such partition any more"))
        else:
            valid[partition] = offset
    return valid, losses


def cut_short(begin: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> list[Loss]:
    """Partitions that now end before the query's position."""
    return [
        Loss(
            partition,
            (f"{partition} ends at offset {latest[partition]}, but the query had already read up to {offset}"),
        )
        for partition, offset in sorted(begin.items())
        if latest.get(partition, offset) < offset
    ]


def begun_late(earliest: Mapping[TopicPartition, int]) -> list[Loss]:
    """New partitions whose first records were deleted before the query saw them."""
    return [
        Loss(partition, f"{partition} is new to the query and begins at offset {offset}: earlier records were deleted")
        for partition, offset in sorted(earliest.items())
        if offset > 0
    ]


def overtaken(
    ranges: Iterable[OffsetRange], earliest: Mapping[TopicPartition, int]
) -> tuple[list[OffsetRange], list[Loss]]:
    """The parts of the ranges that are still there after retention or DeleteRecords moved the log start offset."""
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
    """The loss of the part of this range before `first`, where the partition now begins."""
    lost = f"{one.topic_partition} has lost offsets {one.start} to {min(first, one.until) - 1}"
    why = f"they were deleted before the query read them, and the partition now begins at {first}"
    return Loss(one.topic_partition, f"{lost}: {why}")


def gone_topics(ranges: Iterable[OffsetRange], topics: Mapping[str, TopicShape]) -> list[Loss]:
    """Ranges of a logged batch whose topic was deleted or replaced: none of their records can be read again."""
    found = []
    for one in ranges:
        shape = topics.get(one.topic)
        where = f"{one.topic_partition}, offsets {one.start} to {one.until - 1}, cannot be read"
        if shape is None:
            found.append(Loss(one.topic_partition, f"{where}: topic {one.topic!r} does not exist any more"))
        elif one.topic_id and shape.id and one.topic_id != shape.id:
            text = f"{where}: topic {one.topic!r} was deleted and created again (id {one.topic_id}, now {shape.id})"
            found.append(Loss(one.topic_partition, text))
        elif one.partition not in shape.partitions:
            found.append(Loss(one.topic_partition, f"{where}: the topic has no such partition any more"))
    return found
