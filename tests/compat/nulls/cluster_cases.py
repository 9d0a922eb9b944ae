"""Cases of nullable strings in responses about records, topics, settings and brokers."""

from __future__ import annotations

from typing import Any

from moldau.records import BatchRecord, encode_batch
from moldau.wire.api import ApiKey
from tests.compat import wire
from tests.compat.nulls.case_context import EMPTY, NO_SUCH_ID, NULL, REASON, TEXT, CaseContext, case, one_of

COMPACTED = {"cleanup.policy": "compact"}
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
SET = 0
NO_SUCH_BROKER = 4711

# Records --------------------------------------------------------------------------------------------------------------


def _produce(context: CaseContext, topic: str, batch: bytes) -> dict[str, Any]:
    named = {"name": topic, "topic_id": context.topic_id if topic == context.topic else NO_SUCH_ID}
    data = [{"index": 0, "records": batch}]
    return {"acks": -1, "timeout_ms": 10_000, "topic_data": [{**named, "partition_data": data}]}


_ANSWERED = "responses.partition_responses."


@case(ApiKey.PRODUCE, "written", {f"{_ANSWERED}error_message": NULL}, first_version=3)
def _(context: CaseContext) -> Any:
    return _produce(context, context.topic, wire.batch_of(b"x"))


@case(
    ApiKey.PRODUCE,
    "without keys on a compacted topic",
    {f"{_ANSWERED}error_message": TEXT, f"{_ANSWERED}record_errors.batch_index_error_message": TEXT},
    first_version=3,
)
def _(context: CaseContext) -> Any:
    context.topic = context.new_topic(configs=COMPACTED)
    return _produce(context, context.topic, encode_batch([BatchRecord(0, wire.now_ms(), None, b"x")]))


@case(ApiKey.PRODUCE, "unknown topic", {f"{_ANSWERED}error_message": REASON}, first_version=3)
def _(context: CaseContext) -> Any:
    return _produce(context, context.unused_name(), wire.batch_of(b"x"))


@case(ApiKey.PRODUCE, "corrupt", {f"{_ANSWERED}error_message": REASON}, first_version=3)
def _(context: CaseContext) -> Any:
    batch = wire.batch_of(b"x")
    batch[-1] ^= 1
    return _produce(context, context.topic, batch)


@case(ApiKey.PRODUCE, "too large", {f"{_ANSWERED}error_message": REASON}, first_version=3)
def _(context: CaseContext) -> Any:
    context.topic = context.new_topic(configs={"max.message.bytes": "100"})
    return _produce(context, context.topic, wire.batch_of(bytes(1000)))


# Topics ---------------------------------------------------------------------------------------------------------------


_METADATA = {"cluster_id": TEXT, "brokers.rack": NULL}


@case(ApiKey.METADATA, "known and unknown names", {**_METADATA, "topics.name": TEXT})
def _(context: CaseContext) -> Any:
    return {"topics": [{"name": context.topic}, {"name": context.unused_name()}]}


@case(ApiKey.METADATA, "unknown id", {**_METADATA, "topics.name": NULL}, first_version=12)
def _(context: CaseContext) -> Any:
    return {"topics": [{"name": None, "topic_id": NO_SUCH_ID}]}


_CREATED = {"topics.error_message": NULL, "topics.configs.value": one_of(EMPTY, TEXT)}
_NOT_CREATED = {"topics.error_message": TEXT}


@case(ApiKey.CREATE_TOPICS, "created", _CREATED)
def _(context: CaseContext) -> Any:
    return {"topics": [{"name": context.unused_name(), "num_partitions": 1, "replication_factor": 1}]}


@case(ApiKey.CREATE_TOPICS, "validated", _CREATED)
def _(context: CaseContext) -> Any:
    topic = {"name": context.unused_name(), "num_partitions": 1, "replication_factor": 1}
    return {"topics": [topic], "validate_only": True}


@case(ApiKey.CREATE_TOPICS, "exists", _NOT_CREATED)
def _(context: CaseContext) -> Any:
    return {"topics": [{"name": context.topic, "num_partitions": 1, "replication_factor": 1}]}


@case(ApiKey.CREATE_TOPICS, "named twice", _NOT_CREATED)
def _(context: CaseContext) -> Any:
    return {"topics": [{"name": context.topic, "num_partitions": 1, "replication_factor": 1}] * 2}


@case(ApiKey.CREATE_TOPICS, "unknown setting", _NOT_CREATED)
def _(context: CaseContext) -> Any:
    topic = {"name": context.unused_name(), "num_partitions": 1, "replication_factor": 1}
    return {"topics": [{**topic, "configs": [{"name": "no.such.setting", "value": "1"}]}]}


@case(ApiKey.DELETE_TOPICS, "by name", {"responses.error_message": NULL, "responses.name": TEXT})
def _(context: CaseContext) -> Any:
    return {"topic_names": [context.topic], "topics": [{"name": context.topic}], "timeout_ms": 10_000}


@case(ApiKey.DELETE_TOPICS, "by id", {"responses.error_message": NULL, "responses.name": TEXT}, first_version=6)
def _(context: CaseContext) -> Any:
    return {"topics": [{"name": None, "topic_id": context.topic_id}], "timeout_ms": 10_000}


@case(ApiKey.DELETE_TOPICS, "unknown name", {"responses.error_message": TEXT, "responses.name": TEXT})
def _(context: CaseContext) -> Any:
    name = context.unused_name()
    return {"topic_names": [name], "topics": [{"name": name}], "timeout_ms": 10_000}


@case(ApiKey.DELETE_TOPICS, "unknown id", {"responses.error_message": TEXT, "responses.name": NULL}, first_version=6)
def _(context: CaseContext) -> Any:
    return {"topics": [{"name": None, "topic_id": NO_SUCH_ID}], "timeout_ms": 10_000}


@case(ApiKey.CREATE_PARTITIONS, "grown", {"results.error_message": NULL})
def _(context: CaseContext) -> Any:
    return {"topics": [{"name": context.topic, "count": 2, "assignments": None}], "timeout_ms": 10_000}


@case(ApiKey.CREATE_PARTITIONS, "as many as there are", {"results.error_message": TEXT})
def _(context: CaseContext) -> Any:
    return {"topics": [{"name": context.topic, "count": 1, "assignments": None}], "timeout_ms": 10_000}


@case(ApiKey.CREATE_PARTITIONS, "unknown topic", {"results.error_message": REASON})
def _(context: CaseContext) -> Any:
    return {"topics": [{"name": context.unused_name(), "count": 1, "assignments": None}], "timeout_ms": 10_000}


@case(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "known and unknown", {"topics.name": TEXT})
def _(context: CaseContext) -> Any:
    return {"topics": [{"name": context.topic}, {"name": context.unused_name()}]}


# Settings -------------------------------------------------------------------------------------------------------------


@case(
    ApiKey.DESCRIBE_CONFIGS,
    "a topic and the broker",
    {
        "results.error_message": EMPTY,
        "results.configs.documentation": TEXT,
        "results.configs.value": one_of(NULL, EMPTY, TEXT),
        "results.configs.synonyms.value": one_of(EMPTY, TEXT),
    },
)
def _(context: CaseContext) -> Any:
    resources = ((TOPIC_RESOURCE, context.topic), (BROKER_RESOURCE, str(context.broker_id)))
    return {
        "resources": [
            {"resource_type": kind, "resource_name": name, "configuration_keys": None} for kind, name in resources
        ],
        "include_synonyms": True,
        "include_documentation": True,
    }


@case(
    ApiKey.DESCRIBE_CONFIGS,
    "without documentation",
    {"results.error_message": EMPTY, "results.configs.documentation": NULL, "results.configs.value": TEXT},
)
def _(context: CaseContext) -> Any:
    wanted = {"resource_type": TOPIC_RESOURCE, "resource_name": context.topic, "configuration_keys": ["retention.ms"]}
    return {"resources": [wanted]}


@case(ApiKey.DESCRIBE_CONFIGS, "unknown topic", {"results.error_message": EMPTY})
def _(context: CaseContext) -> Any:
    return {"resources": [{"resource_type": TOPIC_RESOURCE, "resource_name": context.unused_name()}]}


@case(ApiKey.DESCRIBE_CONFIGS, "another broker", {"results.error_message": TEXT})
def _(context: CaseContext) -> Any:
    return {"resources": [{"resource_type": BROKER_RESOURCE, "resource_name": str(NO_SUCH_BROKER)}]}


def _alter(context: CaseContext, key: ApiKey, topic: str, setting: str) -> Any:
    config: dict[str, Any] = {"name": setting, "value": "1000000"}
    if key == ApiKey.INCREMENTAL_ALTER_CONFIGS:
        config["config_operation"] = SET
    resource = {"resource_type": TOPIC_RESOURCE, "resource_name": topic, "configs": [config]}
    return context.ask(key, {"resources": [resource]})


for _key in (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS):

    @case(_key, "altered", {"responses.error_message": NULL})
    def _(context: CaseContext, key: ApiKey = _key) -> Any:
        return _alter(context, key, context.topic, "retention.ms")

    @case(_key, "unknown setting", {"responses.error_message": TEXT})
    def _(context: CaseContext, key: ApiKey = _key) -> Any:
        return _alter(context, key, context.topic, "no.such.setting")

    @case(_key, "unknown topic", {"responses.error_message": TEXT})
    def _(context: CaseContext, key: ApiKey = _key) -> Any:
        return _alter(context, key, context.unused_name(), "retention.ms")


# The cluster ----------------------------------------------------------------------------------------------------------


@case(ApiKey.DESCRIBE_CLUSTER, "described", {"error_message": NULL, "brokers.rack": NULL})
def _(context: CaseContext) -> Any:
    return {}


@case(ApiKey.DESCRIBE_CLUSTER, "controllers of a broker", {"error_message": TEXT}, first_version=1)
def _(context: CaseContext) -> Any:
    return {"endpoint_type": 2}


_ELECTED = "replica_election_results.partition_result.error_message"


@case(ApiKey.ELECT_LEADERS, "not needed", {_ELECTED: TEXT})
def _(context: CaseContext) -> Any:
    return {"topic_partitions": [{"topic": context.topic, "partitions": [0]}], "timeout_ms": 10_000}


@case(ApiKey.ELECT_LEADERS, "unknown topic", {_ELECTED: TEXT})
def _(context: CaseContext) -> Any:
    return {"topic_partitions": [{"topic": context.unused_name(), "partitions": [0]}], "timeout_ms": 10_000}


_MOVED = "responses.partitions.error_message"


def _reassign(topic: str, replicas: list[int] | None) -> dict[str, Any]:
    return {"topics": [{"name": topic, "partitions": [{"partition_index": 0, "replicas": replicas}]}]}


@case(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "accepted", {"error_message": NULL, _MOVED: NULL})
def _(context: CaseContext) -> Any:
    return _reassign(context.topic, [context.broker_id])


@case(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "unknown broker", {"error_message": NULL, _MOVED: TEXT})
def _(context: CaseContext) -> Any:
    return _reassign(context.topic, [NO_SUCH_BROKER])


@case(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "nothing to cancel", {"error_message": NULL, _MOVED: REASON})
def _(context: CaseContext) -> Any:
    return _reassign(context.topic, None)


@case(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "unknown topic", {"error_message": NULL, _MOVED: TEXT})
def _(context: CaseContext) -> Any:
    return _reassign(context.unused_name(), [context.broker_id])


@case(ApiKey.LIST_PARTITION_REASSIGNMENTS, "all", {"error_message": NULL})
def _(context: CaseContext) -> Any:
    return {"topics": None}


@case(ApiKey.LIST_PARTITION_REASSIGNMENTS, "unknown topic", {"error_message": NULL})
def _(context: CaseContext) -> Any:
    return {"topics": [{"name": context.unused_name(), "partition_indexes": [0]}]}


_PRODUCERS = "topics.partitions.error_message"


@case(ApiKey.DESCRIBE_PRODUCERS, "described", {_PRODUCERS: NULL})
def _(context: CaseContext) -> Any:
    return {"topics": [{"name": context.topic, "partition_indexes": [0]}]}


@case(ApiKey.DESCRIBE_PRODUCERS, "unknown topic", {_PRODUCERS: TEXT})
def _(context: CaseContext) -> Any:
    return {"topics": [{"name": context.unused_name(), "partition_indexes": [0]}]}


@case(ApiKey.DESCRIBE_PRODUCERS, "unknown partition", {_PRODUCERS: REASON})
def _(context: CaseContext) -> Any:
    return {"topics": [{"name": context.topic, "partition_indexes": [9]}]}


_QUORUM_PARTITION = "topics.partitions.error_message"


@case(ApiKey.DESCRIBE_QUORUM, "described", {"error_message": EMPTY, _QUORUM_PARTITION: EMPTY})
def _(context: CaseContext) -> Any:
    return {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}


@case(ApiKey.UNREGISTER_BROKER, "unknown broker", {"error_message": TEXT})
def _(context: CaseContext) -> Any:
    return {"broker_id": NO_SUCH_BROKER}


@case(ApiKey.UPDATE_FEATURES, "unknown feature", {"error_message": TEXT, "results.error_message": TEXT})
def _(context: CaseContext) -> Any:
    update = {"feature": "no.such.feature", "max_version_level": 1, "upgrade_type": 1}
    return {"timeout_ms": 10_000, "feature_updates": [update]}


@case(
    ApiKey.UPDATE_FEATURES,
    "the level in force",
    {"error_message": NULL, "results.error_message": REASON},
    first_version=1,
)
def _(context: CaseContext) -> Any:
    update = {"feature": "transaction.version", "max_version_level": 2, "upgrade_type": 1}
    return {"timeout_ms": 10_000, "feature_updates": [update]}
