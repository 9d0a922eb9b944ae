"""Cases of the denial matrix: requests about two resources, one of which the client may always use."""

from __future__ import annotations

from typing import Any

from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from tests.authorization.matrix import GROUP, TOPIC, TXN, Need, Resources, case
from tests.authorization.topic_cases import records

TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
BOTH = ("topic", "other")

Also = tuple[Operation, ResourceType, str]


def needs(operation: Operation, *more: Also, **fields: Any) -> tuple[Need, dict[str, Any]]:
    """The need of one topic, and fields of a case that has the other one, too."""
    also: tuple[Also, ...] = ((operation, TOPIC, "other"), *more)
    return Need(operation, TOPIC, "topic", TOPIC_DENIED), {"topics": BOTH, "also": also, **fields}


WRITE, WRITING = needs(Operation.WRITE)
READ, READING = needs(Operation.READ)
DESCRIBE, DESCRIBING = needs(Operation.DESCRIBE)
DELETE, DELETING = needs(Operation.DELETE, used_up=True)


@case(ApiKey.PRODUCE, "to two topics", WRITE, version=12, **WRITING)
def _(of: Resources) -> dict[str, Any]:
    data = [{"name": of[role], "partition_data": [{"index": 0, "records": records()}]} for role in BOTH]
    return {"acks": -1, "timeout_ms": 10_000, "topic_data": data}


@case(ApiKey.FETCH, "of two topics", READ, version=12, **READING)
def _(of: Resources) -> dict[str, Any]:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000, "current_leader_epoch": -1}
    topics = [{"topic": of[role], "partitions": [partition]} for role in BOTH]
    sizes = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1000}
    return {**sizes, "replica_id": -1, "session_id": 0, "session_epoch": -1, "topics": topics}


@case(ApiKey.LIST_OFFSETS, "of two topics", DESCRIBE, **DESCRIBING)
def _(of: Resources) -> dict[str, Any]:
    partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    topics = [{"name": of[role], "partitions": [partition]} for role in BOTH]
    return {"replica_id": -1, "isolation_level": 0, "topics": topics}


@case(ApiKey.METADATA, "of two topics", DESCRIBE, **DESCRIBING)
def _(of: Resources) -> dict[str, Any]:
    return {"topics": [{"name": of[role]} for role in BOTH], "allow_auto_topic_creation": False}


@case(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "of two topics", DESCRIBE, **DESCRIBING)
def _(of: Resources) -> dict[str, Any]:
    return {"topics": [{"name": of[role]} for role in BOTH], "response_partition_limit": 1}


@case(ApiKey.DELETE_TOPICS, "of two topics", DELETE, **DELETING)
def _(of: Resources) -> dict[str, Any]:
    return {"timeout_ms": 10_000, "topics": [{"name": of[role]} for role in BOTH]}


@case(
    ApiKey.CREATE_TOPICS,
    "of two topics",
    Need(Operation.CREATE, TOPIC, "new", TOPIC_DENIED),
    also=(
        (Operation.CREATE, TOPIC, "other-new"),
        (Operation.DESCRIBE_CONFIGS, TOPIC, "other-new"),
        (Operation.DESCRIBE_CONFIGS, TOPIC, "new"),
    ),
    used_up=True,
)
def _(of: Resources) -> dict[str, Any]:
    topics = [{"name": of[role], "num_partitions": 1, "replication_factor": 1} for role in ("new", "other-new")]
    return {"timeout_ms": 10_000, "topics": topics}


COMMIT, COMMITTING = needs(Operation.READ, (Operation.READ, GROUP, "group"), groups=("group",))


def _commits(of: Resources) -> list[dict[str, Any]]:
    partition = {"partition_index": 0, "committed_offset": 0, "committed_leader_epoch": -1}
    return [{"name": of[role], "partitions": [partition]} for role in BOTH]


@case(ApiKey.OFFSET_COMMIT, "of two topics", COMMIT, version=9, **COMMITTING)
def _(of: Resources) -> dict[str, Any]:
    return {"group_id": of["group"], "generation_id_or_member_epoch": -1, "member_id": "", "topics": _commits(of)}


SEE, SEEING = needs(Operation.DESCRIBE, (Operation.DESCRIBE, GROUP, "group"), groups=("group",))


@case(ApiKey.OFFSET_FETCH, "of two topics", SEE, version=9, **SEEING)
def _(of: Resources) -> dict[str, Any]:
    topics = [{"name": of[role], "partition_indexes": [0]} for role in BOTH]
    return {"groups": [{"group_id": of["group"], "member_epoch": -1, "topics": topics}], "require_stable": False}


@case(
    ApiKey.OFFSET_FETCH,
    "of two groups",
    Need(Operation.DESCRIBE, GROUP, "group", GROUP_DENIED),
    also=((Operation.DESCRIBE, GROUP, "other group"), (Operation.DESCRIBE, TOPIC, "topic")),
    topics=("topic",),
    groups=("group", "other group"),
    version=9,
)
def _(of: Resources) -> dict[str, Any]:
    topics = [{"name": of["topic"], "partition_indexes": [0]}]
    groups = [{"group_id": of[role], "member_epoch": -1, "topics": topics} for role in ("group", "other group")]
    return {"groups": groups, "require_stable": False}


@case(
    ApiKey.DESCRIBE_GROUPS,
    "of two groups",
    Need(Operation.DESCRIBE, GROUP, "group", GROUP_DENIED),
    also=((Operation.DESCRIBE, GROUP, "other group"),),
    topics=("topic",),
    groups=("group", "other group"),
)
def _(of: Resources) -> dict[str, Any]:
    return {"groups": [of["group"], of["other group"]], "include_authorized_operations": True}


ADD, ADDING = needs(Operation.WRITE, (Operation.WRITE, TXN, "txn"), txns=("txn",))


@case(ApiKey.ADD_PARTITIONS_TO_TXN, "of two topics", ADD, version=3, **ADDING)
def _(of: Resources) -> dict[str, Any]:
    producer = of.producer("txn")
    return {
        "v3_and_below_transactional_id": of["txn"],
        "v3_and_below_producer_id": producer["producer_id"],
        "v3_and_below_producer_epoch": producer["producer_epoch"],
        "v3_and_below_topics": [{"name": of[role], "partitions": [0]} for role in BOTH],
    }


COMMIT_TXN, COMMITTING_TXN = needs(
    Operation.READ, (Operation.WRITE, TXN, "txn"), (Operation.READ, GROUP, "group"), txns=("txn",)
)


@case(ApiKey.TXN_OFFSET_COMMIT, "of two topics", COMMIT_TXN, version=4, **COMMITTING_TXN)
def _(of: Resources) -> dict[str, Any]:
    member = {"generation_id": -1, "member_id": "", **of.producer("txn")}
    return {"transactional_id": of["txn"], "group_id": of["group"], "topics": _commits(of), **member}


JOIN, JOINING = needs(Operation.DESCRIBE, (Operation.READ, GROUP, "group"), used_up=True)


@case(ApiKey.CONSUMER_GROUP_HEARTBEAT, "for two topics", JOIN, **JOINING)
def _(of: Resources) -> dict[str, Any]:
    return {
        "group_id": of["group"],
        "member_id": f"{of.user}-AAAAAAAAAAA",
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "topic_partitions": [],
        "subscribed_topic_names": [of[role] for role in BOTH],
    }
