"""The image: what the cluster looked like at one moment, as immutable values.

Handlers read an image without locks and without waiting; a change makes a new image that shares everything that did
not change, so "is it the same topic as before?" is an identity comparison. Equal partition states are one object:
ten thousand partitions of one broker cost ten thousand pointers.

Mappings here are plain dicts for speed. Nobody writes to them after the image is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

NO_LEADER: Final = -1
NO_CONTROLLER: Final = -1
EMPTY: Final[Mapping[str, str]] = {}

# The broker resource name that stands for every broker, as on the wire.
ALL_BROKERS: Final = ""

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"
INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Who holds a partition. The first replica is the preferred leader; the ISR is in the replicas' order.

    The partition epoch grows with every change of the state, the leader epoch with every change of leader, and with
    every new life of the same one.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    elr: tuple[int, ...] = ()
    """Eligible leaders that are not in sync any more, but were when the ISR fell below `min.insync.replicas`: the high
    watermark has stood still since, so they have every record that was acknowledged to acks=all."""
    last_known_elr: tuple[int, ...] = ()
    """Those who would have been eligible had they not come back without the end of their logs. While `isr` and `elr`
    are empty nobody leads; an unclean election, where it is allowed, takes one of these first."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    """Replicas that a reassignment brings and takes away; both are among `replicas` until it is complete."""


MAX_KNOWN_STATES: Final = 20_000


class PartitionStates:
    """Makes equal partition states one object, as long as there are not too many different ones."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[PartitionState, PartitionState] = {}

    def one(self, state: PartitionState) -> PartitionState:
        if len(self._known) >= MAX_KNOWN_STATES:
            self._known.clear()  # most of them are of the past
        return self._known.setdefault(state, state)


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic: its id for life, its partitions by index, the settings that differ from the broker's defaults."""

    name: str
    id: bytes
    partitions: tuple[PartitionState, ...]
    configs: Mapping[str, str] = field(default_factory=lambda: EMPTY)

    @property
    def internal(self) -> bool:
        return self.name in INTERNAL_TOPICS

    @property
    def replication_factor(self) -> int:
        """Of its first partition, those not counted that a reassignment is taking away."""
        return len(self.partitions[0].replicas) - len(self.partitions[0].removing)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address that a broker gives to clients."""

    listener: str
    host: str
    port: int
    security_protocol: str


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """A live broker. The epoch counts the registrations of its id: it tells one life of a broker from the next."""

    id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    epoch: int = -1
    directory_id: str = ""
    """Of its data directories that are online, with commas between them: who has the same id and none of these is
    another broker. One of several directories may be gone when a broker comes back."""

    def shares_directory(self, other: BrokerImage) -> bool:
        """Whether both have a data directory in common, and so are lives of one broker."""
        theirs = other.directory_id.split(",")
        return any(one in theirs for one in self.directory_id.split(",") if one)

    def endpoint(self, listener: str) -> Endpoint | None:
        """The address on a named listener, or None where the broker does not have it."""
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

    def with_topics(self, changed: Iterable[TopicImage] = (), deleted: Iterable[str] = ()) -> ClusterImage:
        """This image with topics added, replaced (also by one with another id) and removed."""
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
        """This image with the settings of these broker resources replaced; empty ones are gone."""
        merged = {**self.broker_configs, **changed}
        return replace(self, broker_configs={name: configs for name, configs in merged.items() if configs})


class TopicsDelta(NamedTuple):
    """How the topics of two images differ. A topic that was deleted and made again is in `deleted` and in `created`."""

    created: tuple[TopicImage, ...]
    deleted: tuple[TopicImage, ...]
    altered: tuple[tuple[TopicImage, TopicImage], ...]


def topics_delta(old: ClusterImage, new: ClusterImage) -> TopicsDelta:
    """What a listener needs to know of two images, in a fixed order. Costs an identity comparison a topic."""
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
