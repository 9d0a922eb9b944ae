"""Cluster image: the cluster metadata at one moment, as immutable values.

Handlers read an image without locks and without waiting. A change creates a new image that shares all unchanged parts,
so an identity comparison shows whether a topic changed. Equal partition states are one object: ten thousand partitions
of one broker cost ten thousand pointers.

Mappings are plain dicts, for speed. They are never modified after the image is created.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from moldau.cluster.security_image import NO_SECURITY, SecurityImage
from moldau.wire.number_types import NO_BROKER_EPOCH, BrokerEpoch, LeaderEpoch, PartitionEpoch

NO_LEADER: Final = -1
NO_CONTROLLER: Final = -1
EMPTY: Final[Mapping[str, str]] = {}

# The broker resource name that means all brokers, as on the wire.
ALL_BROKERS: Final = ""

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"
INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The replicas, leader and epochs of a partition. The first replica is the preferred leader; the ISR has the same
    order as the replicas.

    Every change of the state increments the partition epoch. Every change of leader, and every restart of the same
    leader, increments the leader epoch.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    elr: tuple[int, ...] = ()
    """Eligible leaders: replicas that left the ISR when it fell below `min.insync.replicas`. The high watermark has not
    moved since, so they have every record that was acknowledged to acks=all."""
    last_known_elr: tuple[int, ...] = ()
    """Replicas that would be eligible if they had not returned without the end of their logs. While `isr` and `elr` are
    empty there is no leader; an unclean election, if allowed, prefers these replicas."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    """Replicas that a reassignment adds and removes. Both are in `replicas` until the reassignment is complete."""


MAX_KNOWN_STATES: Final = 20_000


class PartitionStates:
    """Makes equal partition states one object. Forgets all of them when there are too many different ones."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[PartitionState, PartitionState] = {}

    def one(self, state: PartitionState) -> PartitionState:
        if len(self._known) >= MAX_KNOWN_STATES:
            self._known.clear()  # most of them are no longer in use
        return self._known.setdefault(state, state)


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic: its permanent id, its partitions by index, and the settings that differ from the broker's defaults."""

    name: str
    id: bytes
    partitions: tuple[PartitionState, ...]
    configs: Mapping[str, str] = field(default_factory=lambda: EMPTY)

    @property
    def internal(self) -> bool:
        return self.name in INTERNAL_TOPICS

    @property
    def replication_factor(self) -> int:
        """The replication factor of the first partition, without replicas that a reassignment removes."""
        return len(self.partitions[0].replicas) - len(self.partitions[0].removing)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address that a broker advertises to clients."""

    listener: str
    host: str
    port: int
    security_protocol: str


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """A live broker. The epoch counts the registrations of its id, so it differs for each incarnation of the broker."""

    id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    epoch: BrokerEpoch = NO_BROKER_EPOCH
    directory_id: str = ""
    """The ids of its online data directories, separated by commas. A process with the same broker id but none of these
    directories is another broker. There are several ids because one of several directories may be missing when a broker
    returns."""

    def shares_directory(self, other: BrokerImage) -> bool:
        """Whether both have a data directory in common, and so are incarnations of the same broker."""
        theirs = other.directory_id.split(",")
        return any(one in theirs for one in self.directory_id.split(",") if one)

    def endpoint(self, listener: str) -> Endpoint | None:
        """The address on a named listener, or None if the broker does not have that listener."""
        return next((endpoint for endpoint in self.endpoints if endpoint.listener == listener), None)


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """The whole cluster at one moment."""

    cluster_id: str
    controller_id: int = NO_CONTROLLER
    brokers: Mapping[int, BrokerImage] = field(default_factory=dict)
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    topic_names_by_id: Mapping[bytes, str] = field(default_factory=dict)
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    security: SecurityImage = NO_SECURITY

    def topic_by_id(self, topic_id: bytes) -> TopicImage | None:
        name = self.topic_names_by_id.get(topic_id)
        return None if name is None else self.topics[name]

    def partition(self, topic: str, index: int) -> PartitionState | None:
        image = self.topics.get(topic)
        if image is None or not 0 <= index < len(image.partitions):
            return None
        return image.partitions[index]

    def broker_config(self, name: str) -> Mapping[str, str]:
        """The dynamic settings stored for one broker (its id as text), or for all of them (`ALL_BROKERS`)."""
        return self.broker_configs.get(name, EMPTY)

    def group_config(self, group_id: str) -> Mapping[str, str]:
        """The settings of one group that differ from the broker's defaults. The group need not exist."""
        return self.group_configs.get(group_id, EMPTY)

    def with_topics(self, changed: Iterable[TopicImage] = (), deleted: Iterable[str] = ()) -> ClusterImage:
        """This image with topics added, replaced (also by a topic with another id) and removed."""
        topics, names = dict(self.topics), dict(self.topic_names_by_id)
        for name in deleted:
            del names[topics.pop(name).id]
        for topic in changed:
            before = topics.get(topic.name)
            if before is not None and before.id != topic.id:
                del names[before.id]
            topics[topic.name] = topic
            names[topic.id] = topic.name
        return replace(self, topics=topics, topic_names_by_id=names)

    def with_brokers(self, brokers: Iterable[BrokerImage]) -> ClusterImage:
        """This image with exactly these live brokers."""
        return replace(self, brokers={broker.id: broker for broker in sorted(brokers, key=lambda broker: broker.id)})

    def with_broker_configs(self, changed: Mapping[str, Mapping[str, str]]) -> ClusterImage:
        """This image with the settings of these broker resources replaced; empty settings are removed."""
        merged = {**self.broker_configs, **changed}
        return replace(self, broker_configs={name: configs for name, configs in merged.items() if configs})

    def with_group_configs(self, changed: Mapping[str, Mapping[str, str]]) -> ClusterImage:
        """This image with the settings of these groups replaced; empty ones are gone."""
        merged = {**self.group_configs, **changed}
        return replace(self, group_configs={name: configs for name, configs in merged.items() if configs})


class TopicsDelta(NamedTuple):
    """The difference between the topics of two images. A topic that was deleted and created again is in `deleted` and
    in `created`."""

    created: tuple[TopicImage, ...]
    deleted: tuple[TopicImage, ...]
    altered: tuple[tuple[TopicImage, TopicImage], ...]


def topics_delta(old: ClusterImage, new: ClusterImage) -> TopicsDelta:
    """The difference between two images, in a fixed order. Costs one identity comparison per topic."""
    if old.topics is new.topics:
        return TopicsDelta((), (), ())
    created: list[TopicImage] = []
    altered: list[tuple[TopicImage, TopicImage]] = []
    for name, topic in new.topics.items():
        before = old.topics.get(name)
        if before is topic:
            continue
        if before is None or before.id != topic.id:
            created.append(topic)
        elif before != topic:
            altered.append((before, topic))
    deleted = [topic for topic in old.topics.values() if topic.id not in new.topic_names_by_id]
    return TopicsDelta(tuple(created), tuple(deleted), tuple(altered))
