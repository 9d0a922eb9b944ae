"""Reconciliation: the logs that a broker finds when it starts, against those that the image says it has. Pure.

Creation is stored before logs are made, and deletion before they go, so after a crash either side may lack the other.
What is missing is to be made. What is stray is to be reported and kept, at most moved out of the way of a log that is
to be made: deleting data that nobody knows is an operator's decision.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from moldau.cluster.image import ClusterImage, TopicImage
from moldau.cluster.nodes import id_text


class FoundLog(NamedTuple):
    """A log directory as it was found: named after topic and partition, with the topic's id in it, or None."""

    topic: str
    partition: int
    topic_id: bytes | None


class Stray(NamedTuple):
    """A log that belongs to nothing here, and why. One that is in the way has the place of a missing log."""

    log: FoundLog
    reason: str
    in_the_way: bool


class Reconciliation(NamedTuple):
    """`missing` are (topic, partition) to be made; `stray` are logs to be reported."""

    missing: tuple[tuple[TopicImage, int], ...]
    stray: tuple[Stray, ...]


def reconcile(image: ClusterImage, broker_id: int, found: Iterable[FoundLog]) -> Reconciliation:
    """Compares the image with what is on this broker's disks."""
    reasons = [(log, _stray_reason(image, broker_id, log)) for log in found]
    held = {(log.topic, log.partition) for log, reason in reasons if reason is None}
    missing = {
        (topic.name, index): (topic, index)
        for topic in image.topics.values()
        for index, state in enumerate(topic.partitions)
        if broker_id in state.replicas and (topic.name, index) not in held
    }
    stray = [
        Stray(log, reason, in_the_way=(log.topic, log.partition) in missing)
        for log, reason in reasons
        if reason is not None
    ]
    return Reconciliation(tuple(missing.values()), tuple(stray))


def _stray_reason(image: ClusterImage, broker_id: int, log: FoundLog) -> str | None:
    topic = image.topics.get(log.topic)
    if topic is None:
        return "its topic does not exist"
    if log.topic_id is not None and log.topic_id != topic.id:
        return f"it is of an older topic of that name: its id is {id_text(log.topic_id)}, not {id_text(topic.id)}"
    if log.partition >= len(topic.partitions):
        return f"its topic has {len(topic.partitions)} partition(s) only"
    if broker_id not in topic.partitions[log.partition].replicas:
        return f"broker {broker_id} is not among its replicas"
    return None
