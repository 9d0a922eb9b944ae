"""Reading whole topics without a group: every partition of what is subscribed to is assigned, and what is added later."""

from __future__ import annotations

from collections import deque

from moldau.client.consumer.model import CallbackDue
from moldau.client.consumer.subscription import Subscription
from moldau.client.metadata import ClusterMetadata
from moldau.client.model import TopicPartition


class WholeTopics:
    """Assigns what the metadata shows. Pure, and loop-owned."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._due: deque[CallbackDue] = deque()

    def assign(self, metadata: ClusterMetadata) -> None:
        """Assign what is there now. A topic that cannot be seen at the moment keeps what it has."""
        topics = self._subscription.topics
        have = list(self._subscription.assigned)
        gone = [partition for partition in have if partition.topic not in topics]
        new = [
            partition
            for name in topics
            for index in range(metadata.partition_count(name))
            if (partition := TopicPartition(name, index)) not in self._subscription.assigned
        ]
        if gone:
            self._due.append(CallbackDue("revoked", tuple(sorted(gone))))
        if new:
            self._due.append(CallbackDue("assigned", tuple(sorted(new))))
        self._subscription.take_assignment([partition for partition in have if partition not in gone] + new)

    def callback_due(self) -> CallbackDue | None:
        return self._due[0] if self._due else None

    def callback_done(self, due: CallbackDue) -> None:
        self._due.remove(due)
