"""Cases of the denial matrix: producer ids and transactions."""

from __future__ import annotations

from typing import Any

from moldau.security import Operation
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from tests.authorization.matrix import CLUSTER, GROUP, TOPIC, TXN, Need, Resources, case

TXN_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

WRITE_TXN = Need(Operation.WRITE, TXN, "txn", TXN_DENIED)
WRITE_TOPIC = Need(Operation.WRITE, TOPIC, "topic", TOPIC_DENIED)
READ_TOPIC = Need(Operation.READ, TOPIC, "topic", TOPIC_DENIED)
READ_GROUP = Need(Operation.READ, GROUP, "group", GROUP_DENIED)

BEGUN: dict[str, Any] = {"topics": ("topic",), "txns": ("txn",)}


def _init(**more: Any) -> dict[str, Any]:
    return {"transactional_id": None, "transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1, **more}


@case(ApiKey.INIT_PRODUCER_ID, "transactional", WRITE_TXN, used_up=True)
def _(of: Resources) -> dict[str, Any]:
    return _init(transactional_id=of["txn"])


@case(
    ApiKey.INIT_PRODUCER_ID,
    "idempotent",
    Need(
        Operation.IDEMPOTENT_WRITE,
        CLUSTER,
        error=CLUSTER_DENIED,
        instead=(Need(Operation.WRITE, TOPIC, "topic"), Need(Operation.WRITE, TOPIC, "missing")),
    ),
    topics=("topic",),
)
def _(of: Resources) -> dict[str, Any]:
    return _init()


@case(
    ApiKey.INIT_PRODUCER_ID,
    "with two-phase commit",
    WRITE_TXN,
    Need(Operation.TWO_PHASE_COMMIT, TXN, "txn", TXN_DENIED),
    used_up=True,
    version=6,
)
def _(of: Resources) -> dict[str, Any]:
    return _init(transactional_id=of["txn"], enable2_pc=True)


@case(ApiKey.ADD_PARTITIONS_TO_TXN, "of a client", WRITE_TXN, WRITE_TOPIC, version=3, **BEGUN)
def _(of: Resources) -> dict[str, Any]:
    producer = of.producer("txn")
    return {
        "v3_and_below_transactional_id": of["txn"],
        "v3_and_below_producer_id": producer["producer_id"],
        "v3_and_below_producer_epoch": producer["producer_epoch"],
        "v3_and_below_topics": [{"name": of["topic"], "partitions": [0]}],
    }


@case(
    ApiKey.ADD_PARTITIONS_TO_TXN,
    "of a broker",
    Need(Operation.CLUSTER_ACTION, CLUSTER, error=CLUSTER_DENIED),
    also=((Operation.WRITE, TXN, "txn"), (Operation.WRITE, TOPIC, "topic")),
    version=5,
    **BEGUN,
)
def _(of: Resources) -> dict[str, Any]:
    topics = [{"name": of["topic"], "partitions": [0]}]
    transaction = {"transactional_id": of["txn"], "verify_only": True, "topics": topics, **of.producer("txn")}
    return {"transactions": [transaction]}


@case(ApiKey.ADD_OFFSETS_TO_TXN, "named", WRITE_TXN, READ_GROUP, **BEGUN)
def _(of: Resources) -> dict[str, Any]:
    return {"transactional_id": of["txn"], "group_id": of["group"], **of.producer("txn")}


@case(ApiKey.TXN_OFFSET_COMMIT, "named", WRITE_TXN, READ_GROUP, READ_TOPIC, version=4, **BEGUN)
def _(of: Resources) -> dict[str, Any]:
    partitions = [{"partition_index": 0, "committed_offset": 0, "committed_leader_epoch": -1}]
    return {
        "transactional_id": of["txn"],
        "group_id": of["group"],
        "generation_id": -1,
        "member_id": "",
        "topics": [{"name": of["topic"], "partitions": partitions}],
        **of.producer("txn"),
    }


@case(ApiKey.END_TXN, "named", WRITE_TXN, used_up=True, **BEGUN)
def _(of: Resources) -> dict[str, Any]:
    return {"transactional_id": of["txn"], "committed": False, **of.producer("txn")}


@case(
    ApiKey.WRITE_TXN_MARKERS,
    "named",
    Need(
        Operation.CLUSTER_ACTION,
        CLUSTER,
        error=CLUSTER_DENIED,
        instead=(Need(Operation.ALTER, CLUSTER),),
    ),
    topics=("topic",),
)
def _(of: Resources) -> dict[str, Any]:
    marker = {
        "producer_id": 77_777,
        "producer_epoch": 0,
        "transaction_result": False,
        "topics": [{"name": of["topic"], "partition_indexes": [0]}],
        "coordinator_epoch": 0,
    }
    return {"markers": [marker]}


@case(
    ApiKey.DESCRIBE_TRANSACTIONS,
    "named",
    Need(Operation.DESCRIBE, TXN, "txn", TXN_DENIED),
    Need(Operation.DESCRIBE, TOPIC, "topic"),
    **BEGUN,
)
def _(of: Resources) -> dict[str, Any]:
    return {"transactional_ids": [of["txn"]]}


@case(ApiKey.DESCRIBE_TRANSACTIONS, "unknown", Need(Operation.DESCRIBE, TXN, "missing", TXN_DENIED))
def _(of: Resources) -> dict[str, Any]:
    return {"transactional_ids": [of["missing"]]}


@case(ApiKey.LIST_TRANSACTIONS, "all", Need(Operation.DESCRIBE, TXN, "txn"), **BEGUN)
def _(of: Resources) -> dict[str, Any]:
    return {"state_filters": [], "producer_id_filters": []}
