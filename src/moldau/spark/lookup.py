"""Metadata lookup of the source: existing topics, offsets of partitions, and resolution of bounds."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from moldau.client.admin.offsets import OffsetSpec
from moldau.client.admin.outcome import SomeFailed
from moldau.client.blocking.admin import Admin
from moldau.client.data_types import OffsetAndMetadata, TopicPartition
from moldau.client.errors import ConfigurationError, MoldauError, UnknownTopicOrPartition
from moldau.client.settings import ADMIN, CONSUMER, ClientSettings
from moldau.spark.bounds import AtOffsets, AtTimes, Bound, Edge
from moldau.spark.data_loss import Loss, TopicShape
from moldau.spark.offsets import EARLIEST, LATEST
from moldau.spark.options import SourceOptions, SourceSubscription

NO_TOPIC_ID = bytes(16)
NO_RECORD = -1
"""The offset that brokers return for a time after the last record."""


@dataclass(frozen=True)
class Resolved:
    """The offsets of a bound, and the losses for explicit offsets that no longer exist."""

    offsets: dict[TopicPartition, int]
    losses: list[Loss] = field(default_factory=list)


class Lookup:
    """Queries brokers through an admin client, which is opened on first use."""

    def __init__(self, options: SourceOptions) -> None:
        self._subscription = options.subscription
        self._isolation_level = "read_committed" if options.read_committed else "read_uncommitted"
        self._settings = admin_settings(options)
        self._opened: Admin | None = None

    @property
    def _admin(self) -> Admin:
        if self._opened is None:
            self._opened = Admin(self._settings)
        return self._opened

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    # Topics -----------------------------------------------------------------------------------------------------------

    def topics(self) -> dict[str, TopicShape]:
        """The subscribed topics and partitions that exist."""
        chosen = self._subscription
        if chosen.pattern:
            matches = re.compile(chosen.pattern).fullmatch
            return {
                one.name: TopicShape(_id_text(one.id), tuple(range(one.partitions)))
                for one in self._admin.list_topics()
                if matches(one.name)
            }
        names = chosen.topics or tuple(dict.fromkeys(partition.topic for partition in chosen.partitions))
        return {
            name: TopicShape(_id_text(found.id), _chosen(chosen, name, (one.index for one in found.partitions)))
            for name, found in self._described(names).items()
        }

    def _described(self, names: Collection[str]) -> Mapping[str, Any]:
        try:
            return self._admin.describe_topics(names)
        except UnknownTopicOrPartition:
            return {}
        except SomeFailed as failed:
            worst = _worst(failed)
            if not isinstance(worst, UnknownTopicOrPartition):
                raise worst from None
            return failed.results

    def existing_topics(self) -> dict[str, TopicShape]:
        """As `topics`, but a topic or partition that is subscribed by name and does not exist is an error."""
        found = self.topics()
        chosen = self._subscription
        if missing := [name for name in chosen.topics if name not in found]:
            raise ConfigurationError(
                f"option subscribe: topic {', '.join(map(repr, missing))} does not exist; create it"
            )
        have = set(partitions_of(found))
        if absent := [partition for partition in chosen.partitions if partition not in have]:
            raise ConfigurationError(f"option assign: partition {', '.join(map(str, absent))} does not exist")
        return found

    # Offsets ----------------------------------------------------------------------------------------------------------

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The ends of partitions for this query's isolation level."""
        return self._offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))

    def written(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The ends of partitions for `read_uncommitted`."""
        return self._offsets(dict.fromkeys(partitions, OffsetSpec.LATEST), "read_uncommitted")

    def at_times(self, moments_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The offset of the first record with that timestamp or a later one; None if there is none."""
        found = self._offsets(moments_ms)
        return {partition: None if offset == NO_RECORD else offset for partition, offset in found.items()}

    def _offsets(
        self, wanted: Mapping[TopicPartition, int], isolation_level: str | None = None
    ) -> dict[TopicPartition, int]:
        if not wanted:
            return {}
        try:
            listed = self._admin.list_offsets(wanted, isolation_level=isolation_level or self._isolation_level)
        except SomeFailed as failed:
            raise _worst(failed) from None
        return {partition: one.offset for partition, one in listed.items()}

    def resolve(self, bound: Bound, topics: Mapping[str, TopicShape]) -> Resolved:
        """Resolve a bound of the options to offsets."""
        partitions = partitions_of(topics)
        match bound:
            case Edge.EARLIEST:
                return Resolved(self.earliest(partitions))
            case Edge.LATEST:
                return Resolved(self.latest(partitions))
            case AtOffsets():
                _must_name_all(bound.option, bound.offsets, partitions)
                return within(bound.offsets, self.earliest(partitions), self.latest(partitions))
            case AtTimes():
                return Resolved(self._resolve_times(bound, partitions))

    def _resolve_times(self, bound: AtTimes, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        moments = bound.timestamps_ms
        if isinstance(moments, int):
            moments = dict.fromkeys(partitions, moments)
        else:
            _must_name_all(bound.option, moments, partitions)
        found = self.at_times(moments)
        without = [partition for partition, offset in found.items() if offset is None]
        if without and not bound.otherwise_latest:
            raise ConfigurationError(
                f"option {bound.option}: {without[0]} has no record at {moments[without[0]]} or later "
                f"({len(without)} of {len(found)} partitions have none); set "
                "startingOffsetsByTimestampStrategy=latest to start at their end"
            )
        ends = self.latest(without)
        return {partition: ends[partition] if offset is None else offset for partition, offset in found.items()}

    # Groups -----------------------------------------------------------------------------------------------------------

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit the query's progress to a consumer group."""
        self._admin.alter_group_offsets(
            group, {partition: OffsetAndMetadata(offset) for partition, offset in offsets.items()}
        )


def _worst(failed: SomeFailed) -> MoldauError:
    """The most important error: a missing topic is handled by the caller, so any other error comes first."""
    errors = list(failed.errors.values())
    return next((error for error in errors if not isinstance(error, UnknownTopicOrPartition)), errors[0])


def partitions_of(topics: Mapping[str, TopicShape]) -> list[TopicPartition]:
    return [TopicPartition(name, index) for name, shape in sorted(topics.items()) for index in shape.partitions]


def ids_of(topics: Mapping[str, TopicShape]) -> dict[str, str]:
    return {name: shape.id for name, shape in topics.items() if shape.id}


def within(
    wanted: Mapping[TopicPartition, int], earliest: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]
) -> Resolved:
    """Resolve explicit offsets, moved into the existing range; -2 and -1 stand for its two ends."""
    resolved = Resolved({})
    for partition, offset in wanted.items():
        first, last = earliest[partition], latest[partition]
        if offset in (EARLIEST, LATEST):
            offset = first if offset == EARLIEST else last
        elif not first <= offset <= last:
            text = f"{partition} has offsets {first} to {last}, but the option asks for offset {offset}"
            resolved.losses.append(Loss(partition, text))
            offset = min(max(offset, first), last)
        resolved.offsets[partition] = offset
    return resolved


def consumer_settings(options: SourceOptions) -> dict[str, Any]:
    """The settings of a consumer; raises if one is unknown or malformed."""
    settings: dict[str, Any] = {"client.id": options.group_id_prefix, **options.settings}
    ClientSettings.of(CONSUMER, settings, {})
    return settings


def admin_settings(options: SourceOptions) -> dict[str, Any]:
    """The consumer settings that an admin client also has."""
    return {name: value for name, value in consumer_settings(options).items() if name in ADMIN}


def _id_text(topic_id: bytes) -> str:
    return "" if topic_id == NO_TOPIC_ID else topic_id.hex()


def _chosen(subscription: SourceSubscription, name: str, existing: Iterable[int]) -> tuple[int, ...]:
    if not subscription.partitions:
        return tuple(sorted(existing))
    assigned = {partition.partition for partition in subscription.partitions if partition.topic == name}
    return tuple(sorted(assigned.intersection(existing)))


def _must_name_all(option: str, named: Iterable[TopicPartition], partitions: Iterable[TopicPartition]) -> None:
    """Require an entry for every partition, as Spark's Kafka connector does: a missing one is probably a mistake."""
    named, partitions = set(named), set(partitions)
    if missing := sorted(partitions - named):
        raise ConfigurationError(
            f"option {option}: has no entry for {', '.join(map(str, missing))}; name every partition"
        )
    if unknown := sorted(named - partitions):
        raise ConfigurationError(
            f"option {option}: names {', '.join(map(str, unknown))}, which the query does not read"
        )
