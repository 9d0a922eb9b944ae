"""Cases of the denial matrix: groups and their offsets."""

from __future__ import annotations

from typing import Any

from moldau.security import Operation
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from tests.authorization.matrix import CLUSTER, GROUP, TOPIC, TXN, Need, Resources, case

GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED

READ_GROUP = Need(Operation.READ, GROUP, "group", GROUP_DENIED)
DESCRIBE_GROUP = Need(Operation.DESCRIBE, GROUP, "group", GROUP_DENIED)
DELETE_GROUP = Need(Operation.DELETE, GROUP, "group", GROUP_DENIED)
READ_TOPIC = Need(Operation.READ, TOPIC, "topic", TOPIC_DENIED)
DESCRIBE_TOPIC = Need(Operation.DESCRIBE, TOPIC, "topic", TOPIC_DENIED)

PROTOCOL = {"protocol_type": "consumer", "protocol_name": "range", "assignments": []}
COMMITTED: dict[str, Any] = {"topics": ("topic",), "groups": ("group",)}


@case(ApiKey.FIND_COORDINATOR, "of a group", DESCRIBE_GROUP)
def _(of: Resources) -> dict[str, Any]:
    return {"key_type": 0, "coordinator_keys": [of["group"]]}


@case(ApiKey.FIND_COORDINATOR, "of a group, in an old version", DESCRIBE_GROUP, version=3)
def _(of: Resources) -> dict[str, Any]:
    return {"key_type": 0, "key": of["group"]}


@case(
    ApiKey.FIND_COORDINATOR,
    "of a transactional id",
    Need(Operation.DESCRIBE, TXN, "txn", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
)
def _(of: Resources) -> dict[str, Any]:
    return {"key_type": 1, "coordinator_keys": [of["txn"]]}


@case(ApiKey.JOIN_GROUP, "first", READ_GROUP)
def _(of: Resources) -> dict[str, Any]:
    return {
        "group_id": of["group"],
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }


@case(ApiKey.SYNC_GROUP, "of a stranger", READ_GROUP, **COMMITTED)
def _(of: Resources) -> dict[str, Any]:
    return {"group_id": of["group"], "generation_id": 1, "member_id": "nobody", **PROTOCOL}


@case(ApiKey.HEARTBEAT, "of a stranger", READ_GROUP, **COMMITTED)
def _(of: Resources) -> dict[str, Any]:
    return {"group_id": of["group"], "generation_id": 1, "member_id": "nobody"}


@case(ApiKey.LEAVE_GROUP, "of a stranger", READ_GROUP)
def _(of: Resources) -> dict[str, Any]:
    return {"group_id": of["group"], "members": [{"member_id": "nobody"}]}


@case(ApiKey.DESCRIBE_GROUPS, "named", DESCRIBE_GROUP, **COMMITTED)
def _(of: Resources) -> dict[str, Any]:
    return {"groups": [of["group"]], "include_authorized_operations": False}


@case(ApiKey.DESCRIBE_GROUPS, "authorized operations", DESCRIBE_GROUP, **COMMITTED)
def _(of: Resources) -> dict[str, Any]:
    return {"groups": [of["group"]], "include_authorized_operations": True}


@case(ApiKey.DESCRIBE_GROUPS, "unknown", Need(Operation.DESCRIBE, GROUP, "missing", GROUP_DENIED))
def _(of: Resources) -> dict[str, Any]:
    return {"groups": [of["missing"]], "include_authorized_operations": True}


@case(
    ApiKey.LIST_GROUPS,
    "all",
    Need(Operation.DESCRIBE, GROUP, "group", instead=(Need(Operation.DESCRIBE, CLUSTER),)),
    topics=("topic",),
    groups=("group",),
)
def _(of: Resources) -> dict[str, Any]:
    return {}


@case(ApiKey.DELETE_GROUPS, "named", DELETE_GROUP, used_up=True, **COMMITTED)
def _(of: Resources) -> dict[str, Any]:
    return {"groups_names": [of["group"]]}


@case(ApiKey.DELETE_GROUPS, "unknown", Need(Operation.DELETE, GROUP, "missing", GROUP_DENIED))
def _(of: Resources) -> dict[str, Any]:
    return {"groups_names": [of["missing"]]}


# Offsets --------------------------------------------------------------------------------------------------------------


def _commit(of: Resources, **named: Any) -> dict[str, Any]:
    partitions = [{"partition_index": 0, "committed_offset": 0, "committed_leader_epoch": -1}]
    return {
        "group_id": of["group"],
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{**named, "partitions": partitions}],
    }


@case(ApiKey.OFFSET_COMMIT, "by name", READ_GROUP, READ_TOPIC, version=9, **COMMITTED)
def _(of: Resources) -> dict[str, Any]:
    return _commit(of, name=of["topic"])


@case(ApiKey.OFFSET_COMMIT, "by id", READ_GROUP, READ_TOPIC, **COMMITTED)
def _(of: Resources) -> dict[str, Any]:
    return _commit(of, topic_id=of.id_of("topic"))


@case(
    ApiKey.OFFSET_COMMIT,
    "unknown",
    Need(Operation.READ, TOPIC, "missing", TOPIC_DENIED),
    also=((Operation.READ, GROUP, "group"),),
    version=9,
)
def _(of: Resources) -> dict[str, Any]:
    return _commit(of, name=of["missing"])


def _fetch(of: Resources, topics: list[dict[str, Any]] | None) -> dict[str, Any]:
    return {"groups": [{"group_id": of["group"], "member_epoch": -1, "topics": topics}], "require_stable": False}


@case(ApiKey.OFFSET_FETCH, "by name", DESCRIBE_GROUP, DESCRIBE_TOPIC, version=9, **COMMITTED)
def _(of: Resources) -> dict[str, Any]:
    return _fetch(of, [{"name": of["topic"], "partition_indexes": [0]}])


@case(ApiKey.OFFSET_FETCH, "by id", DESCRIBE_GROUP, DESCRIBE_TOPIC, **COMMITTED)
def _(of: Resources) -> dict[str, Any]:
    return _fetch(of, [{"topic_id": of.id_of("topic"), "partition_indexes": [0]}])


@case(
    ApiKey.OFFSET_FETCH,
    "all",
    Need(Operation.DESCRIBE, TOPIC, "topic"),
    also=((Operation.DESCRIBE, GROUP, "group"),),
    topics=("topic", "other"),
    groups=("group",),
)
def _(of: Resources) -> dict[str, Any]:
    return _fetch(of, None)


@case(ApiKey.OFFSET_FETCH, "in an old version", DESCRIBE_GROUP, DESCRIBE_TOPIC, version=5, **COMMITTED)
def _(of: Resources) -> dict[str, Any]:
    return {"group_id": of["group"], "topics": [{"name": of["topic"], "partition_indexes": [0]}]}


@case(ApiKey.OFFSET_DELETE, "named", DELETE_GROUP, READ_TOPIC, used_up=True, **COMMITTED)
def _(of: Resources) -> dict[str, Any]:
    return {"group_id": of["group"], "topics": [{"name": of["topic"], "partitions": [{"partition_index": 0}]}]}


# The newer protocol ---------------------------------------------------------------------------------------------------


def _heartbeat(of: Resources, **more: Any) -> dict[str, Any]:
    return {
        "group_id": of["group"],
        "member_id": f"{of.user}-AAAAAAAAAAA",
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "topic_partitions": [],
        **more,
    }


@case(ApiKey.CONSUMER_GROUP_HEARTBEAT, "by name", READ_GROUP, DESCRIBE_TOPIC, used_up=True, topics=("topic",))
def _(of: Resources) -> dict[str, Any]:
    return _heartbeat(of, subscribed_topic_names=[of["topic"]])


@case(
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    "unknown topic",
    Need(Operation.DESCRIBE, TOPIC, "missing", TOPIC_DENIED),
    also=((Operation.READ, GROUP, "group"),),
    used_up=True,
)
def _(of: Resources) -> dict[str, Any]:
    return _heartbeat(of, subscribed_topic_names=[of["missing"]])


@case(ApiKey.CONSUMER_GROUP_HEARTBEAT, "by pattern", READ_GROUP, used_up=True, topics=("topic",))
def _(of: Resources) -> dict[str, Any]:
    return _heartbeat(of, subscribed_topic_names=[], subscribed_topic_regex=f"{of.prefix}-.*")


@case(ApiKey.CONSUMER_GROUP_DESCRIBE, "named", DESCRIBE_GROUP, **COMMITTED)
def _(of: Resources) -> dict[str, Any]:
    return {"group_ids": [of["group"]], "include_authorized_operations": True}


@case(
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    "with members",
    Need(Operation.DESCRIBE, GROUP, "consumers", GROUP_DENIED),
    DESCRIBE_TOPIC,
    topics=("topic",),
    consumers=("consumers",),
)
def _(of: Resources) -> dict[str, Any]:
    return {"group_ids": [of["consumers"]], "include_authorized_operations": True}


@case(ApiKey.CONSUMER_GROUP_DESCRIBE, "unknown", Need(Operation.DESCRIBE, GROUP, "missing", GROUP_DENIED))
def _(of: Resources) -> dict[str, Any]:
    return {"group_ids": [of["missing"]], "include_authorized_operations": False}
