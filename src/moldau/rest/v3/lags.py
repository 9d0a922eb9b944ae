"""Lags of consumer groups (API v3): the distance from the committed offset to the end of each partition."""

from __future__ import annotations

from typing import Any, NamedTuple

from moldau.client.admin import MemberDescription, OffsetSpec
from moldau.client.data_types import TopicPartition
from moldau.rest.endpoints import ProxyCall, ProxyEndpoint
from moldau.rest.errors import not_found
from moldau.rest.v3.consumer_groups import GROUP, TAG, known_group
from moldau.rest.v3.resources import crn, listing, related, resource, url


class Lag(NamedTuple):
    """The lag of a group in one partition, and the member that has the partition."""

    where: TopicPartition
    committed: int
    end: int
    member: MemberDescription | None

    @property
    def lag(self) -> int:
        return max(0, self.end - self.committed)


async def lags_of(call: ProxyCall) -> list[Lag]:
    group = await known_group(call)
    admin = await call.session.admin()
    committed = await admin.list_group_offsets(group.id)
    ends = await admin.list_offsets(dict.fromkeys(committed, OffsetSpec.LATEST)) if committed else {}
    owners = {where: member for member in group.members for where in member.assignment}
    return [Lag(where, one.offset, ends[where].offset, owners.get(where)) for where, one in sorted(committed.items())]


async def get_lag_summary(call: ProxyCall) -> Any:
    found = await lags_of(call)
    name = call.path["consumer_group_id"]
    if not found:
        raise not_found(f"group {name!r} has no committed offsets")
    worst = max(found, key=lambda one: one.lag)
    member, (topic, index) = worst.member, worst.where
    links = {"max_lag_partition": related(call, "topics", topic, "partitions", index)}
    if member is not None:
        links["max_lag_consumer"] = related(call, "consumer-groups", name, "consumers", member.id)
    return resource(
        "KafkaConsumerGroupLagSummary",
        url(call, "consumer-groups", name, "lag-summary"),
        crn(call, "consumer-group", name) + "/lag-summary",
        cluster_id=call.session.cluster_id,
        consumer_group_id=name,
        max_lag_consumer_id="" if member is None else member.id,
        max_lag_instance_id=None if member is None else member.instance_id,
        max_lag_client_id="" if member is None else member.client_id,
        max_lag_topic_name=topic,
        max_lag_partition_id=index,
        max_lag=worst.lag,
        total_lag=sum(one.lag for one in found),
        **links,
    )


async def list_lags(call: ProxyCall) -> Any:
    data = [_lag(call, one) for one in await lags_of(call)]
    return listing("KafkaConsumerLagList", url(call, "consumer-groups", call.path["consumer_group_id"], "lags"), data)


async def get_lag(call: ProxyCall) -> Any:
    wanted = TopicPartition(call.path["topic_name"], call.path["partition_id"])
    found = next((one for one in await lags_of(call) if one.where == wanted), None)
    if found is None:
        raise not_found(f"the group has no committed offset of {wanted.topic}-{wanted.partition}")
    return _lag(call, found)


def _lag(call: ProxyCall, found: Lag) -> dict[str, Any]:
    name, (topic, index), member = call.path["consumer_group_id"], found.where, found.member
    return resource(
        "KafkaConsumerLag",
        url(call, "consumer-groups", name, "lags", topic, "partitions", index),
        crn(call, "consumer-group", name, "lag", topic, "partition", index),
        cluster_id=call.session.cluster_id,
        consumer_group_id=name,
        topic_name=topic,
        partition_id=index,
        consumer_id="" if member is None else member.id,
        instance_id=None if member is None else member.instance_id,
        client_id="" if member is None else member.client_id,
        current_offset=found.committed,
        log_end_offset=found.end,
        lag=found.lag,
    )


ENDPOINTS = (
    ProxyEndpoint("GET", f"{GROUP}/lag-summary", get_lag_summary, "Get the largest and the total lag of a group", TAG),
    ProxyEndpoint("GET", f"{GROUP}/lags", list_lags, "List the lags of a group", TAG),
    ProxyEndpoint(
        "GET", f"{GROUP}/lags/{{topic_name}}/partitions/{{partition_id}}", get_lag, "Get the lag in a partition", TAG
    ),
)
