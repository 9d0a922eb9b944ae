"""Round-robin assignor: all partitions of all topics are assigned to the members one by one in turn."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

from moldau.client.consumer.assignors.assignor import Assignment, Assignor, Members, in_order
from moldau.client.data_types import TopicPartition


class RoundRobinAssignor(Assignor):
    """Skips members that do not subscribe to the topic."""

    name = "roundrobin"

    def assign(self, partitions: Mapping[str, int], members: Members) -> Assignment:
        given: Assignment = {member: [] for member in members}
        subscribed = {topic for one in members.values() for topic in one.topics}
        turns = cycle(in_order(members))
        for topic in sorted(subscribed & partitions.keys()):
            for index in range(partitions[topic]):
                reader = next(member for member in turns if topic in members[member].topics)
                given[reader].append(TopicPartition(topic, index))
        return given
