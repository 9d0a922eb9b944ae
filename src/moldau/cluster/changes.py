"""Changes to the cluster metadata, as values.

A change describes the state afterwards. This module applies changes to an image; `tree` stores them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from moldau.cluster.image import ClusterImage, TopicImage


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


TopicChange = TopicCreated | TopicDeleted | PartitionsChanged | TopicConfigsChanged
Change = TopicChange | BrokerConfigsChanged | GroupConfigsChanged


def applied(image: ClusterImage, changes: Iterable[Change]) -> ClusterImage:
    """The image after the changes. They concern different topics and resources, so their order does not matter."""
    topics: list[TopicImage] = []
    deleted: list[str] = []
    broker_configs: dict[str, Mapping[str, str]] = {}
    group_configs: dict[str, Mapping[str, str]] = {}
    for change in changes:
        if isinstance(change, TopicDeleted):
            deleted.append(change.topic.name)
        elif isinstance(change, BrokerConfigsChanged):
            broker_configs[change.resource_name] = change.configs
        elif isinstance(change, GroupConfigsChanged):
            group_configs[change.group_id] = change.configs
        else:
            topics.append(change.topic)
    if topics or deleted:
        image = image.with_topics(topics, deleted)
    if broker_configs:
        image = image.with_broker_configs(broker_configs)
    if group_configs:
        image = image.with_group_configs(group_configs)
    return image
