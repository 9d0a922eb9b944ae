"""Fetch plan: the choice of partitions for the next Fetch request to each broker, as a plain function."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from moldau.client.consumer.buffer import FetchBuffer
from moldau.client.consumer.fetch_session import WantedPartition
from moldau.client.consumer.subscription import AssignedPartition
from moldau.client.data_types import NO_LEADER, TopicPartition
from moldau.client.metadata import ClusterMetadata


class Limits(NamedTuple):
    """How many bytes may be requested and buffered."""

    partition_bytes: int  # max.partition.fetch.bytes
    total_bytes: int  # fetch.max.bytes


class InFlight(NamedTuple):
    """A Fetch request without a response yet."""

    version: int  # of the API
    wanted: Mapping[TopicPartition, WantedPartition]
    versions: Mapping[TopicPartition, int]  # of the partitions' states
    names: Mapping[bytes, str]
    full: bool  # a full request, not an incremental one of a fetch session


class Planned(NamedTuple):
    """The partitions to request from each broker, and whether a partition has no leader."""

    requests: dict[int, dict[TopicPartition, WantedPartition]]
    leaderless: bool


def plan(
    metadata: ClusterMetadata,
    assigned: Mapping[TopicPartition, AssignedPartition],
    buffer: FetchBuffer,
    limits: Limits,
    *,
    busy: Collection[int],
    waiting: Collection[TopicPartition],
    replicas: Mapping[TopicPartition, int],
) -> Planned:
    """Return the partitions to request from each broker that is not busy.

    A broker gets no request while one of its partitions has enough records in the buffer. A request without that
    partition could wait at the broker for records of the others (a long poll), while the application uses up the
    buffer. Paused partitions are ignored: their records may stay in the buffer.
    """
    requests: dict[int, dict[TopicPartition, WantedPartition]] = {}
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
        requests.setdefault(node, {})[partition] = WantedPartition(topic_id, offset, epoch, limits.partition_bytes)
    for node in well_filled:
        requests.pop(node, None)
    return Planned(requests, leaderless)
