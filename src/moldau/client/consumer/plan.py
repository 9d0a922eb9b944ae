"""Which brokers are to be asked for which partitions now: a function of what is known and what waits already."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from moldau.client.consumer.buffer import FetchBuffer
from moldau.client.consumer.session import Wanted
from moldau.client.consumer.subscription import PartitionState
from moldau.client.metadata import ClusterMetadata
from moldau.client.model import NO_LEADER, TopicPartition


class Limits(NamedTuple):
    """How much may be asked for, and wait."""

    partition_bytes: int  # max.partition.fetch.bytes
    total_bytes: int  # fetch.max.bytes


class InFlight(NamedTuple):
    """A request on its way: what was asked, under which versions, and the names of the topic ids in it."""

    version: int  # of the API
    wanted: Mapping[TopicPartition, Wanted]
    versions: Mapping[TopicPartition, int]  # of the partitions' states
    names: Mapping[bytes, str]
    full: bool  # and not a change to what a session knows


class Planned(NamedTuple):
    """What to ask of whom; and whether a partition has no leader to be asked."""

    requests: dict[int, dict[TopicPartition, Wanted]]
    leaderless: bool


def plan(
    metadata: ClusterMetadata,
    assigned: Mapping[TopicPartition, PartitionState],
    buffer: FetchBuffer,
    limits: Limits,
    *,
    busy: Collection[int],
    waiting: Collection[TopicPartition],
    replicas: Mapping[TopicPartition, int],
) -> Planned:
    """For each broker that is not busy, what it is to be asked.

    Not a broker one of whose partitions has enough in store: it would be left out of the request, and that could then
    wait long for the others, while the store runs empty. (A paused partition does not count: it may stay full.)
    """
    requests: dict[int, dict[TopicPartition, Wanted]] = {}
    well_filled: set[int] = set()
    leaderless = False
    if buffer.held > limits.total_bytes:
        return Planned(requests, leaderless)
    for partition, state in assigned.items():
        if not state.fetchable:
            continue
        known = metadata.partition(partition.topic, partition.partition)
        node = NO_LEADER if known is None else replicas.get(partition, known.leader)
        if known is None or node == NO_LEADER:
            leaderless = True
            continue
        if node in busy or partition in waiting or buffer.failed(partition):
            continue
        if buffer.size(partition) > limits.partition_bytes:
            well_filled.add(node)
            continue
        offset, _ = buffer.next_offset(state)
        assert offset is not None
        topic_id = metadata.topics[partition.topic].id
        epoch = known.leader_epoch if node == known.leader else -1
        requests.setdefault(node, {})[partition] = Wanted(topic_id, offset, epoch, limits.partition_bytes)
    for node in well_filled:
        requests.pop(node, None)
    return Planned(requests, leaderless)
