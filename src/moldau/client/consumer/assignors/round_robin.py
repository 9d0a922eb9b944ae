"""Round-robin: all partitions of all topics are dealt out one by one, like cards."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

from moldau.client.consumer.assignors.model import Assignment, Assignor, Members, in_order
from moldau.client.model import TopicPartition


class RoundRobinAssignor(Assignor):
    """Members that do not subscribe to a topic are passed over."""

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
