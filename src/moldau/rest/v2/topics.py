"""Topics, partitions and brokers (API v2)."""

from __future__ import annotations

from typing import Any

from moldau.client.admin import ConfigResource, OffsetSpec, PartitionDescription, TopicDescription
from moldau.client.data_types import TopicPartition
from moldau.rest.endpoints import ProxyCall, ProxyEndpoint
from moldau.rest.errors import V2_NO_PARTITION, not_found
from moldau.rest.v2.media_types import V2

TAG = "v2: topics"


async def list_topics(call: ProxyCall) -> Any:
    return [topic.name for topic in await (await call.session.admin()).list_topics(include_internal=True)]


async def get_topic(call: ProxyCall) -> Any:
    topic = await _topic(call)
    resource = ConfigResource.topic(topic.name)
    configs = (await (await call.session.admin()).describe_configs(resource, synonyms=False))[resource]
    return {
        "name": topic.name,
        "configs": {name: entry.value for name, entry in configs.items() if not entry.sensitive},
        "partitions": [_partition(one) for one in topic.partitions],
    }


async def list_partitions(call: ProxyCall) -> Any:
    return [_partition(one) for one in (await _topic(call)).partitions]


async def get_partition(call: ProxyCall) -> Any:
    return _partition(await _known_partition(call))


async def get_offsets(call: ProxyCall) -> Any:
    index = (await _known_partition(call)).index
    where = TopicPartition(call.path["topic_name"], index)
    admin = await call.session.admin()
    first = (await admin.list_offsets({where: OffsetSpec.EARLIEST}))[where]
    end = (await admin.list_offsets({where: OffsetSpec.LATEST}))[where]
    return {"beginning_offset": first.offset, "end_offset": end.offset}


async def list_brokers(call: ProxyCall) -> Any:
    return {"brokers": [node.id for node in (await (await call.session.admin()).describe_cluster()).brokers]}


async def _topic(call: ProxyCall) -> TopicDescription:
    name: str = call.path["topic_name"]
    return (await (await call.session.admin()).describe_topics(name))[name]


async def _known_partition(call: ProxyCall) -> PartitionDescription:
    topic, wanted = await _topic(call), call.path["partition_id"]
    found = next((one for one in topic.partitions if one.index == wanted), None)
    if found is None:
        raise not_found(f"topic {topic.name!r} has no partition {wanted}", V2_NO_PARTITION)
    return found


def _partition(partition: PartitionDescription) -> dict[str, Any]:
    return {
        "partition": partition.index,
        "leader": -1 if partition.leader is None else partition.leader,
        "replicas": [
            {"broker": broker, "leader": broker == partition.leader, "in_sync": broker in partition.isr}
            for broker in partition.replicas
        ],
    }


PARTITION = "/topics/{topic_name}/partitions/{partition_id}"
ENDPOINTS = tuple(
    ProxyEndpoint("GET", path, handler, summary, TAG, answer_types=(V2,))
    for path, handler, summary in (
        ("/topics", list_topics, "List the names of topics"),
        ("/topics/{topic_name}", get_topic, "Get a topic with its settings and partitions"),
        ("/topics/{topic_name}/partitions", list_partitions, "List the partitions of a topic"),
        (PARTITION, get_partition, "Get a partition"),
        (f"{PARTITION}/offsets", get_offsets, "Get the first offset and the end of a partition"),
        ("/brokers", list_brokers, "List the ids of brokers"),
    )
)
