"""Topics (API v3): list, create, get, add partitions, delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moldau.client.admin import CreatedTopic, NewTopic, SomeFailed, TopicDescription
from moldau.client.admin.topics import BROKERS_CHOICE, MAX_REPLICAS
from moldau.client.errors import BrokerError
from moldau.rest.endpoints import BOOLEAN, MAX_INT32, TEXT, ProxyCall, ProxyEndpoint, array, record
from moldau.rest.errors import MISSING_CODES, bad_request
from moldau.rest.v3.resources import CLUSTER, check_cluster, crn, listing, related, resource, url

TAG = "Topics"
TOPICS = f"{CLUSTER}/topics"
TOPIC = f"{TOPICS}/{{topic_name}}"
MAX_PARTITIONS = 10_000
"""Partitions of a topic that one request may ask for."""

COUNT = {"type": "integer", "minimum": 1, "maximum": MAX_PARTITIONS}
CREATE = record(
    {"topic_name": TEXT},
    partitions_count=COUNT,
    replication_factor={"type": "integer", "minimum": 1, "maximum": MAX_REPLICAS},
    replicas_assignments=array(
        record(
            {
                "partition_id": {"type": "integer", "minimum": 0, "maximum": MAX_PARTITIONS},
                "broker_ids": array({"type": "integer", "minimum": 0, "maximum": MAX_INT32}, minItems=1),
            }
        )
    ),
    configs=array(record({"name": TEXT}, value={"type": ["string", "null"]})),
    validate_only=BOOLEAN,
)


async def list_topics(call: ProxyCall) -> Any:
    check_cluster(call)
    admin = await call.session.admin()
    names = [topic.name for topic in await admin.list_topics(include_internal=True)]
    found = [_topic(call, topic) for topic in await described_topics(call, names)]
    return listing("KafkaTopicList", url(call, "topics"), found)


async def create_topic(call: ProxyCall) -> Any:
    check_cluster(call)
    body = call.body
    configs = {one["name"]: one["value"] for one in body.get("configs", ()) if one.get("value") is not None}
    new = NewTopic(
        body["topic_name"],
        body.get("partitions_count", BROKERS_CHOICE),
        body.get("replication_factor", BROKERS_CHOICE),
        configs,
        _assignments(body.get("replicas_assignments", ())),
    )
    admin = await call.session.admin()
    created = await admin.create_topics(new, validate_only=body.get("validate_only", False))
    return _created(call, created[new.name])


def _assignments(given: Sequence[Any]) -> list[list[int]]:
    ordered = sorted(given, key=lambda one: one["partition_id"])
    if [one["partition_id"] for one in ordered] != list(range(len(ordered))):
        raise bad_request("replicas_assignments: partition_id must be 0, 1, 2 …, each once")
    return [one["broker_ids"] for one in ordered]


async def get_topic(call: ProxyCall) -> Any:
    return _topic(call, await known_topic(call))


async def patch_topic(call: ProxyCall) -> Any:
    check_cluster(call)
    admin = await call.session.admin()
    await admin.create_partitions({call.path["topic_name"]: call.body["partitions_count"]})
    return _topic(call, await known_topic(call))


async def delete_topic(call: ProxyCall) -> Any:
    check_cluster(call)
    await (await call.session.admin()).delete_topics(call.path["topic_name"])


async def known_topic(call: ProxyCall) -> TopicDescription:
    """The topic of the request. UnknownTopicOrPartition: there is none."""
    check_cluster(call)
    name: str = call.path["topic_name"]
    return (await (await call.session.admin()).describe_topics(name))[name]


async def described_topics(call: ProxyCall, names: Sequence[str]) -> list[TopicDescription]:
    """These topics, without those that were deleted in between."""
    if not names:
        return []
    admin = await call.session.admin()
    try:
        found = await admin.describe_topics(names)
    except SomeFailed as error:
        for one in error.errors.values():
            if not (isinstance(one, BrokerError) and one.code in MISSING_CODES):
                raise
        found = dict(error.results)
    return [found[name] for name in names if name in found]


def _topic(call: ProxyCall, topic: TopicDescription) -> dict[str, Any]:
    return _as_json(call, topic.name, topic.internal, topic.replication_factor, len(topic.partitions))


def _created(call: ProxyCall, topic: CreatedTopic) -> dict[str, Any]:
    return _as_json(call, topic.name, False, max(topic.replication_factor, 0), max(topic.partitions, 0))


def _as_json(call: ProxyCall, name: str, internal: bool, replication_factor: int, partitions: int) -> dict[str, Any]:
    return resource(
        "KafkaTopic",
        url(call, "topics", name),
        crn(call, "topic", name),
        cluster_id=call.session.cluster_id,
        topic_name=name,
        is_internal=internal,
        replication_factor=replication_factor,
        partitions_count=partitions,
        partitions=related(call, "topics", name, "partitions"),
        configs=related(call, "topics", name, "configs"),
        partition_reassignments=related(call, "topics", name, "partitions", "-", "reassignment"),
        authorized_operations=[],
    )


ENDPOINTS = (
    ProxyEndpoint("GET", TOPICS, list_topics, "List topics", TAG),
    ProxyEndpoint(
        "POST", TOPICS, create_topic, "Create a topic", TAG, body=CREATE, answers={201: "The topic was created."}
    ),
    ProxyEndpoint("GET", TOPIC, get_topic, "Get a topic", TAG),
    ProxyEndpoint("PATCH", TOPIC, patch_topic, "Add partitions", TAG, body=record({"partitions_count": COUNT})),
    ProxyEndpoint(
        "DELETE", TOPIC, delete_topic, "Delete a topic with its records", TAG, answers={204: "The topic is deleted."}
    ),
)
