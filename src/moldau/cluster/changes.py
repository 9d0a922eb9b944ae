"""Changes to the cluster metadata, as values.

A change describes the state afterwards. This module applies changes to an image; `tree` stores them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from moldau.cluster.image import ClusterImage, TopicImage
from moldau.cluster.security_image import SecurityImage, UserCredentials
from moldau.security.acls import AclEntry, ResourcePattern
from moldau.security.credentials import DelegationToken
from moldau.security.quota_entities import QuotaEntity


class TopicCreated(NamedTuple):
    """A new topic."""

    topic: TopicImage


class TopicDeleted(NamedTuple):
    """A topic to delete. Its id is never used again."""

    topic: TopicImage


class PartitionsChanged(NamedTuple):
    """A topic with more partitions, or with partitions in a new state."""

    topic: TopicImage


class TopicConfigsChanged(NamedTuple):
    """A topic with new settings."""

    topic: TopicImage


class BrokerConfigsChanged(NamedTuple):
    """New dynamic settings of one broker (its id as text) or of all brokers (`ALL_BROKERS`)."""

    resource_name: str
    configs: Mapping[str, str]


class GroupConfigsChanged(NamedTuple):
    """Other settings of one group."""

    group_id: str
    configs: Mapping[str, str]


class AclsChanged(NamedTuple):
    """All rules of one resource pattern; none: the pattern is removed."""

    pattern: ResourcePattern
    entries: tuple[AclEntry, ...]


class UserCredentialsChanged(NamedTuple):
    """All SCRAM credentials of one user; none: the user is removed."""

    user: str
    credentials: UserCredentials


class DelegationTokenChanged(NamedTuple):
    """A new or renewed delegation token; None: it is removed."""

    token_id: str
    token: DelegationToken | None


class ClientQuotasChanged(NamedTuple):
    """All client quotas of one entity; none: the entity is removed."""

    entity: QuotaEntity
    quotas: Mapping[str, float]


TopicChange = TopicCreated | TopicDeleted | PartitionsChanged | TopicConfigsChanged
SecurityChange = AclsChanged | UserCredentialsChanged | DelegationTokenChanged | ClientQuotasChanged
"""Each is a pair: the key of a part of the security image, and its new value."""
Change = TopicChange | BrokerConfigsChanged | GroupConfigsChanged | SecurityChange

SECURITY_PARTS: Mapping[type[SecurityChange], str] = {
    AclsChanged: "acls",
    UserCredentialsChanged: "scram_credentials",
    DelegationTokenChanged: "delegation_tokens",
    ClientQuotasChanged: "client_quotas",
}
"""The attribute of `SecurityImage` that each kind of change is about."""


def applied(image: ClusterImage, changes: Iterable[Change]) -> ClusterImage:
    """The image after the changes. They concern different topics and resources, so their order does not matter."""
    topics: list[TopicImage] = []
    deleted: list[str] = []
    broker_configs: dict[str, Mapping[str, str]] = {}
    group_configs: dict[str, Mapping[str, str]] = {}
    security: dict[str, dict[Any, Any]] = {}
    for change in changes:
        if isinstance(change, TopicDeleted):
            deleted.append(change.topic.name)
        elif isinstance(change, BrokerConfigsChanged):
            broker_configs[change.resource_name] = change.configs
        elif isinstance(change, GroupConfigsChanged):
            group_configs[change.group_id] = change.configs
        elif isinstance(change, SecurityChange):
            key, value = change
            security.setdefault(SECURITY_PARTS[type(change)], {})[key] = value
        else:
            topics.append(change.topic)
    if topics or deleted:
        image = image.with_topics(topics, deleted)
    if broker_configs:
        image = image.with_broker_configs(broker_configs)
    if group_configs:
        image = image.with_group_configs(group_configs)
    if security:
        image = replace(image, security=_secured(image.security, security))
    return image


def _secured(security: SecurityImage, changes: Mapping[str, Mapping[Any, Any]]) -> SecurityImage:
    for part, changed in changes.items():
        security = security.changed(part, changed)
    return security
