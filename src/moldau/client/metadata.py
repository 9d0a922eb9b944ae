"""Cluster metadata of a client: an immutable image of brokers, topics and leaders, replaced as a whole.

`merge` combines the last image and a response into the next image. A leader epoch never decreases in it: responses of
different brokers may arrive in another order, and an old one must not send records to a former leader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from moldau.client.data_types import NO_LEADER, Node, TopicPartition
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

NO_TOPIC_ID: Final = bytes(16)
NO_EPOCH: Final = -1


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """One partition: its leader and its replicas."""

    index: int
    leader: int
    """The id of the leader, or -1 without a leader."""
    leader_epoch: int
    """The leader epoch, or -1 if the broker is too old to report it."""
    replicas: Sequence[int] = ()
    isr: Sequence[int] = ()
    offline: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """One topic. If `error` is set, it has no partitions."""

    name: str
    id: bytes = NO_TOPIC_ID
    internal: bool = False
    partitions: Sequence[PartitionMetadata] = ()
    """The partitions in the order of their indexes, from 0."""
    error: ErrorCode = ErrorCode.NONE


class ClusterMetadata:
    """The cluster according to the last metadata."""

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
        """Topic names by topic id."""
        self.version = version
        """The number of the image; 0 is the empty image before the first response."""

    def __repr__(self) -> str:
        return f"ClusterMetadata(version={self.version}, nodes={list(self.nodes)}, topics={list(self.topics)})"

    def partition(self, topic: str, index: int) -> PartitionMetadata | None:
        """Return a partition, or None if it is not known."""
        found = self.topics.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            return None
        return found.partitions[index]

    def leader(self, partition: TopicPartition) -> int:
        """Return the id of the partition's leader, or -1 if it is not known."""
        found = self.partition(partition.topic, partition.partition)
        return NO_LEADER if found is None else found.leader

    def partition_count(self, topic: str) -> int:
        """Return the number of partitions of the topic, or 0 if it is not known."""
        found = self.topics.get(topic)
        return 0 if found is None else len(found.partitions)


def merge(old: ClusterMetadata, response: MetadataResponse, keep: Iterable[str] = ()) -> ClusterMetadata:
    """Return the next image.

    Topics that are not in the response are kept if they are in `keep`: these were followed after the request was sent.
    A response from another cluster replaces the whole image.
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
    """Return the image with leaders (id, epoch) from a Produce or Fetch response, if their epochs are newer."""
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
    # If the topic was deleted and created again, its epochs start again, and the old ones must be ignored.
    same = old is not None and (old.id == topic.topic_id or NO_TOPIC_ID in (old.id, topic.topic_id))
    known = old.partitions if old is not None and same else ()
    partitions = [_partition(one) for one in sorted(topic.partitions, key=lambda one: one.partition_index)]
    # If a broker listed only some partitions (it never does), the list indexes would be wrong. Drop those after a gap.
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
    """Return the partition with the higher leader epoch; the new one if there are no epochs."""
    return old if NO_EPOCH < new.leader_epoch < old.leader_epoch else new
