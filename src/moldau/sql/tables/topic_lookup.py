"""Topics of the cluster: names, partitions, offsets; creation and deletion. One admin client for a session."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from moldau.client.admin.offsets import OffsetSpec
from moldau.client.admin.outcome import SomeFailed
from moldau.client.admin.topics import NewTopic
from moldau.client.blocking.admin import Admin
from moldau.client.data_types import TopicPartition
from moldau.client.errors import MoldauError, UnknownTopicOrPartition
from moldau.client.settings import ADMIN, CONSUMER, PRODUCER

INTERNAL_PREFIXES: Final = ("__", "_moldau_")
"""Topics of the platform itself, which SHOW TOPICS and the names of relations leave out. They can still be named."""

API_TIMEOUT: Final = "default.api.timeout.ms"
API_TIMEOUT_MS: Final = 20_000
"""How long a statement waits for brokers, unless the settings say otherwise: Kafka's minute is long for a person."""


@dataclass(frozen=True)
class KnownTopic:
    """A topic that exists."""

    name: str
    id: str
    partitions: int


@dataclass(frozen=True)
class OffsetSpan:
    """The offsets of each partition from `first` up to `end`, exclusive: what a bounded query reads."""

    topic: KnownTopic
    first: Mapping[int, int]
    end: Mapping[int, int]

    @property
    def offsets(self) -> int:
        """The number of offsets, which is the largest possible number of records."""
        return sum(max(0, self.end[partition] - first) for partition, first in self.first.items())


def admin_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The client settings that an admin client has."""
    return {API_TIMEOUT: API_TIMEOUT_MS, **{name: value for name, value in settings.items() if name in ADMIN}}


def consumer_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The client settings that a consumer has."""
    return {name: value for name, value in settings.items() if name in CONSUMER}


def producer_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The client settings that a producer has."""
    return {name: value for name, value in settings.items() if name in PRODUCER}


class TopicLookup:
    """Asks brokers, with an admin client that is opened at the first question. Any thread may ask."""

    def __init__(self, client_settings: Mapping[str, Any]) -> None:
        self._settings = admin_settings(client_settings)
        self._opened: Admin | None = None
        self._lock = threading.Lock()

    @property
    def admin(self) -> Admin:
        with self._lock:
            if self._opened is None:
                self._opened = Admin(self._settings)
            return self._opened

    def close(self) -> None:
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def names(self, *, internal: bool = False) -> list[str]:
        """The names of all topics, sorted."""
        names = sorted(one.name for one in self.admin.list_topics(include_internal=internal))
        return names if internal else [name for name in names if not name.startswith(INTERNAL_PREFIXES)]

    def topic(self, name: str) -> KnownTopic | None:
        """The topic with exactly this name, if it exists."""
        return self.topics([name]).get(name)

    def topics(self, names: list[str]) -> dict[str, KnownTopic]:
        """The topics with these names that exist."""
        found = self._described(names)
        return {name: KnownTopic(name, one.id.hex(), len(one.partitions)) for name, one in found.items()}

    def _described(self, names: list[str]) -> Mapping[str, Any]:
        if not names:
            return {}
        try:
            return self.admin.describe_topics(names)
        except UnknownTopicOrPartition:
            return {}
        except SomeFailed as failed:
            for error in failed.errors.values():
                if not isinstance(error, UnknownTopicOrPartition):
                    raise error from None
            return failed.results

    def first_offsets(self, topic: KnownTopic) -> dict[int, int]:
        return self._offsets(topic, OffsetSpec.EARLIEST)

    def end_offsets(self, topic: KnownTopic) -> dict[int, int]:
        """The last stable offsets: the end for a reader with read_committed."""
        return self._offsets(topic, OffsetSpec.LATEST)

    def span(self, topic: KnownTopic) -> OffsetSpan:
        """Everything that is committed now."""
        end = self.end_offsets(topic)
        first = self.first_offsets(topic)
        return OffsetSpan(topic, first, {partition: max(one, first[partition]) for partition, one in end.items()})

    def offsets_at(self, topic: KnownTopic, timestamp_ms: int) -> dict[int, int | None]:
        """The first offset of each partition with this timestamp or a later one; None if there is no such record."""
        found = self._offsets(topic, timestamp_ms)
        return {partition: None if offset < 0 else offset for partition, offset in found.items()}

    def counts(self, topics: list[KnownTopic]) -> dict[str, int]:
        """The number of offsets of each topic, with one request per broker for each end."""
        partitions = [TopicPartition(one.name, index) for one in topics for index in range(one.partitions)]
        if not partitions:
            return {}
        first = self._listed(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
        end = self._listed(dict.fromkeys(partitions, OffsetSpec.LATEST))
        counts = dict.fromkeys((one.name for one in topics), 0)
        for one in first.keys() & end.keys():
            counts[one.topic] += max(0, end[one].offset - first[one].offset)
        return counts

    def _listed(self, wanted: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, Any]:
        """Offsets of the partitions that still exist and have a leader."""
        try:
            return self.admin.list_offsets(wanted)
        except SomeFailed as failed:
            return failed.results

    def _offsets(self, topic: KnownTopic, spec: int) -> dict[int, int]:
        wanted = {TopicPartition(topic.name, index): spec for index in range(topic.partitions)}
        try:
            found = self.admin.list_offsets(wanted, isolation_level="read_committed")
        except SomeFailed as failed:
            raise next(iter(failed.errors.values())) from None
        return {partition.partition: one.offset for partition, one in found.items()}

    def create(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replicas: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic. Without a number the broker chooses."""
        wanted: dict[str, Any] = {"configs": dict(configs or {})}
        if partitions is not None:
            wanted["partitions"] = partitions
        if replicas is not None:
            wanted["replication_factor"] = replicas
        _alone(lambda: self.admin.create_topics([NewTopic(name, **wanted)]))

    def delete(self, name: str) -> None:
        _alone(lambda: self.admin.delete_topics([name]))


def _alone(call: Any) -> None:
    """Raise the error of the only topic of a call, not the summary of all topics."""
    try:
        call()
    except SomeFailed as failed:
        worst: MoldauError = next(iter(failed.errors.values()))
        raise worst from None
