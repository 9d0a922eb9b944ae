"""Settings as the other parts of the broker want them: a log's as a LogConfig, the metadata's as rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from moldau.cluster.configs import ConfigRules
from moldau.cluster.controller import Rebalance
from moldau.cluster.image import TopicImage
from moldau.cluster.metadata import MetadataRules
from moldau.cluster.topics import TopicDefaults
from moldau.log.config import LogConfig
from moldau.settings import BROKER, TOPIC, BrokerSettings, SettingTable, SettingType

_LOG_SETTINGS = tuple((field.name, field.name.replace("_", ".")) for field in fields(LogConfig))


def log_config(settings: BrokerSettings, overrides: Mapping[str, str]) -> LogConfig:
    """What a topic's logs obey. Overrides were checked when they were stored."""
    values = settings.topic_values(overrides)
    return LogConfig(**{field: values[name] for field, name in _LOG_SETTINGS})  # type: ignore[arg-type]


def metadata_rules(current: Callable[[], BrokerSettings]) -> MetadataRules:
    """What decisions about the cluster must know of settings; asked anew each time, since some change."""
    settings = current()
    return MetadataRules(
        defaults=TopicDefaults(settings["num.partitions"], settings["default.replication.factor"]),
        topic_configs=ConfigRules(
            check=lambda overrides: current().topic_error(overrides),
            is_list=lambda name: _is_list(TOPIC, name),
            default=lambda name: next((one.value for one in current().describe_topic({}, [name])), None),
        ),
        broker_configs=ConfigRules(
            check=lambda texts: current().dynamic_error(texts),
            is_list=lambda name: _is_list(BROKER, name),
            default=lambda name: next((one.value for one in current().describe([name])), None),
        ),
        min_insync_replicas=lambda topic: _topic_value(current(), topic, "min.insync.replicas"),
        unclean_election=lambda topic: _topic_value(current(), topic, "unclean.leader.election.enable"),
        rebalance=lambda: Rebalance(
            current()["auto.leader.rebalance.enable"],
            current()["leader.imbalance.check.interval.seconds"],
            current()["leader.imbalance.per.broker.percentage"],
        ),
    )


def _topic_value(settings: BrokerSettings, topic: TopicImage, name: str) -> Any:
    overrides = {name: topic.configs[name]} if name in topic.configs else {}
    return settings.topic_values(overrides)[name]


def _is_list(table: SettingTable, name: str) -> bool:
    return name in table and table[name].type is SettingType.LIST
