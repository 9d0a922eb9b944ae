"""Watch over the topics of all sinks: their partitions, and where these end, in one round of requests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from moldau.client.admin.offsets import OffsetSpec
from moldau.client.admin.outcome import SomeFailed
from moldau.client.blocking.admin import Admin
from moldau.client.data_types import TopicPartition
from moldau.client.errors import UnknownTopicOrPartition
from moldau.connect.engine.sink_plan import SinkView
from moldau.host.clock import Clock

METADATA_EVERY_S: Final = 5.0
"""How often topics and partitions that are new are looked for."""
_NO_ID: Final = bytes(16)


@dataclass(frozen=True)
class Wanted:
    """The topics of one sink: names, or a pattern."""

    topics: tuple[str, ...] = ()
    pattern: str = ""


@dataclass(frozen=True)
class _Topic:
    id: str
    partitions: int


class TopicWatch:
    """The admin client, and what it has found. One thread at a time uses it."""

    def __init__(self, admin: Mapping[str, Any], clock: Clock) -> None:
        self._settings = dict(admin)
        self._clock = clock
        self._admin: Admin | None = None
        self._topics: dict[str, _Topic] = {}
        self._wanted: Mapping[str, Wanted] = {}
        self._looked = float("-inf")

    def look(self, wanted: Mapping[str, Wanted]) -> dict[str, SinkView]:
        """What each sink has to read now, by its name."""
        if self._admin is None:
            self._admin = Admin(self._settings)
        now = self._clock.monotonic()
        if wanted != self._wanted or now - self._looked >= METADATA_EVERY_S:
            self._topics = self._described(self._admin, wanted)
            self._wanted, self._looked = dict(wanted), now
        chosen = {name: self._chosen(one) for name, one in wanted.items()}
        partitions = {partition for own in chosen.values() for partition in own}
        ends = self._ends(self._admin, partitions)
        return {
            name: SinkView(
                {partition: ends[partition] for partition in own if partition in ends},
                {partition.topic: self._topics[partition.topic].id for partition in own},
                tuple(topic for topic in wanted[name].topics if topic not in self._topics),
            )
            for name, own in chosen.items()
        }

    def _described(self, admin: Admin, wanted: Mapping[str, Wanted]) -> dict[str, _Topic]:
        if any(one.pattern for one in wanted.values()):
            return {one.name: _Topic(_id(one.id), one.partitions) for one in admin.list_topics()}
        names = sorted({topic for one in wanted.values() for topic in one.topics})
        if not names:
            return {}
        try:
            found: Mapping[str, Any] = admin.describe_topics(names)
        except UnknownTopicOrPartition:
            found = {}
        except SomeFailed as failed:
            found = failed.results
        return {name: _Topic(_id(one.id), len(one.partitions)) for name, one in found.items()}

    def _chosen(self, wanted: Wanted) -> list[TopicPartition]:
        if wanted.pattern:
            matches = re.compile(wanted.pattern).fullmatch
            names = [name for name in self._topics if matches(name)]
        else:
            names = [name for name in wanted.topics if name in self._topics]
        return [TopicPartition(name, index) for name in names for index in range(self._topics[name].partitions)]

    def _ends(self, admin: Admin, partitions: set[TopicPartition]) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        wanted = dict.fromkeys(sorted(partitions), OffsetSpec.LATEST)
        try:
            listed: Mapping[TopicPartition, Any] = admin.list_offsets(wanted, isolation_level="read_committed")
        except UnknownTopicOrPartition:
            listed = {}
        except SomeFailed as failed:
            listed = failed.results
        if len(listed) < len(wanted):
            self._looked = float("-inf")  # a topic was deleted, or has no leader: look at all of them again
        return {partition: one.offset for partition, one in listed.items()}

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None


def _id(topic_id: bytes) -> str:
    return "" if topic_id == _NO_ID else topic_id.hex()
