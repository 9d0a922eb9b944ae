"""Deleted topics that a Metadata request must not create again at once.

Some clients use a Metadata request that allows auto-creation to check whether a topic was deleted (kafka-go, and all
clients below version 4 of the API). If the request created the topic, the response would say that it still exists. So
the first such request after a deletion is answered with UNKNOWN_TOPIC_OR_PARTITION, as Apache Kafka answers the first
request for every topic that it creates. A client that wants to write asks again, and the topic is created.
"""

from __future__ import annotations

from moldau.cluster.image import ClusterImage

MAX_NAMES = 10_000
"""Number of names that are remembered. The oldest is forgotten first; the first request for it creates the topic."""


class DeletedTopics:
    """Names of deleted topics, until the first request that would create them again."""

    __slots__ = ("_names",)

    def __init__(self) -> None:
        self._names: dict[str, None] = {}  # in the order of deletion

    def follow(self, old: ClusterImage, new: ClusterImage) -> None:
        """Process a new image of the cluster."""
        if old.topics is new.topics:
            return
        for name in old.topics:
            if name not in new.topics:
                self._names.pop(name, None)
                self._names[name] = None
        while len(self._names) > MAX_NAMES:
            del self._names[next(iter(self._names))]

    def first_asked(self, name: str) -> bool:
        """Whether the topic was deleted, and this is the first request since that would create it."""
        if name not in self._names:
            return False
        del self._names[name]
        return True
