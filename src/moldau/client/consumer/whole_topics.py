"""Reading whole topics without a group: every partition of what is subscribed to is assigned, now and later."""

from __future__ import annotations

from collections import deque

from moldau.client.consumer.model import EARLIEST, CallbackDue
from moldau.client.consumer.subscription import Subscription
from moldau.client.metadata import ClusterMetadata
from moldau.client.model import TopicPartition
from moldau.wire.errors import ErrorCode


class WholeTopics:
    """Assigns what the metadata shows. Pure, and loop-owned."""

    def __init__(self, subscription: Subscription, *, internal_too: bool) -> None:
        self._subscription = subscription
        self._internal_too = internal_too
        self._due: deque[CallbackDue] = deque()

    def assign(self, metadata: ClusterMetadata) -> None:
        """Assign what is there now. A topic that cannot be seen at the moment keeps what it has."""
        if metadata.version == 0:
            return  # nothing is known yet, not even that there is nothing
        self._subscription.match(
            name
            for name, topic in metadata.topics.items()
            if topic.error is ErrorCode.NONE and (self._internal_too or not topic.internal)
        )
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
        for partition in new:
            if any(other.topic == partition.topic for other in have):
                # Added to a topic that is being read: whatever is in it came after we did, and is not passed over.
                self._subscription.state(partition).ask_reset(EARLIEST)

    def callback_due(self) -> CallbackDue | None:
        return self._due[0] if self._due else None

    def callback_done(self, due: CallbackDue) -> None:
        if due in self._due:
            self._due.remove(due)

    def farewell(self) -> CallbackDue | None:
        """What the application should hear before it stops reading."""
        self._due.clear()
        have = tuple(sorted(self._subscription.assigned))
        return CallbackDue("revoked", have) if have and self._subscription.uses_group else None
