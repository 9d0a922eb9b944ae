"""Cases of the denial matrix: topics, their records and their offsets."""

from __future__ import annotations

from typing import Any

from moldau.records import BatchRecord, encode_batch
from moldau.security import Operation
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from tests.authorization.matrix import CLUSTER, TOPIC, TXN, Need, Resources, case

TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TXN_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

WRITE = Need(Operation.WRITE, TOPIC, "topic", TOPIC_DENIED)
READ = Need(Operation.READ, TOPIC, "topic", TOPIC_DENIED)
DESCRIBE = Need(Operation.DESCRIBE, TOPIC, "topic", TOPIC_DENIED)
DESCRIBE_MISSING = Need(Operation.DESCRIBE, TOPIC, "missing", TOPIC_DENIED)
SEE = Need(Operation.DESCRIBE, TOPIC, "topic")
DELETE = Need(Operation.DELETE, TOPIC, "topic", TOPIC_DENIED, instead=(Need(Operation.DELETE, CLUSTER),))
DELETE_RECORDS = Need(Operation.DELETE, TOPIC, "topic", TOPIC_DENIED)
CLUSTER_ACTION = Need(Operation.CLUSTER_ACTION, CLUSTER, error=CLUSTER_DENIED)

NAMED = {"topics": ("topic",)}


def records(**fields: int) -> bytes:
    return bytes(encode_batch([BatchRecord(0, 1_700_000_000_000, b"k", b"v")], **fields))


# Produce --------------------------------------------------------------------------------------------------------------


def _produce(batch: bytes, **more: Any) -> dict[str, Any]:
    named = {key: more.pop(key) for key in ("name", "topic_id") if key in more}
    data = [{**named, "partition_data": [{"index": 0, "records": batch}]}]
    return {"acks": -1, "timeout_ms": 10_000, "topic_data": data, **more}


@case(ApiKey.PRODUCE, "by name", WRITE, version=12, **NAMED)
def _(of: Resources) -> dict[str, Any]:
    return _produce(records(), name=of["topic"])


@case(ApiKey.PRODUCE, "by id", WRITE, version=13, **NAMED)
def _(of: Resources) -> dict[str, Any]:
    return _produce(records(), topic_id=of.id_of("topic"))


@case(ApiKey.PRODUCE, "unknown", Need(Operation.WRITE, TOPIC, "missing", TOPIC_DENIED), version=12)
def _(of: Resources) -> dict[str, Any]:
    return _produce(records(), name=of["missing"])


@case(
    ApiKey.PRODUCE,
    "transactional",
    WRITE,
    Need(Operation.WRITE, TXN, "txn", TXN_DENIED),
    version=11,
    txns=("txn",),
    **NAMED,
)
def _(of: Resources) -> dict[str, Any]:
    batch = records(transactional=True, base_sequence=0, **of.producer("txn"))
    return _produce(batch, name=of["topic"], transactional_id=of["txn"])


@case(
    ApiKey.PRODUCE,
    "transactional, to an unknown topic",
    Need(Operation.WRITE, TXN, "txn", TXN_DENIED),
    version=11,
    txns=("txn",),
    also=((Operation.WRITE, TOPIC, "missing"),),
    **NAMED,
)
def _(of: Resources) -> dict[str, Any]:
    batch = records(transactional=True, base_sequence=0, **of.producer("txn"))
    return _produce(batch, name=of["missing"], transactional_id=of["txn"])


@case(
    ApiKey.PRODUCE,
    "transactional, which adds the partition",
    WRITE,
    Need(Operation.WRITE, TXN, "txn", TXN_DENIED),
    version=12,
    txns=("txn",),
    topics=("topic",),
    used_up=True,
)
def _(of: Resources) -> dict[str, Any]:
    batch = records(transactional=True, base_sequence=0, **of.producer("txn"))
    return _produce(batch, name=of["topic"], transactional_id=of["txn"])


# Fetch ----------------------------------------------------------------------------------------------------------------


def _fetch(**named: Any) -> dict[str, Any]:
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000, "current_leader_epoch": -1}]
    return {
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1000,
        "replica_id": -1,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{**named, "partitions": partitions}],
    }


@case(ApiKey.FETCH, "by name", READ, version=12, **NAMED)
def _(of: Resources) -> dict[str, Any]:
    return _fetch(topic=of["topic"])


@case(ApiKey.FETCH, "by id", READ, **NAMED)
def _(of: Resources) -> dict[str, Any]:
    return _fetch(topic_id=of.id_of("topic"))


@case(ApiKey.FETCH, "unknown", Need(Operation.READ, TOPIC, "missing", TOPIC_DENIED), version=12)
def _(of: Resources) -> dict[str, Any]:
    return _fetch(topic=of["missing"])


@case(
    ApiKey.FETCH,
    "as a replica",
    Need(Operation.CLUSTER_ACTION, CLUSTER, error=TOPIC_DENIED),
    also=((Operation.READ, TOPIC, "topic"),),
    **NAMED,
)
def _(of: Resources) -> dict[str, Any]:
    return _fetch(topic_id=of.id_of("topic")) | {
        "replica_id": 7,
        "replica_state": {"replica_id": 7, "replica_epoch": 1},
    }


# Offsets of partitions ------------------------------------------------------------------------------------------------


def _offsets(name: str) -> dict[str, Any]:
    partitions = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}]
    return {"replica_id": -1, "isolation_level": 0, "topics": [{"name": name, "partitions": partitions}]}


@case(ApiKey.LIST_OFFSETS, "named", DESCRIBE, **NAMED)
def _(of: Resources) -> dict[str, Any]:
    return _offsets(of["topic"])


@case(ApiKey.LIST_OFFSETS, "unknown", DESCRIBE_MISSING)
def _(of: Resources) -> dict[str, Any]:
    return _offsets(of["missing"])


@case(
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    "named",
    Need(Operation.DESCRIBE, TOPIC, "topic", TOPIC_DENIED, instead=(Need(Operation.CLUSTER_ACTION, CLUSTER),)),
    **NAMED,
)
def _(of: Resources) -> dict[str, Any]:
    return _epochs(of["topic"])


@case(ApiKey.OFFSET_FOR_LEADER_EPOCH, "unknown", DESCRIBE_MISSING)
def _(of: Resources) -> dict[str, Any]:
    return _epochs(of["missing"])


def _epochs(name: str) -> dict[str, Any]:
    partitions = [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]
    return {"replica_id": -1, "topics": [{"topic": name, "partitions": partitions}]}


@case(ApiKey.DELETE_RECORDS, "named", DELETE_RECORDS, **NAMED)
def _(of: Resources) -> dict[str, Any]:
    return {"timeout_ms": 5_000, "topics": [{"name": of["topic"], "partitions": [{"partition_index": 0, "offset": 0}]}]}


@case(ApiKey.DELETE_RECORDS, "unknown", Need(Operation.DELETE, TOPIC, "missing", TOPIC_DENIED))
def _(of: Resources) -> dict[str, Any]:
    partitions = [{"partition_index": 0, "offset": 0}]
    return {"timeout_ms": 5_000, "topics": [{"name": of["missing"], "partitions": partitions}]}


# Metadata -------------------------------------------------------------------------------------------------------------


def _metadata(topics: list[dict[str, Any]] | None, *, create: bool = False, operations: bool = False) -> dict[str, Any]:
    return {
        "topics": topics,
        "allow_auto_topic_creation": create,
        "include_topic_authorized_operations": operations,
        "include_cluster_authorized_operations": operations,
    }


@case(ApiKey.METADATA, "by name", DESCRIBE, **NAMED)
def _(of: Resources) -> dict[str, Any]:
    return _metadata([{"name": of["topic"]}])


@case(ApiKey.METADATA, "by id", DESCRIBE, **NAMED)
def _(of: Resources) -> dict[str, Any]:
    return _metadata([{"name": None, "topic_id": of.id_of("topic")}])


@case(ApiKey.METADATA, "unknown", DESCRIBE_MISSING)
def _(of: Resources) -> dict[str, Any]:
    return _metadata([{"name": of["missing"]}])


@case(ApiKey.METADATA, "illegal name", Need(Operation.DESCRIBE, TOPIC, "no/topic", TOPIC_DENIED))
def _(of: Resources) -> dict[str, Any]:
    return _metadata([{"name": of["no/topic"]}])


@case(ApiKey.METADATA, "all", SEE, topics=("topic", "other"))
def _(of: Resources) -> dict[str, Any]:
    return _metadata(None)


@case(ApiKey.METADATA, "authorized operations of topics", DESCRIBE, version=8, **NAMED)
def _(of: Resources) -> dict[str, Any]:
    return _metadata([{"name": of["topic"]}], operations=True)


@case(
    ApiKey.METADATA,
    "authorized operations of the cluster",
    Need(Operation.DESCRIBE, CLUSTER),
    also=((Operation.DESCRIBE, TOPIC, "topic"),),
    version=8,
    **NAMED,
)
def _(of: Resources) -> dict[str, Any]:
    return _metadata([{"name": of["topic"]}], operations=True)


@case(
    ApiKey.METADATA,
    "create",
    Need(Operation.CREATE, TOPIC, "missing", TOPIC_DENIED, instead=(Need(Operation.CREATE, CLUSTER),)),
    Need(Operation.DESCRIBE, TOPIC, "missing", TOPIC_DENIED),
    used_up=True,
    allowed_differs="Apache Kafka answers before the topic is created, Moldau after it",
)
def _(of: Resources) -> dict[str, Any]:
    return _metadata([{"name": of["missing"]}], create=True)


@case(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "named", DESCRIBE, **NAMED)
def _(of: Resources) -> dict[str, Any]:
    return {"topics": [{"name": of["topic"]}], "response_partition_limit": 10}


@case(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "unknown", DESCRIBE_MISSING)
def _(of: Resources) -> dict[str, Any]:
    return {"topics": [{"name": of["missing"]}], "response_partition_limit": 10}


@case(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "all", SEE, topics=("topic", "other"))
def _(of: Resources) -> dict[str, Any]:
    return {"topics": [], "response_partition_limit": 2000}


# Create, alter and delete ---------------------------------------------------------------------------------------------


@case(
    ApiKey.CREATE_TOPICS,
    "new",
    Need(Operation.CREATE, TOPIC, "missing", TOPIC_DENIED, instead=(Need(Operation.CREATE, CLUSTER),)),
    Need(Operation.DESCRIBE_CONFIGS, TOPIC, "missing", TOPIC_DENIED),
    used_up=True,
)
def _(of: Resources) -> dict[str, Any]:
    return _create(of["missing"])


@case(
    ApiKey.CREATE_TOPICS,
    "existing",
    Need(Operation.CREATE, TOPIC, "topic", TOPIC_DENIED, instead=(Need(Operation.CREATE, CLUSTER),)),
    **NAMED,
)
def _(of: Resources) -> dict[str, Any]:
    return _create(of["topic"])


def _create(name: str) -> dict[str, Any]:
    return {"timeout_ms": 10_000, "topics": [{"name": name, "num_partitions": 1, "replication_factor": 1}]}


@case(ApiKey.DELETE_TOPICS, "by name", DELETE, used_up=True, **NAMED)
def _(of: Resources) -> dict[str, Any]:
    return {"timeout_ms": 10_000, "topics": [{"name": of["topic"]}]}


@case(ApiKey.DELETE_TOPICS, "by name, in an old version", DELETE, used_up=True, version=5, **NAMED)
def _(of: Resources) -> dict[str, Any]:
    return {"timeout_ms": 10_000, "topic_names": [of["topic"]]}


@case(ApiKey.DELETE_TOPICS, "by id", DELETE, used_up=True, **NAMED)
def _(of: Resources) -> dict[str, Any]:
    return {"timeout_ms": 10_000, "topics": [{"name": None, "topic_id": of.id_of("topic")}]}


@case(ApiKey.DELETE_TOPICS, "by id, seen", DELETE, used_up=True, also=((Operation.DESCRIBE, TOPIC, "topic"),), **NAMED)
def _(of: Resources) -> dict[str, Any]:
    return {"timeout_ms": 10_000, "topics": [{"name": None, "topic_id": of.id_of("topic")}]}


@case(ApiKey.DELETE_TOPICS, "unknown", DESCRIBE_MISSING)
def _(of: Resources) -> dict[str, Any]:
    return {"timeout_ms": 10_000, "topics": [{"name": of["missing"]}]}


@case(ApiKey.CREATE_PARTITIONS, "named", Need(Operation.ALTER, TOPIC, "topic", TOPIC_DENIED), **NAMED)
def _(of: Resources) -> dict[str, Any]:
    topics = [{"name": of["topic"], "count": 2, "assignments": None}]
    return {"timeout_ms": 10_000, "validate_only": True, "topics": topics}


@case(ApiKey.CREATE_PARTITIONS, "unknown", Need(Operation.ALTER, TOPIC, "missing", TOPIC_DENIED))
def _(of: Resources) -> dict[str, Any]:
    topics = [{"name": of["missing"], "count": 2, "assignments": None}]
    return {"timeout_ms": 10_000, "validate_only": True, "topics": topics}


@case(ApiKey.DESCRIBE_PRODUCERS, "named", READ, **NAMED)
def _(of: Resources) -> dict[str, Any]:
    return {"topics": [{"name": of["topic"], "partition_indexes": [0]}]}


@case(ApiKey.DESCRIBE_PRODUCERS, "unknown", Need(Operation.READ, TOPIC, "missing", TOPIC_DENIED))
def _(of: Resources) -> dict[str, Any]:
    return {"topics": [{"name": of["missing"], "partition_indexes": [0]}]}
