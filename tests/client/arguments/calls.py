"""One valid call of every public client method; tests replace one argument at a time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa

from moldau import ConfigResource, NewTopic, OffsetSpec, PreparedTransaction, TopicPartition
from moldau.client.admin import (
    AbortSpec,
    AclFilter,
    ConfigKind,
    ElectionType,
    NewPartitions,
    QuotaEntity,
    ToEarliest,
    UserScramUpsertion,
    allow,
)


class Call(NamedTuple):
    """The arguments of a call, by name where it has names; `many` are the positional `*arguments`."""

    arguments: Mapping[str, Any] = {}
    many: tuple[Any, ...] = ()


NOW = datetime(2026, 1, 1, tzinfo=UTC)


def producer_calls(topic: str) -> dict[str, Call]:
    prepared = PreparedTransaction("id", 1, 1)
    return {
        "send": Call(
            {
                "topic": topic,
                "value": b"v",
                "key": b"k",
                "partition": 0,
                "timestamp": 1,
                "headers": [("h", b"1")],
                "on_delivery": print_nothing,
            }
        ),
        "send_batch": Call(
            {
                "topic": topic,
                "data": pa.table({"value": ["a"], "k": ["b"], "t": [1], "p": [0], "h": [[{"key": "a", "value": "b"}]]}),
                "value": "value",
                "key": "k",
                "timestamp": "t",
                "headers": "h",
                "partition": "p",
                "key_format": "bytes",
                "value_format": "bytes",
            }
        ),
        "flush": Call({"timeout": 5}),
        "partitions_for": Call({"topic": topic}),
        "metrics": Call(),
        "init_transactions": Call({"keep_prepared": False}),
        "begin_transaction": Call(),
        "send_offsets": Call({"offsets": {TopicPartition(topic, 0): 1}, "group": "g"}),
        "prepare_transaction": Call(),
        "commit_transaction": Call(),
        "abort_transaction": Call(),
        "complete_transaction": Call({"prepared": prepared, "commit": False}),
        "transaction": Call(),
        "close": Call({"timeout": 1}),
    }


def consumer_calls(topic: str) -> dict[str, Call]:
    partition = TopicPartition(topic, 0)
    return {
        "assign": Call({"partitions": [partition]}),
        "seek": Call({"partition": partition, "offset": 0, "epoch": None}),
        "seek_to_beginning": Call(many=(partition,)),
        "seek_to_end": Call(many=(partition,)),
        "position": Call({"partition": partition, "timeout": 1}),
        "pause": Call(many=(partition,)),
        "resume": Call(many=(partition,)),
        "paused": Call(),
        "poll": Call({"timeout": 0, "max_records": 10}),
        "poll_arrow": Call(
            {"max_rows": 10, "timeout": 0, "headers": False, "key_format": "bytes", "value_format": "bytes"}
        ),
        "commit": Call({"what": {partition: 0}, "timeout": 1}),
        "commit_async": Call({"what": {partition: 0}, "on_commit": print_nothing}),
        "committed": Call({"timeout": 1}, (partition,)),
        "group_metadata": Call(),
        "beginning_offsets": Call({"timeout": 1}, (partition,)),
        "end_offsets": Call({"timeout": 1}, (partition,)),
        "offsets_for_times": Call({"times": {partition: NOW}, "timeout": 1}),
        "lag": Call({"timeout": 1}, (partition,)),
        "partitions_for": Call({"topic": topic, "timeout": 1}),
        "list_topics": Call({"timeout": 1}),
        "metrics": Call(),
        "subscription": Call(),
        "assignment": Call(),
        "unsubscribe": Call(),
        "subscribe": Call({"topics": [topic], "pattern": None, "listener": None}),
        "wakeup": Call(),
        "close": Call({"timeout": 1}),
    }


def admin_calls(topic: str) -> dict[str, Call]:
    partition = TopicPartition(topic, 0)
    return {
        "create_topics": Call({"topics": NewTopic(f"{topic}.new"), "validate_only": True}),
        "delete_topics": Call({"topics": f"{topic}.none"}),
        "create_partitions": Call({"totals": {topic: NewPartitions(2)}, "validate_only": True}),
        "list_topics": Call({"include_internal": True}),
        "describe_topics": Call({"topics": topic}),
        "elect_leaders": Call({"kind": ElectionType.PREFERRED, "partitions": partition}),
        "alter_partition_reassignments": Call({"targets": {partition: None}}),
        "list_partition_reassignments": Call({"partitions": partition}),
        "describe_configs": Call({"resources": ConfigResource.topic(topic), "names": ["retention.ms"]}),
        "list_config_resources": Call({"kinds": [ConfigKind.TOPIC]}),
        "alter_configs": Call({"changes": {ConfigResource.topic(topic): {"retention.ms": 1}}, "validate_only": True}),
        "list_groups": Call({"states": ["Stable"], "types": ["Classic"], "protocol_types": ["consumer"]}),
        "describe_groups": Call({"groups": f"{topic}.group"}),
        "delete_groups": Call({"groups": f"{topic}.group"}),
        "list_group_offsets": Call({"group": f"{topic}.group", "partitions": partition, "require_stable": False}),
        "alter_group_offsets": Call({"group": f"{topic}.group", "offsets": {partition: 0}}),
        "reset_group_offsets": Call(
            {"group": f"{topic}.group", "to": ToEarliest(), "partitions": partition, "dry_run": True}
        ),
        "delete_group_offsets": Call({"group": f"{topic}.group", "partitions": partition}),
        "list_offsets": Call({"wanted": {partition: OffsetSpec.LATEST}, "isolation_level": "read_committed"}),
        "delete_records": Call({"before": {partition: 0}}),
        "describe_log_dirs": Call({"brokers": None, "partitions": partition}),
        "alter_replica_log_dirs": Call({"paths": {(partition, 77): "/nowhere"}}),
        "describe_producers": Call({"partitions": partition, "broker": None}),
        "list_transactions": Call(
            {"states": ["Ongoing"], "producer_ids": [1], "longer_than_ms": 10, "id_pattern": "none.*"}
        ),
        "describe_transactions": Call({"transactional_ids": f"{topic}.id"}),
        "abort_transaction": Call({"spec": AbortSpec(partition, 1 << 40, 0, 0)}),
        "terminate_transaction": Call({"transactional_id": f"{topic}.id"}),
        "complete_transaction": Call(
            {"transactional_id": f"{topic}.none", "producer_id": 1 << 40, "producer_epoch": 0, "commit": False}
        ),
        "find_hanging_transactions": Call({"partitions": [partition], "longer_than_ms": 10, "broker": None}),
        "describe_cluster": Call({"include_fenced": False}),
        "describe_features": Call({"timeout": 1}),
        "api_versions": Call({"broker": 0}),
        "unregister_broker": Call({"broker": 4711}),
        "create_acls": Call({"rules": allow("User:alice", "read", "topic", topic)}),
        "describe_acls": Call({"wanted": AclFilter(name=topic)}),
        "delete_acls": Call({"filters": AclFilter(name=f"{topic}.none")}),
        "describe_user_scram_credentials": Call({"users": f"{topic}.nobody"}),
        "alter_user_scram_credentials": Call({"alterations": UserScramUpsertion(f"{topic}.user", "p", iterations=1)}),
        "describe_client_quotas": Call({"user": "a", "client_id": "b", "ip": None, "strict": True}),
        "alter_client_quotas": Call(
            {"changes": {QuotaEntity(user=f"{topic}.user"): {"producer_byte_rate": 1e9}}, "validate_only": True}
        ),
        "create_delegation_token": Call({"owner": None, "renewers": ["User:bob"], "max_lifetime_ms": 10}),
        "renew_delegation_token": Call({"token": b"secret", "period_ms": 10}),
        "expire_delegation_token": Call({"token": b"secret", "period_ms": 10}),
        "describe_delegation_tokens": Call({"owners": ["User:bob"]}),
        "close": Call(),
    }


def print_nothing(*_arguments: object) -> None:
    """A callback."""


class Odd:
    """A value of a type that no call accepts."""

    def __repr__(self) -> str:
        return "Odd()"


WRONG: Mapping[str, Any] = {
    "None": None,
    "a number": 1,
    "a negative number": -3,
    "a large number": 1 << 70,
    "a fraction": 0.5,
    "a text": "odd",
    "bytes": b"odd",
    "an object": Odd(),
    "a list of texts": ["odd"],
    "a list of objects": [Odd()],
    "a list of triples": [("odd", 0, 0)],
    "a list of texts with texts": [("odd", "0")],
    "a pair the wrong way": [(0, "odd")],
    "negative partition": [("odd", -1)],
    "a mapping of a text": {"odd": 1},
    "a mapping of a pair to a text": {("odd", 0): "1"},
    "a mapping of a pair to an object": {("odd", 0): Odd()},
    "a mapping of a pair to a negative number": {("odd", 0): -9},
    "a naive datetime": datetime(2026, 1, 1),  # noqa: DTZ001
    "a mapping to a naive datetime": {("odd", 0): datetime(2026, 1, 1)},  # noqa: DTZ001
}

WAIT_FOR_EVER = frozenset({"None", "a large number"})
"""Valid values for a time-out, with which some calls would not return."""


def with_wrong(call: Call) -> list[tuple[str, Call]]:
    """Copies of the call with one wrong argument each, with a description of what is wrong."""
    changed: list[tuple[str, Call]] = []
    for what, wrong in WRONG.items():
        changed += [
            (f"{name} is {what}", Call({**call.arguments, name: wrong}, call.many))
            for name in call.arguments
            if name != "timeout" or what not in WAIT_FOR_EVER
        ]
        if call.many:
            changed.append((f"*arguments are {what}", Call(call.arguments, (wrong,))))
    return changed


def public_methods(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))}
