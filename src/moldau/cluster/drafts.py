"""Drafts: new states of single partitions, gathered to one change a topic.

State is kept per topic, so whatever happens to its partitions at the same time is one write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from moldau.cluster.changes import PartitionsChanged
from moldau.cluster.image import ClusterImage, PartitionState
from moldau.cluster.store import Check
from moldau.cluster.view import Step


class Drafts:
    """New states over one image."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._states: dict[str, dict[int, PartitionState]] = {}
        self._places: dict[str, list[int]] = {}
        self._checks: dict[str, dict[Check, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._states)

    def __contains__(self, partition: tuple[str, int]) -> bool:
        topic, index = partition
        return index in self._states.get(topic, {})

    def put(
        self, topic: str, index: int, state: PartitionState, place: int | None = None, checks: Sequence[Check] = ()
    ) -> None:
        """A partition's new state, the place of the request that wants it, and what must hold when it is stored."""
        self._states.setdefault(topic, {})[index] = state
        if place is not None:
            self._places.setdefault(topic, []).append(place)
        if checks:
            self._checks.setdefault(topic, {}).update(dict.fromkeys(checks))

    def steps(self) -> list[Step]:
        """One a topic."""
        steps = []
        for name, states in self._states.items():
            topic = self._image.topics[name]
            partitions = list(topic.partitions)
            for index, state in states.items():
                partitions[index] = state
            change = PartitionsChanged(replace(topic, partitions=tuple(partitions)))
            steps.append(Step(change, tuple(self._places.get(name, ())), tuple(self._checks.get(name, ()))))
        return steps
