"""Settings in the form that other parts of the broker need: logs, metadata, access control."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from moldau.cluster.configs import ConfigRules
from moldau.cluster.controller import Rebalance
from moldau.cluster.image import TopicImage
from moldau.cluster.metadata import MetadataRules
from moldau.cluster.token_decisions import DelegationTokenRules
from moldau.cluster.topics import TopicDefaults
from moldau.log.config import LogConfig
from moldau.security import AllowAll, Authorizer, Principal
from moldau.security.acl_authorizer import AclAuthorizer
from moldau.security.sasl_config import jaas_error
from moldau.settings import GROUP, TOPIC, BrokerSettings, SettingType, declared
from moldau.settings.authorization import super_users

_LOG_SETTINGS = tuple((field.name, field.name.replace("_", ".")) for field in fields(LogConfig))


def log_config(settings: BrokerSettings, overrides: Mapping[str, str]) -> LogConfig:
    """The settings of a topic's logs. The overrides were checked when they were stored."""
    values = settings.topic_values(overrides)
    return LogConfig(**{field: values[name] for field, name in _LOG_SETTINGS})  # type: ignore[arg-type]


def metadata_rules(current: Callable[[], BrokerSettings]) -> MetadataRules:
    """The settings that decisions about the cluster depend on. Each use reads the current settings, because some of
    them can be changed at run time."""
    settings = current()
    return MetadataRules(
        defaults=TopicDefaults(settings["num.partitions"], settings["default.replication.factor"]),
        topic_configs=ConfigRules(
            check=lambda overrides: current().topic_error(overrides),
            is_list=TOPIC.is_list,
            default=lambda name: next((one.value for one in current().describe_topic({}, [name])), None),
        ),
        broker_configs=ConfigRules(
            check=lambda texts: current().dynamic_error(texts) or jaas_error(texts),
            is_list=lambda name: declared(name).type is SettingType.LIST,
            default=lambda name: next(
                (one.value for one in current().describe([name])), declared(name).format(declared(name).default)
            ),
        ),
        group_configs=ConfigRules(
            check=lambda overrides: current().group_error(overrides),
            is_list=GROUP.is_list,
            default=GROUP.default_text,
        ),
        min_insync_replicas=lambda topic: _topic_value(current(), topic, "min.insync.replicas"),
        unclean_election=lambda topic: _topic_value(current(), topic, "unclean.leader.election.enable"),
        rebalance=lambda: Rebalance(
            current()["auto.leader.rebalance.enable"],
            current()["leader.imbalance.check.interval.seconds"],
            current()["leader.imbalance.per.broker.percentage"],
        ),
    )


def authorizer_of(settings: BrokerSettings) -> Authorizer:
    """The authorizer that `authorizer.class.name` names. It has no rules until the broker has read its metadata."""
    if not settings["authorizer.class.name"]:
        return AllowAll()
    users = [Principal(kind, name) for kind, name in super_users(settings["super.users"])]
    return AclAuthorizer(users, allow_if_no_rule=settings["allow.everyone.if.no.acl.found"])


def token_rules(settings: BrokerSettings) -> DelegationTokenRules:
    return DelegationTokenRules(
        settings["delegation.token.secret.key"] or None,
        settings["delegation.token.max.lifetime.ms"],
        settings["delegation.token.expiry.time.ms"],
    )


def _topic_value(settings: BrokerSettings, topic: TopicImage, name: str) -> Any:
    overrides = {name: topic.configs[name]} if name in topic.configs else {}
    return settings.topic_values(overrides)[name]
