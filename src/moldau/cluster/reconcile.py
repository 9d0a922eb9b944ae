"""Reconciliation: the logs that a broker finds when it starts, against those that the image says it has. Pure.

Creation is stored before logs are made, and deletion before they go, so after a crash either side may lack the other.
What is missing is to be made. What is stray is to be reported and left alone: deleting data that nobody knows is an
operator's decision.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from moldau.cluster.image import ClusterImage, TopicImage
from moldau.cluster.nodes import id_text


@dataclass(frozen=True, slots=True)
class FoundLog:
    """A log directory as it was found: named after a topic and partition, holding the topic's id (None: it has none)."""

    topic: str
    partition: int
    topic_id: bytes | None


@dataclass(frozen=True, slots=True)
class Stray:
    """A log that belongs to nothing here, and why."""

    log: FoundLog
    reason: str


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """`missing` are (topic, partition) to be made; `stray` are logs to be left alone."""

    missing: tuple[tuple[TopicImage, int], ...]
    stray: tuple[Stray, ...]


def reconcile(image: ClusterImage, broker_id: int, found: Iterable[FoundLog]) -> Reconciliation:
    """Compares the image with what is on this broker's disks."""
    stray: list[Stray] = []
    held: set[tuple[str, int]] = set()
    for log in found:
        reason = _stray_reason(image, broker_id, log)
        if reason is None:
            held.add((log.topic, log.partition))
        else:
            stray.append(Stray(log, reason))
    missing = [
        (topic, index)
        for topic in image.topics.values()
        for index, state in enumerate(topic.partitions)
        if broker_id in state.replicas and (topic.name, index) not in held
    ]
    return Reconciliation(tuple(missing), tuple(stray))


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
