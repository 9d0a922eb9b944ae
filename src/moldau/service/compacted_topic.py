"""Creation and check of a compacted topic that holds the state of a service."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from moldau.aio import Admin
from moldau.client.admin import ConfigResource, NewTopic
from moldau.client.errors import (
    ClusterAuthorizationFailed,
    MoldauError,
    TopicAlreadyExists,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
    UnsupportedByBroker,
)
from moldau.host.event_log import event_logger

log = event_logger(__name__)

CLEANUP_POLICY: Final = "cleanup.policy"
COMPACT: Final = "compact"
NOT_ALLOWED: Final = (TopicAuthorizationFailed, ClusterAuthorizationFailed, UnsupportedByBroker)
LOOK_AGAIN_S: Final = 0.05
"""The pause between two looks for a topic that was just created and is not known to every broker yet."""


class StateTopicError(MoldauError):
    """The topic cannot hold the state: it is not compacted, has a wrong number of partitions, or was deleted."""


async def ensure_compacted_topic(
    admin: Admin,
    topic: str,
    *,
    partitions: int,
    replication_factor: int,
    fewer_replicas: bool,
    configs: Mapping[str, str],
    deadline: float,
) -> int:
    """Create the topic unless it exists, check it, and return its number of partitions.

    With `fewer_replicas`, a cluster with fewer brokers than `replication_factor` gets one replica per broker. A topic
    that exists must have cleanup.policy=compact. It may have another number of partitions, except where one is wanted:
    the order of all records matters there.
    """
    found = await _partitions(admin, topic, deadline)
    if found == 0:
        await _create(admin, topic, partitions, replication_factor, fewer_replicas, configs, deadline)
        while (found := await _partitions(admin, topic, deadline)) == 0:  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(LOOK_AGAIN_S)
    if partitions == 1 and found != 1:
        raise StateTopicError(
            f"topic {topic!r} has {found} partitions, and must have exactly one, because the order of its records "
            "matters; name another topic, or delete this one"
        )
    await _check_policy(admin, topic, deadline)
    return found


async def _partitions(admin: Admin, topic: str, deadline: float) -> int:
    try:
        found = await admin.describe_topics(topic, timeout=_left(deadline))
    except UnknownTopicOrPartition:
        return 0
    return len(found[topic].partitions)


async def _create(
    admin: Admin,
    topic: str,
    partitions: int,
    replication_factor: int,
    fewer_replicas: bool,
    configs: Mapping[str, str],
    deadline: float,
) -> None:
    if fewer_replicas and replication_factor > 1:
        brokers = len((await admin.describe_cluster(timeout=_left(deadline))).brokers)
        if brokers < replication_factor:
            facts = {"topic": topic, "wanted": replication_factor, "brokers": brokers}
            log.info("topic gets fewer replicas than wanted, one per broker", extra=facts)
            replication_factor = max(brokers, 1)
    wanted = NewTopic(topic, partitions, replication_factor, {CLEANUP_POLICY: COMPACT, **configs})
    try:
        await admin.create_topics(wanted, timeout=_left(deadline))
    except TopicAlreadyExists:
        return  # another process of the service was faster
    except MoldauError as error:
        if error.retriable:
            raise
        raise StateTopicError(
            f"topic {topic!r} does not exist and cannot be created with {partitions} partitions and replication "
            f"factor {replication_factor}: {error}"
        ) from error
    log.info("topic created", extra={"topic": topic, "partitions": partitions, "replicas": replication_factor})


async def _check_policy(admin: Admin, topic: str, deadline: float) -> None:
    resource = ConfigResource.topic(topic)
    try:
        found = await admin.describe_configs(resource, names=[CLEANUP_POLICY], synonyms=False, timeout=_left(deadline))
    except NOT_ALLOWED as error:
        log.warning(
            "cannot check that the topic is compacted", extra={"topic": topic, "reason": str(error), "needs": COMPACT}
        )
        return
    entry = found[resource].get(CLEANUP_POLICY)
    policy = COMPACT if entry is None else (entry.value or "")
    if policy != COMPACT:
        raise StateTopicError(
            f"topic {topic!r} has {CLEANUP_POLICY}={policy}, which would delete state; it must be {COMPACT}: "
            f"moldau configs alter --topic {topic} --set {CLEANUP_POLICY}={COMPACT}"
        )


def _left(deadline: float) -> float:
    return max(deadline - asyncio.get_running_loop().time(), 0.001)
