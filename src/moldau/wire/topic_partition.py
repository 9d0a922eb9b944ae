"""Topic and partition number: the name of a partition in every package, from log directories to clients.

It is here because this is the lowest package. Clients know it as `moldau.TopicPartition`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

T = TypeVar("T", str, bytes)


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def by_topic(partitions: Iterable[tuple[T, int]]) -> dict[T, list[int]]:
    """The partition numbers of each topic (its name or its id), both in ascending order."""
    topics: dict[T, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return topics
