"""Drafts: new states of single partitions, combined into one change per topic.

The store keeps one node per topic, so all changes of a topic's partitions at the same time are one write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from moldau.cluster.changes import PartitionsChanged
from moldau.cluster.image import ClusterImage, PartitionState
from moldau.cluster.image_publisher import Step
from moldau.cluster.store import Check
from moldau.wire.topic_partition import TopicPartition


class PartitionUpdates:
    """New partition states, based on one image."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._states: dict[str, dict[int, PartitionState]] = {}
        self._places: dict[str, list[int]] = {}
        self._checks: dict[str, dict[Check, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._states)

    def __contains__(self, partition: TopicPartition) -> bool:
        topic, index = partition
        return index in self._states.get(topic, {})

    def put(
        self, topic: str, index: int, state: PartitionState, place: int | None = None, checks: Sequence[Check] = ()
    ) -> None:
        """Add a partition's new state, the index of the request that wants it, and the checks that its commit must
        pass."""
        self._states.setdefault(topic, {})[index] = state
        if place is not None:
            self._places.setdefault(topic, []).append(place)
        if checks:
            self._checks.setdefault(topic, {}).update(dict.fromkeys(checks))

    def steps(self) -> list[Step]:
        """One step per topic."""
        steps = []
        for name, states in self._states.items():
            topic = self._image.topics[name]
            partitions = list(topic.partitions)
            for index, state in states.items():
                partitions[index] = state
            change = PartitionsChanged(replace(topic, partitions=tuple(partitions)))
            steps.append(Step(change, tuple(self._places.get(name, ())), tuple(self._checks.get(name, ()))))
        return steps
