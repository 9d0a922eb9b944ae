"""Topics of the cluster for subscriptions: ids, numbers of partitions, and matches of patterns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from moldau.cluster.image import TopicImage
from moldau.groups.consumer_group import Assignment, ConsumerGroup, SubscribedTopic
from moldau.groups.events import MaySee

MAX_PATTERN_LENGTH: Final = 8_192
PATTERN_MEMORY_BYTES: Final = 1 << 20
"""Memory limit of RE2 for one pattern. RE2 matches in time linear in the length of the names, so that no pattern of a
client can block the broker."""


class Topics:
    """The current topics. The matches of a pattern are cached until the topics change."""

    __slots__ = ("_by_id", "_matches", "_topics")

    def __init__(self, topics: Mapping[str, TopicImage]) -> None:
        self._topics: Mapping[str, TopicImage] = {}
        self._by_id: dict[bytes, str] = {}
        self._matches: dict[str, frozenset[str] | None] = {}
        self.replace(topics)

    def replace(self, topics: Mapping[str, TopicImage]) -> None:
        self._topics = topics
        self._by_id = {topic.id: name for name, topic in topics.items()}
        self._matches.clear()

    def find(self, name: str) -> SubscribedTopic | None:
        topic = self._topics.get(name)
        return None if topic is None else SubscribedTopic(topic.id, len(topic.partitions))

    def name_of(self, topic_id: bytes) -> str | None:
        return self._by_id.get(topic_id)

    def matching(self, pattern: str) -> frozenset[str] | None:
        """The topics whose whole name the pattern matches; None for an invalid pattern.

        Internal topics are matched like any other, as in Apache Kafka.
        """
        if pattern not in self._matches:
            compiled = _compile(pattern)
            self._matches[pattern] = (
                None
                if compiled is None
                else frozenset(name for name in self._topics if compiled.fullmatch(name) is not None)
            )
        return self._matches[pattern]

    def subscribed(self, topics: Sequence[str], pattern: str | None, may_see: MaySee | None = None) -> frozenset[str]:
        """The topics that a member subscribes to, by name or by pattern. A pattern matches only what it may see."""
        if not pattern:
            return frozenset(topics)
        matches = self.matching(pattern) or frozenset()
        return frozenset(topics) | (matches if may_see is None else frozenset(filter(may_see, matches)))

    def metadata_for(
        self, group: ConsumerGroup, may_see: Callable[[str], MaySee | None] = lambda _: None
    ) -> dict[str, SubscribedTopic]:
        """The existing topics that a group subscribes to. `may_see` gives the view of a member."""
        found: dict[str, SubscribedTopic] = {}
        subscriptions = {
            (member.topics, member.regex, may_see(member.id) if member.regex else None)
            for member in group.members.values()
        }
        for topics, pattern, view in subscriptions:
            for name in self.subscribed(topics, pattern, view):
                if name not in found and (metadata := self.find(name)) is not None:
                    found[name] = metadata
        return found

    def by_name(self, assignment: Assignment) -> list[tuple[str, list[int]]]:
        """An assignment with topic names instead of ids, sorted; deleted topics are left out."""
        named = [
            (self._by_id[topic], sorted(partitions)) for topic, partitions in assignment.items() if topic in self._by_id
        ]
        return sorted(named)

    def by_id(self, partitions: Sequence[tuple[str, Sequence[int]]]) -> Assignment:
        return {
            self._topics[name].id: frozenset(indexes)
            for name, indexes in partitions
            if name in self._topics and indexes
        }


def _compile(pattern: str) -> Any:
    import re2

    if len(pattern) > MAX_PATTERN_LENGTH:
        return None
    options = re2.Options()
    options.max_mem = PATTERN_MEMORY_BYTES
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error:
        return None
