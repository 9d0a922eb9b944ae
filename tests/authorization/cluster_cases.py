"""Cases of the denial matrix: the cluster, and settings of all kinds of resources."""

from __future__ import annotations

from typing import Any

from moldau.security import Operation
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from tests.authorization.matrix import CLUSTER, GROUP, NODE_ID, OPEN, TOPIC, Need, Resources, case

CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED

ALTER = Need(Operation.ALTER, CLUSTER, error=CLUSTER_DENIED)
DESCRIBE = Need(Operation.DESCRIBE, CLUSTER, error=CLUSTER_DENIED)

TOPIC_CONFIG, BROKER_CONFIG, LOGGER_CONFIG, METRICS_CONFIG, GROUP_CONFIG = 2, 4, 8, 16, 32
NO_LOGGERS = "Moldau has no settings of loggers and client metrics, and answers INVALID_REQUEST to who may see them"
SET = 0

OPEN[ApiKey.API_VERSIONS] = "a client asks for the versions before it can log in"


# The cluster ----------------------------------------------------------------------------------------------------------


@case(ApiKey.DESCRIBE_CLUSTER, "authorized operations", Need(Operation.DESCRIBE, CLUSTER))
def _(of: Resources) -> dict[str, Any]:
    return {"include_cluster_authorized_operations": True}


@case(ApiKey.DESCRIBE_LOG_DIRS, "named", DESCRIBE, topics=("topic",))
def _(of: Resources) -> dict[str, Any]:
    return {"topics": [{"topic": of["topic"], "partitions": [0]}]}


@case(ApiKey.ALTER_REPLICA_LOG_DIRS, "named", ALTER, topics=("topic",))
def _(of: Resources) -> dict[str, Any]:
    topics = [{"name": of["topic"], "partitions": [0]}]
    return {"dirs": [{"path": "/no/such/directory", "topics": topics}]}


@case(ApiKey.ELECT_LEADERS, "named", ALTER, topics=("topic",))
def _(of: Resources) -> dict[str, Any]:
    partitions = [{"topic": of["topic"], "partitions": [0]}]
    return {"election_type": 0, "topic_partitions": partitions, "timeout_ms": 10_000}


@case(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "named", ALTER, topics=("topic",))
def _(of: Resources) -> dict[str, Any]:
    topics = [{"name": of["topic"], "partitions": [{"partition_index": 0, "replicas": None}]}]
    return {"timeout_ms": 10_000, "topics": topics}


@case(ApiKey.LIST_PARTITION_REASSIGNMENTS, "named", DESCRIBE, topics=("topic",))
def _(of: Resources) -> dict[str, Any]:
    return {"timeout_ms": 10_000, "topics": [{"name": of["topic"], "partition_indexes": [0]}]}


@case(ApiKey.DESCRIBE_QUORUM, "of the metadata", DESCRIBE)
def _(of: Resources) -> dict[str, Any]:
    return {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}


@case(ApiKey.UNREGISTER_BROKER, "unknown", ALTER)
def _(of: Resources) -> dict[str, Any]:
    return {"broker_id": 4711}


@case(ApiKey.UPDATE_FEATURES, "checked only", ALTER)
def _(of: Resources) -> dict[str, Any]:
    updates = [{"feature": "no.such.feature", "max_version_level": 1, "upgrade_type": 1}]
    return {"timeout_ms": 10_000, "feature_updates": updates, "validate_only": True}


@case(ApiKey.LIST_CONFIG_RESOURCES, "all", Need(Operation.DESCRIBE_CONFIGS, CLUSTER, error=CLUSTER_DENIED))
def _(of: Resources) -> dict[str, Any]:
    return {"resource_types": [TOPIC_CONFIG, BROKER_CONFIG]}


# Settings -------------------------------------------------------------------------------------------------------------


def _see(kind: int, name: str) -> dict[str, Any]:
    resources = [{"resource_type": kind, "resource_name": name, "configuration_keys": None}]
    return {"resources": resources, "include_synonyms": False, "include_documentation": False}


@case(
    ApiKey.DESCRIBE_CONFIGS,
    "of a topic",
    Need(Operation.DESCRIBE_CONFIGS, TOPIC, "topic", TOPIC_DENIED),
    topics=("topic",),
)
def _(of: Resources) -> dict[str, Any]:
    return _see(TOPIC_CONFIG, of["topic"])


@case(ApiKey.DESCRIBE_CONFIGS, "of an unknown topic", Need(Operation.DESCRIBE_CONFIGS, TOPIC, "missing", TOPIC_DENIED))
def _(of: Resources) -> dict[str, Any]:
    return _see(TOPIC_CONFIG, of["missing"])


@case(ApiKey.DESCRIBE_CONFIGS, "of a broker", Need(Operation.DESCRIBE_CONFIGS, CLUSTER, error=CLUSTER_DENIED))
def _(of: Resources) -> dict[str, Any]:
    return _see(BROKER_CONFIG, NODE_ID)


@case(
    ApiKey.DESCRIBE_CONFIGS,
    "of loggers",
    Need(Operation.DESCRIBE_CONFIGS, CLUSTER, error=CLUSTER_DENIED),
    allowed_differs=NO_LOGGERS,
)
def _(of: Resources) -> dict[str, Any]:
    return _see(LOGGER_CONFIG, NODE_ID)


@case(
    ApiKey.DESCRIBE_CONFIGS,
    "of client metrics",
    Need(Operation.DESCRIBE_CONFIGS, CLUSTER, error=CLUSTER_DENIED),
    allowed_differs=NO_LOGGERS,
)
def _(of: Resources) -> dict[str, Any]:
    return _see(METRICS_CONFIG, NODE_ID)


@case(ApiKey.DESCRIBE_CONFIGS, "of a group", Need(Operation.DESCRIBE_CONFIGS, GROUP, "group", GROUP_DENIED))
def _(of: Resources) -> dict[str, Any]:
    return _see(GROUP_CONFIG, of["group"])


def _set(kind: int, name: str, setting: str, value: str) -> dict[str, Any]:
    configs = [{"name": setting, "value": value, "config_operation": SET}]
    return {"resources": [{"resource_type": kind, "resource_name": name, "configs": configs}], "validate_only": True}


def _replace(kind: int, name: str, setting: str, value: str) -> dict[str, Any]:
    configs = [{"name": setting, "value": value}]
    return {"resources": [{"resource_type": kind, "resource_name": name, "configs": configs}], "validate_only": True}


ALTER_TOPIC = Need(Operation.ALTER_CONFIGS, TOPIC, "topic", TOPIC_DENIED)
ALTER_MISSING = Need(Operation.ALTER_CONFIGS, TOPIC, "missing", TOPIC_DENIED)
ALTER_GROUP = Need(Operation.ALTER_CONFIGS, GROUP, "group", GROUP_DENIED)
ALTER_BROKER = Need(Operation.ALTER_CONFIGS, CLUSTER, error=CLUSTER_DENIED)


@case(ApiKey.ALTER_CONFIGS, "of a topic", ALTER_TOPIC, topics=("topic",))
def _(of: Resources) -> dict[str, Any]:
    return _replace(TOPIC_CONFIG, of["topic"], "retention.ms", "1000")


@case(ApiKey.ALTER_CONFIGS, "of an unknown topic", ALTER_MISSING)
def _(of: Resources) -> dict[str, Any]:
    return _replace(TOPIC_CONFIG, of["missing"], "retention.ms", "1000")


@case(ApiKey.ALTER_CONFIGS, "of a broker", ALTER_BROKER)
def _(of: Resources) -> dict[str, Any]:
    return _replace(BROKER_CONFIG, NODE_ID, "message.max.bytes", "2000000")


@case(ApiKey.ALTER_CONFIGS, "of a group", ALTER_GROUP)
def _(of: Resources) -> dict[str, Any]:
    return _replace(GROUP_CONFIG, of["group"], "consumer.session.timeout.ms", "50000")


@case(ApiKey.INCREMENTAL_ALTER_CONFIGS, "of a topic", ALTER_TOPIC, topics=("topic",))
def _(of: Resources) -> dict[str, Any]:
    return _set(TOPIC_CONFIG, of["topic"], "retention.ms", "1000")


@case(ApiKey.INCREMENTAL_ALTER_CONFIGS, "of an unknown topic", ALTER_MISSING)
def _(of: Resources) -> dict[str, Any]:
    return _set(TOPIC_CONFIG, of["missing"], "retention.ms", "1000")


@case(ApiKey.INCREMENTAL_ALTER_CONFIGS, "of a broker", ALTER_BROKER)
def _(of: Resources) -> dict[str, Any]:
    return _set(BROKER_CONFIG, NODE_ID, "message.max.bytes", "2000000")


@case(ApiKey.INCREMENTAL_ALTER_CONFIGS, "of a group", ALTER_GROUP)
def _(of: Resources) -> dict[str, Any]:
    return _set(GROUP_CONFIG, of["group"], "consumer.session.timeout.ms", "50000")


@case(ApiKey.INCREMENTAL_ALTER_CONFIGS, "of loggers", ALTER_BROKER, allowed_differs=NO_LOGGERS)
def _(of: Resources) -> dict[str, Any]:
    return _set(LOGGER_CONFIG, NODE_ID, "kafka.server.KafkaApis", "INFO")


@case(ApiKey.INCREMENTAL_ALTER_CONFIGS, "of client metrics", ALTER_BROKER, allowed_differs=NO_LOGGERS)
def _(of: Resources) -> dict[str, Any]:
    return _set(METRICS_CONFIG, NODE_ID, "interval.ms", "1000")
