"""Range: each topic is cut into runs of neighbouring partitions, one a member: equal partitions of two topics meet."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.client.consumer.assignors.model import Assignment, Assignor, Members, in_order
from moldau.client.model import TopicPartition


class RangeAssignor(Assignor):
    """The first members get one partition more, of every topic."""

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
