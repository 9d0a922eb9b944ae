"""Assignment without a group: all partitions of the subscribed topics, also those that are added later."""

from __future__ import annotations

from collections import deque

from moldau.client.consumer.offset_reset import EARLIEST, CallbackDue
from moldau.client.consumer.subscription import Subscription
from moldau.client.data_types import TopicPartition
from moldau.client.metadata import ClusterMetadata
from moldau.wire.errors import ErrorCode


class GrouplessAssignment:
    """Assigns the partitions that the metadata has. No I/O; owned by the event loop."""

    def __init__(self, subscription: Subscription, *, internal_too: bool) -> None:
        self._subscription = subscription
        self._internal_too = internal_too
        self._due: deque[CallbackDue] = deque()

    def assign(self, metadata: ClusterMetadata) -> None:
        """Assign the partitions of the metadata. A topic that is missing in it at the moment keeps its partitions."""
        if metadata.version == 0:
            return  # no metadata has arrived yet
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
                # A partition added to a topic that is being read: all its records are newer than the subscription, so
                # auto.offset.reset=latest must not skip them.
                self._subscription.state(partition).ask_reset(EARLIEST)

    def callback_due(self) -> CallbackDue | None:
        return self._due[0] if self._due else None

    def callback_done(self, due: CallbackDue) -> None:
        if due in self._due:
            self._due.remove(due)

    def final_callback(self) -> CallbackDue | None:
        """Return the callback to run before the consumer stops reading."""
        self._due.clear()
        have = tuple(sorted(self._subscription.assigned))
        return CallbackDue("revoked", have) if have and self._subscription.uses_group else None
