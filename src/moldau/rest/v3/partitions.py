"""Partitions of a topic (API v3), and their running reassignments."""

from __future__ import annotations

from typing import Any

from moldau.client.admin import OngoingReassignment, PartitionDescription
from moldau.client.data_types import TopicPartition
from moldau.rest.endpoints import ProxyCall, ProxyEndpoint
from moldau.rest.errors import V2_NO_PARTITION, not_found
from moldau.rest.v3.resources import check_cluster, crn, listing, related, resource, url
from moldau.rest.v3.topics import TOPIC, TOPICS, known_topic

TAG = "Partitions"
PARTITION = f"{TOPIC}/partitions/{{partition_id}}"


async def list_partitions(call: ProxyCall) -> Any:
    topic = await known_topic(call)
    found = [_partition(call, topic.name, partition) for partition in topic.partitions]
    return listing("KafkaPartitionList", url(call, "topics", topic.name, "partitions"), found)


async def get_partition(call: ProxyCall) -> Any:
    return _partition(call, *await known_partition(call))


async def known_partition(call: ProxyCall) -> tuple[str, PartitionDescription]:
    """The partition of the request, and its topic. ProxyError 404: the topic has no such partition."""
    topic = await known_topic(call)
    wanted = call.path["partition_id"]
    found = next((one for one in topic.partitions if one.index == wanted), None)
    if found is None:
        raise not_found(f"topic {topic.name!r} has no partition {wanted}", V2_NO_PARTITION)
    return topic.name, found


def _partition(call: ProxyCall, topic: str, partition: PartitionDescription) -> dict[str, Any]:
    here = ("topics", topic, "partitions", partition.index)
    links = {"replicas": related(call, *here, "replicas"), "reassignment": related(call, *here, "reassignment")}
    if partition.leader is not None:
        links["leader"] = related(call, *here, "replicas", partition.leader)
    return resource(
        "KafkaPartition",
        url(call, *here),
        crn(call, "topic", topic, "partition", partition.index),
        cluster_id=call.session.cluster_id,
        topic_name=topic,
        partition_id=partition.index,
        **links,
    )


async def list_all_reassignments(call: ProxyCall) -> Any:
    check_cluster(call)
    found = await (await call.session.admin()).list_partition_reassignments()
    return _reassignments(call, "-", found)


async def list_reassignments(call: ProxyCall) -> Any:
    topic = await known_topic(call)
    wanted = [TopicPartition(topic.name, one.index) for one in topic.partitions]
    found = await (await call.session.admin()).list_partition_reassignments(wanted)
    return _reassignments(call, topic.name, found)


async def get_reassignment(call: ProxyCall) -> Any:
    topic, partition = await known_partition(call)
    where = TopicPartition(topic, partition.index)
    found = await (await call.session.admin()).list_partition_reassignments([where])
    if where not in found:
        raise not_found(f"{topic}-{partition.index} is not being reassigned")
    return _reassignment(call, where, found[where])


def _reassignments(call: ProxyCall, topic: str, found: dict[TopicPartition, OngoingReassignment]) -> dict[str, Any]:
    data = [_reassignment(call, where, one) for where, one in found.items()]
    return listing("KafkaReassignmentList", url(call, "topics", topic, "partitions", "-", "reassignment"), data)


def _reassignment(call: ProxyCall, where: TopicPartition, found: OngoingReassignment) -> dict[str, Any]:
    topic, index = where
    return resource(
        "KafkaReassignment",
        url(call, "topics", topic, "partitions", index, "reassignment"),
        crn(call, "topic", topic, "partition", index) + "/reassignment",
        cluster_id=call.session.cluster_id,
        topic_name=topic,
        partition_id=index,
        adding_replicas=list(found.adding),
        removing_replicas=list(found.removing),
        replicas=related(call, "topics", topic, "partitions", index, "replicas"),
    )


ENDPOINTS = (
    ProxyEndpoint(
        "GET", f"{TOPICS}/-/partitions/-/reassignment", list_all_reassignments, "List all running reassignments", TAG
    ),
    ProxyEndpoint(
        "GET", f"{TOPIC}/partitions/-/reassignment", list_reassignments, "List the reassignments of a topic", TAG
    ),
    ProxyEndpoint("GET", f"{TOPIC}/partitions", list_partitions, "List the partitions of a topic", TAG),
    ProxyEndpoint("GET", PARTITION, get_partition, "Get a partition", TAG),
    ProxyEndpoint("GET", f"{PARTITION}/reassignment", get_reassignment, "Get the reassignment of a partition", TAG),
)
