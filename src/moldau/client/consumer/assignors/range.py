"""Range assignor: each member gets consecutive partitions per topic, the same ones of topics of equal size."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.client.consumer.assignors.assignor import Assignment, Assignor, Members, in_order
from moldau.client.data_types import TopicPartition


class RangeAssignor(Assignor):
    """For every topic, the first members get one partition more if the division has a remainder."""

    name = "range"

    def assign(self, partitions: Mapping[str, int], members: Members) -> Assignment:
        given: Assignment = {member: [] for member in members}
        order = in_order(members)
        for topic in sorted(partitions):
            readers = [member for member in order if topic in members[member].topics]
            if not readers:
                continue
            share, extra = divmod(partitions[topic], len(readers))
            first = 0
            for place, member in enumerate(readers):
                last = first + share + (place < extra)
                given[member] += [TopicPartition(topic, index) for index in range(first, last)]
                first = last
        return given
