"""What a client knows of the cluster: brokers, topics, leaders; an immutable image that is replaced as a whole.

`merge` makes the next image of the last one and of an answer. A leader's epoch never goes back in it: answers of
different brokers may overtake each other, and an old one must not send records to a leader that has been replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from moldau.client.model import NO_LEADER, Node, TopicPartition
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

NO_TOPIC_ID: Final = bytes(16)
NO_EPOCH: Final = -1


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """One partition: who leads it, and who else has it."""

    index: int
    leader: int
    """The broker's id, or -1 while there is none."""
    leader_epoch: int
    """-1 where the broker is too old to tell."""
    replicas: Sequence[int] = ()
    isr: Sequence[int] = ()
    offline: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """One topic. With an error, it has no partitions and the error says why."""

    name: str
    id: bytes = NO_TOPIC_ID
    internal: bool = False
    partitions: Sequence[PartitionMetadata] = ()
    """In the order of their indexes, which begin at 0."""
    error: ErrorCode = ErrorCode.NONE


class ClusterMetadata:
    """The cluster as it was when a broker last described it."""

    __slots__ = ("cluster_id", "controller_id", "nodes", "topic_names", "topics", "version")

    def __init__(
        self,
        cluster_id: str | None = None,
        controller_id: int = -1,
        nodes: Mapping[int, Node] | None = None,
        topics: Mapping[str, TopicMetadata] | None = None,
        version: int = 0,
    ) -> None:
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.nodes: Mapping[int, Node] = MappingProxyType(dict(nodes or {}))
        self.topics: Mapping[str, TopicMetadata] = MappingProxyType(dict(topics or {}))
        self.topic_names: Mapping[bytes, str] = MappingProxyType(
            {topic.id: name for name, topic in self.topics.items() if topic.id != NO_TOPIC_ID}
        )
        """Names by topic id."""
        self.version = version
        """Counts the images of one client; 0 is the empty one before the first answer."""

    def __repr__(self) -> str:
        return f"ClusterMetadata(version={self.version}, nodes={list(self.nodes)}, topics={list(self.topics)})"

    def partition(self, topic: str, index: int) -> PartitionMetadata | None:
        """One partition, if the topic and the partition are known."""
        found = self.topics.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            return None
        return found.partitions[index]

    def leader(self, partition: TopicPartition) -> int:
        """The id of the partition's leader, or -1 where none is known."""
        found = self.partition(partition.topic, partition.partition)
        return NO_LEADER if found is None else found.leader

    def partition_count(self, topic: str) -> int:
        """How many partitions the topic has; 0 where it is not known."""
        found = self.topics.get(topic)
        return 0 if found is None else len(found.partitions)


def merge(old: ClusterMetadata, response: MetadataResponse, keep: Iterable[str] = ()) -> ClusterMetadata:
    """The next image. Topics that the answer does not speak of stay if they are in `keep`: those that were followed
    only after the question had left. An answer from another cluster begins anew.
    """
    same_cluster = old.cluster_id is None or response.cluster_id is None or old.cluster_id == response.cluster_id
    before = old.topics if same_cluster else {}
    topics = {name: before[name] for name in keep if name in before}
    for topic in response.topics:
        if topic.name is not None:
            topics[topic.name] = _topic(topic, before.get(topic.name))
    return ClusterMetadata(
        response.cluster_id,
        response.controller_id,
        {broker.node_id: Node(broker.node_id, broker.host, broker.port, broker.rack) for broker in response.brokers},
        topics,
        old.version + 1,
    )


def with_leaders(
    old: ClusterMetadata, leaders: Mapping[TopicPartition, tuple[int, int]], nodes: Iterable[Node] = ()
) -> ClusterMetadata:
    """The image with leaders (id, epoch) that a broker named in an answer to Produce or Fetch, where they are newer."""
    topics = dict(old.topics)
    for (name, index), (leader, epoch) in leaders.items():
        found = old.partition(name, index)
        if found is None or epoch <= found.leader_epoch:
            continue
        topic = topics[name]
        partitions = list(topic.partitions)
        partitions[index] = replace(found, leader=leader, leader_epoch=epoch)
        topics[name] = replace(topic, partitions=tuple(partitions))
    known = {**old.nodes, **{node.id: node for node in nodes}}
    return ClusterMetadata(old.cluster_id, old.controller_id, known, topics, old.version + 1)


def _topic(topic: MetadataResponseTopic, old: TopicMetadata | None) -> TopicMetadata:
    assert topic.name is not None
    if topic.error_code:
        return TopicMetadata(topic.name, topic.topic_id, topic.is_internal, error=ErrorCode.of(topic.error_code))
    # Deleted and created again, its epochs begin anew: the old ones say nothing about it.
    same = old is not None and (old.id == topic.topic_id or NO_TOPIC_ID in (old.id, topic.topic_id))
    known = old.partitions if old is not None and same else ()
    partitions = [_partition(one) for one in sorted(topic.partitions, key=lambda one: one.partition_index)]
    # A broker that lists some partitions only (it never does) would shift the indexes: what follows a gap is left out.
    whole = [one for index, one in enumerate(partitions) if one.index == index]
    return TopicMetadata(
        topic.name,
        topic.topic_id,
        topic.is_internal,
        tuple(_newer(known[one.index], one) if one.index < len(known) else one for one in whole),
    )


def _partition(partition: MetadataResponsePartition) -> PartitionMetadata:
    return PartitionMetadata(
        partition.partition_index,
        partition.leader_id,
        partition.leader_epoch,
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
        tuple(partition.offline_replicas),
    )


def _newer(old: PartitionMetadata, new: PartitionMetadata) -> PartitionMetadata:
    """Of two descriptions, the one with the later leader; without epochs, the one that came last."""
    return old if NO_EPOCH < new.leader_epoch < old.leader_epoch else new
