"""Changes: what a decision wants done to the cluster, as values.

A change says what the world looks like afterwards. Applying it to an image is done here; storing it is the tree's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from moldau.cluster.image import ClusterImage, TopicImage


class TopicCreated(NamedTuple):
    """A topic that was not there."""

    topic: TopicImage


class TopicDeleted(NamedTuple):
    """A topic that is no more; its id is never used again."""

    topic: TopicImage


class PartitionsChanged(NamedTuple):
    """A topic with more partitions, or with partitions in another state."""

    topic: TopicImage


class TopicConfigsChanged(NamedTuple):
    """A topic with other settings."""

    topic: TopicImage


class BrokerConfigsChanged(NamedTuple):
    """Other dynamic settings of one broker (its id as text) or of all (`ALL_BROKERS`)."""

    resource_name: str
    configs: Mapping[str, str]


TopicChange = TopicCreated | TopicDeleted | PartitionsChanged | TopicConfigsChanged
Change = TopicChange | BrokerConfigsChanged


def applied(image: ClusterImage, changes: Iterable[Change]) -> ClusterImage:
    """The image after the changes. They concern different topics and resources, so their order does not matter."""
    topics: list[TopicImage] = []
    deleted: list[str] = []
    broker_configs: dict[str, Mapping[str, str]] = {}
    for change in changes:
        if isinstance(change, TopicDeleted):
            deleted.append(change.topic.name)
        elif isinstance(change, BrokerConfigsChanged):
            broker_configs[change.resource_name] = change.configs
        else:
            topics.append(change.topic)
    if topics or deleted:
        image = image.with_topics(topics, deleted)
    if broker_configs:
        image = image.with_broker_configs(broker_configs)
    return image
