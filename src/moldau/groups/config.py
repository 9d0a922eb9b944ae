"""Settings of the group coordinator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from moldau.settings import BrokerSettings

MINUTE_MS = 60_000


class GroupConfig(NamedTuple):
    """The settings, with Kafka's defaults. Times are in milliseconds."""

    min_session_ms: int = 6_000
    max_session_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1
    metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 60 * MINUTE_MS
    offsets_check_interval_ms: int = 10 * MINUTE_MS
    consumer_session_ms: int = 45_000
    consumer_heartbeat_ms: int = 5_000
    consumer_max_size: int = 2**31 - 1
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_migration: str = "bidirectional"

    @property
    def may_upgrade(self) -> bool:
        """Whether a live classic group may become a consumer group."""
        return self.consumer_migration in ("upgrade", "bidirectional")

    @property
    def may_downgrade(self) -> bool:
        """Whether a consumer group becomes classic when its last member of the consumer protocol leaves."""
        return self.consumer_migration in ("downgrade", "bidirectional")


class MemberTimes(NamedTuple):
    """Session timeout and heartbeat interval of the members of a consumer group."""

    session_ms: int
    heartbeat_ms: int


TimesOf = Callable[[str], MemberTimes]
"""The times by group id. A group may override the settings of the broker, and they may change at any time."""


def same_times(config: GroupConfig) -> TimesOf:
    """The times of the broker for every group."""
    times = MemberTimes(config.consumer_session_ms, config.consumer_heartbeat_ms)
    return lambda _group_id: times


def own_times(settings: BrokerSettings, overrides: Mapping[str, str]) -> MemberTimes:
    """The times of a group that overrides settings of the broker."""
    return MemberTimes(
        settings.group_value(overrides, "consumer.session.timeout.ms"),
        settings.group_value(overrides, "consumer.heartbeat.interval.ms"),
    )


def group_config(settings: BrokerSettings) -> GroupConfig:
    """Read the settings of the group coordinator from those of the broker."""
    return GroupConfig(
        min_session_ms=settings["group.min.session.timeout.ms"],
        max_session_ms=settings["group.max.session.timeout.ms"],
        initial_rebalance_delay_ms=settings["group.initial.rebalance.delay.ms"],
        max_size=settings["group.max.size"],
        metadata_max_bytes=settings["offset.metadata.max.bytes"],
        offsets_retention_ms=settings["offsets.retention.minutes"] * MINUTE_MS,
        offsets_check_interval_ms=settings["offsets.retention.check.interval.ms"],
        consumer_session_ms=settings["group.consumer.session.timeout.ms"],
        consumer_heartbeat_ms=settings["group.consumer.heartbeat.interval.ms"],
        consumer_max_size=settings["group.consumer.max.size"],
        consumer_assignors=tuple(settings["group.consumer.assignors"]),
        consumer_migration=settings["group.consumer.migration.policy"].lower(),
    )
