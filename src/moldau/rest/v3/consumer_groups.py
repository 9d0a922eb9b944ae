"""Consumer groups (API v3): groups, their members, and the partitions of each member."""

from __future__ import annotations

from typing import Any

from moldau.client.admin import GroupDescription, MemberDescription
from moldau.client.data_types import TopicPartition
from moldau.rest.endpoints import ProxyCall, ProxyEndpoint
from moldau.rest.errors import not_found
from moldau.rest.v3.resources import CLUSTER, check_cluster, crn, listing, related, resource, url

TAG = "Consumer groups"
GROUP = f"{CLUSTER}/consumer-groups/{{consumer_group_id}}"
CONSUMER = f"{GROUP}/consumers/{{consumer_id}}"
STATES = {"PreparingRebalance": "PREPARING_REBALANCE", "CompletingRebalance": "COMPLETING_REBALANCE"}


async def list_groups(call: ProxyCall) -> Any:
    check_cluster(call)
    admin = await call.session.admin()
    names = [group.id for group in await admin.list_groups()]
    found = await admin.describe_groups(names) if names else {}
    data = [_group(call, found[name]) for name in names if found[name].state != "Dead"]
    return listing("KafkaConsumerGroupList", url(call, "consumer-groups"), data)


async def get_group(call: ProxyCall) -> Any:
    return _group(call, await known_group(call))


async def delete_group(call: ProxyCall) -> Any:
    check_cluster(call)
    await (await call.session.admin()).delete_groups(call.path["consumer_group_id"])


async def list_consumers(call: ProxyCall) -> Any:
    group = await known_group(call)
    data = [_consumer(call, group, member) for member in group.members]
    return listing("KafkaConsumerList", url(call, "consumer-groups", group.id, "consumers"), data)


async def get_consumer(call: ProxyCall) -> Any:
    return _consumer(call, *await _known_member(call))


async def list_assignments(call: ProxyCall) -> Any:
    group, member = await _known_member(call)
    place = ("consumer-groups", group.id, "consumers", member.id, "assignments")
    data = [_assignment(call, group, member, one) for one in member.assignment]
    return listing("KafkaConsumerAssignmentList", url(call, *place), data)


async def get_assignment(call: ProxyCall) -> Any:
    group, member = await _known_member(call)
    wanted = TopicPartition(call.path["topic_name"], call.path["partition_id"])
    if wanted not in member.assignment:
        raise not_found(f"consumer {member.id!r} does not have {wanted.topic}-{wanted.partition}")
    return _assignment(call, group, member, wanted)


async def known_group(call: ProxyCall) -> GroupDescription:
    """The group of the request. ProxyError 404: there is none."""
    check_cluster(call)
    name: str = call.path["consumer_group_id"]
    found = (await (await call.session.admin()).describe_groups(name))[name]
    if found.state == "Dead":
        raise not_found(f"there is no consumer group {name!r}")
    return found


async def _known_member(call: ProxyCall) -> tuple[GroupDescription, MemberDescription]:
    group = await known_group(call)
    wanted = call.path["consumer_id"]
    found = next((member for member in group.members if member.id == wanted), None)
    if found is None:
        raise not_found(f"group {group.id!r} has no consumer {wanted!r}")
    return group, found


def _group(call: ProxyCall, group: GroupDescription) -> dict[str, Any]:
    here = ("consumer-groups", group.id)
    links = {"consumer": related(call, *here, "consumers"), "lag_summary": related(call, *here, "lag-summary")}
    if group.coordinator is not None:
        links["coordinator"] = related(call, "brokers", group.coordinator)
    return resource(
        "KafkaConsumerGroup",
        url(call, *here),
        crn(call, "consumer-group", group.id),
        cluster_id=call.session.cluster_id,
        consumer_group_id=group.id,
        is_simple=group.protocol_type == "",
        partition_assignor=group.assignor,
        state=STATES.get(group.state, group.state.upper()),
        type=group.type.upper(),
        **links,
    )


def _consumer(call: ProxyCall, group: GroupDescription, member: MemberDescription) -> dict[str, Any]:
    return resource(
        "KafkaConsumer",
        url(call, "consumer-groups", group.id, "consumers", member.id),
        crn(call, "consumer-group", group.id, "consumer", member.id),
        cluster_id=call.session.cluster_id,
        consumer_group_id=group.id,
        consumer_id=member.id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        assignments=related(call, "consumer-groups", group.id, "consumers", member.id, "assignments"),
    )


def _assignment(
    call: ProxyCall, group: GroupDescription, member: MemberDescription, where: TopicPartition
) -> dict[str, Any]:
    topic, index = where
    place = ("consumer-groups", group.id, "consumers", member.id, "assignments", topic, "partitions", index)
    return resource(
        "KafkaConsumerAssignment",
        url(call, *place),
        crn(call, "consumer-group", group.id, "consumer", member.id, "assignment", topic, "partition", index),
        cluster_id=call.session.cluster_id,
        consumer_group_id=group.id,
        consumer_id=member.id,
        topic_name=topic,
        partition_id=index,
        partition=related(call, "topics", topic, "partitions", index),
        lag=related(call, "consumer-groups", group.id, "lags", topic, "partitions", index),
    )


ASSIGNMENT = f"{CONSUMER}/assignments/{{topic_name}}/partitions/{{partition_id}}"
GONE = {204: "The group is deleted."}
ENDPOINTS = (
    ProxyEndpoint("GET", f"{CLUSTER}/consumer-groups", list_groups, "List consumer groups", TAG),
    ProxyEndpoint("GET", GROUP, get_group, "Get a consumer group", TAG),
    ProxyEndpoint("DELETE", GROUP, delete_group, "Delete a group without members, with its offsets", TAG, answers=GONE),
    ProxyEndpoint("GET", f"{GROUP}/consumers", list_consumers, "List the members of a group", TAG),
    ProxyEndpoint("GET", CONSUMER, get_consumer, "Get a member of a group", TAG),
    ProxyEndpoint("GET", f"{CONSUMER}/assignments", list_assignments, "List the partitions of a member", TAG),
    ProxyEndpoint("GET", ASSIGNMENT, get_assignment, "Get a partition of a member", TAG),
)
