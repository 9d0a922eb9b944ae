"""Settings over raw connections: described with sources and synonyms, altered as a whole or one by one."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moldau.wire.errors import ErrorCode
from moldau.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestConfig,
    AlterConfigsRequestResource,
    AlterConfigsResponseResource,
)
from moldau.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponseConfig,
    DescribeConfigsResponseResource,
)
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest
from moldau.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsResponseResource,
)
from tests.compat import wire
from tests.compat.wire import ask
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC_SOURCE, DYNAMIC_BROKER_SOURCE, DYNAMIC_DEFAULT_SOURCE, STATIC_SOURCE, DEFAULT_SOURCE = range(1, 6)
GROUP_SOURCE = 8


def describe(
    connection: RawConnection, kind: int, name: str, keys: list[str] | None = None, **options: bool
) -> DescribeConfigsResponseResource:
    wanted = DescribeConfigsRequestResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    (answer,) = ask(connection, DescribeConfigsRequest(resources=[wanted], **options)).results
    return answer


def entry(connection: RawConnection, topic: str, key: str) -> DescribeConfigsResponseConfig:
    (found,) = describe(connection, TOPIC, topic, [key], include_synonyms=True).configs
    return found


def increment(
    connection: RawConnection, kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> IncrementalAlterConfigsResponseResource:
    resource = IncrementalAlterConfigsRequestResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            IncrementalAlterConfigsRequestConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (answer,) = ask(connection, request).responses
    return answer


def replace(
    connection: RawConnection, kind: int, name: str, configs: dict[str, str | None]
) -> AlterConfigsResponseResource:
    resource = AlterConfigsRequestResource(
        resource_type=kind,
        resource_name=name,
        configs=[AlterConfigsRequestConfig(name=key, value=value) for key, value in configs.items()],
    )
    (answer,) = ask(connection, AlterConfigsRequest(resources=[resource])).responses
    return answer


def becomes(connection: RawConnection, topic: str, key: str, value: str, source: int = TOPIC_SOURCE) -> None:
    def attempt() -> bool:
        found = entry(connection, topic, key)
        return (found.value, found.config_source) == (value, source)

    wait_until(attempt)


def broker_name(connection: RawConnection) -> str:
    return str(wire.metadata(connection, []).brokers[0].node_id)


# Describing -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [None, []])
def test_all_settings_of_a_topic_have_kafkas_defaults(keys: list[str] | None, raw: RawConnection, topic: str) -> None:
    answer = describe(raw, TOPIC, topic, keys)
    assert (answer.error_code, answer.error_message) == (0, "")
    found = {each.name: each.value for each in answer.configs}
    expected = {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "delete.retention.ms": "86400000",
        "file.delete.delay.ms": "60000",
        "flush.messages": "9223372036854775807",
        "flush.ms": "9223372036854775807",
        "index.interval.bytes": "4096",
        "max.compaction.lag.ms": "9223372036854775807",
        "max.message.bytes": "1048588",
        "message.timestamp.after.max.ms": "3600000",
        "message.timestamp.before.max.ms": "9223372036854775807",
        "message.timestamp.type": "CreateTime",
        "min.cleanable.dirty.ratio": "0.5",
        "min.compaction.lag.ms": "0",
        "min.insync.replicas": "1",
        "preallocate": "false",
        "retention.bytes": "-1",
        "retention.ms": "604800000",
        "segment.bytes": "1073741824",
        "segment.index.bytes": "10485760",
        "segment.jitter.ms": "0",
        "segment.ms": "604800000",
        "unclean.leader.election.enable": "false",
    }
    assert {name: found.get(name) for name in expected} == expected
    assert not any(each.is_sensitive or each.read_only for each in answer.configs)


def test_unknown_keys_are_silently_missing(raw: RawConnection, topic: str) -> None:
    answer = describe(raw, TOPIC, topic, ["retention.ms", "no.such.setting"])
    assert (answer.error_code, [each.name for each in answer.configs]) == (0, ["retention.ms"])


def test_a_setting_has_the_source_of_its_value(raw: RawConnection, new_topic: Callable[..., str]) -> None:
    topic = new_topic(configs={"segment.bytes": "2000000"})
    own, default = entry(raw, topic, "segment.bytes"), entry(raw, topic, "index.interval.bytes")
    assert (own.value, own.config_source) == ("2000000", TOPIC_SOURCE)
    assert [(each.name, each.value, each.source) for each in own.synonyms] == [
        ("segment.bytes", "2000000", TOPIC_SOURCE),
        ("log.segment.bytes", "1073741824", DEFAULT_SOURCE),
    ]
    assert default.config_source == DEFAULT_SOURCE
    assert [each.name for each in default.synonyms] == ["log.index.interval.bytes"]


def test_documentation_is_included_on_request(raw: RawConnection, topic: str) -> None:
    (silent,) = describe(raw, TOPIC, topic, ["retention.ms"]).configs
    (spoken,) = describe(raw, TOPIC, topic, ["retention.ms"], include_documentation=True).configs
    assert silent.documentation is None
    assert spoken.documentation
    assert silent.synonyms == []


@pytest.mark.parametrize(
    ("name", "code"),
    [("no-such-topic-anywhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), ("bad name", ErrorCode.INVALID_TOPIC_EXCEPTION)],
)
def test_unknown_resources_have_no_settings(name: str, code: ErrorCode, raw: RawConnection) -> None:
    answer = describe(raw, TOPIC, name)
    assert (answer.error_code, answer.configs) == (code, [])


def test_a_broker_describes_itself(raw: RawConnection) -> None:
    answer = describe(raw, BROKER, broker_name(raw), include_synonyms=True)
    assert answer.error_code == 0
    found = {each.name: each for each in answer.configs}
    assert found["node.id"].value == broker_name(raw)
    assert found["node.id"].read_only
    assert not found["log.retention.ms"].read_only
    assert (found["num.partitions"].value, found["num.partitions"].config_source) == ("1", DEFAULT_SOURCE)


@pytest.mark.parametrize(("kind", "name"), [(BROKER, "4711"), (BROKER, "no number"), (99, "x")])
def test_other_resources_are_refused(kind: int, name: str, raw: RawConnection) -> None:
    assert describe(raw, kind, name).error_code == ErrorCode.INVALID_REQUEST


# One by one -----------------------------------------------------------------------------------------------------------


def test_a_setting_is_set_and_deleted(raw: RawConnection, topic: str) -> None:
    assert (
        increment(raw, TOPIC, topic, ("retention.ms", SET, "1000"), ("max.message.bytes", SET, "5000")).error_code == 0
    )
    becomes(raw, topic, "retention.ms", "1000")
    becomes(raw, topic, "max.message.bytes", "5000")
    assert increment(raw, TOPIC, topic, ("retention.ms", DELETE, None)).error_code == 0
    becomes(raw, topic, "retention.ms", "604800000", DEFAULT_SOURCE)
    becomes(raw, topic, "max.message.bytes", "5000")
    # Deleting a setting that is not set is allowed.
    assert increment(raw, TOPIC, topic, ("retention.ms", DELETE, None)).error_code == 0


def test_values_are_appended_to_and_subtracted_from_lists(raw: RawConnection, topic: str) -> None:
    assert increment(raw, TOPIC, topic, ("cleanup.policy", APPEND, "compact")).error_code == 0
    becomes(raw, topic, "cleanup.policy", "delete,compact")
    assert increment(raw, TOPIC, topic, ("cleanup.policy", APPEND, "compact")).error_code == 0
    becomes(raw, topic, "cleanup.policy", "delete,compact")
    assert increment(raw, TOPIC, topic, ("cleanup.policy", SUBTRACT, "delete")).error_code == 0
    becomes(raw, topic, "cleanup.policy", "compact")


def test_a_changed_setting_takes_effect(raw: RawConnection, topic: str) -> None:
    assert increment(raw, TOPIC, topic, ("max.message.bytes", SET, "200")).error_code == 0
    becomes(raw, topic, "max.message.bytes", "200")
    answer = wait_until(lambda: wire.produce(raw, topic, wire.batch_of(b"x" * 500)))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert increment(raw, TOPIC, topic, ("max.message.bytes", DELETE, None)).error_code == 0
    wait_until(lambda: wire.produce(raw, topic, wire.batch_of(b"x" * 500)).error_code == 0)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("no.such.setting", SET, "1"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, "soon"), ErrorCode.INVALID_CONFIG),
        (("segment.bytes", SET, "3"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
        (("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SUBTRACT, "1"), ErrorCode.INVALID_CONFIG),
        (("cleanup.policy", APPEND, "burn"), ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_bad_change_is_refused_together_with_the_good_ones_of_its_resource(
    change: tuple[str, int, str | None], code: ErrorCode, raw: RawConnection, topic: str
) -> None:
    answer = increment(raw, TOPIC, topic, ("max.message.bytes", SET, "5000"), change)
    assert ErrorCode(answer.error_code) == code
    assert answer.error_message
    assert entry(raw, topic, "max.message.bytes").config_source == DEFAULT_SOURCE


def test_a_key_may_be_changed_only_once_per_request(raw: RawConnection, topic: str) -> None:
    answer = increment(raw, TOPIC, topic, ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_a_resource_may_be_changed_only_once_per_request(raw: RawConnection, topic: str) -> None:
    change = IncrementalAlterConfigsRequestConfig(name="retention.ms", config_operation=SET, value="1000")
    resource = IncrementalAlterConfigsRequestResource(resource_type=TOPIC, resource_name=topic, configs=[change])
    answers = ask(raw, IncrementalAlterConfigsRequest(resources=[resource, resource])).responses
    assert {answer.error_code for answer in answers} == {ErrorCode.INVALID_REQUEST}


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "no-such-topic-anywhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", ErrorCode.INVALID_REQUEST),
        (BROKER, "4711", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_unknown_resources_cannot_be_altered(kind: int, name: str, code: ErrorCode, raw: RawConnection) -> None:
    answer = increment(raw, kind, name, ("retention.ms", SET, "1000"))
    assert (answer.error_code, answer.resource_type, answer.resource_name) == (code, kind, name)
    assert answer.error_message


def test_a_change_with_validate_only_has_no_effect(raw: RawConnection, topic: str) -> None:
    assert increment(raw, TOPIC, topic, ("retention.ms", SET, "1000"), validate_only=True).error_code == 0
    bad = increment(raw, TOPIC, topic, ("retention.ms", SET, "soon"), validate_only=True)
    assert bad.error_code == ErrorCode.INVALID_CONFIG
    assert entry(raw, topic, "retention.ms").config_source == DEFAULT_SOURCE


# Broker settings ------------------------------------------------------------------------------------------------------


def test_a_dynamic_setting_of_the_broker_changes_while_it_runs(raw: RawConnection) -> None:
    name = broker_name(raw)

    def current() -> tuple[str | None, int]:
        (found,) = describe(raw, BROKER, name, ["log.retention.bytes"]).configs
        return found.value, found.config_source

    before = current()
    try:
        assert increment(raw, BROKER, name, ("log.retention.bytes", SET, "1000000000000")).error_code == 0
        wait_until(lambda: current() == ("1000000000000", DYNAMIC_BROKER_SOURCE))
    finally:
        assert increment(raw, BROKER, name, ("log.retention.bytes", DELETE, None)).error_code == 0
    wait_until(lambda: current() == before)


def test_a_cluster_wide_default_applies_to_topics(raw: RawConnection, topic: str) -> None:
    """A harmless setting, since it changes all topics of the server under test."""
    try:
        assert increment(raw, BROKER, "", ("log.index.interval.bytes", SET, "5000")).error_code == 0
        becomes(raw, topic, "index.interval.bytes", "5000", DYNAMIC_DEFAULT_SOURCE)
    finally:
        assert increment(raw, BROKER, "", ("log.index.interval.bytes", DELETE, None)).error_code == 0
    becomes(raw, topic, "index.interval.bytes", "4096", DEFAULT_SOURCE)


@pytest.mark.parametrize("change", [("node.id", SET, "9"), ("log.dirs", SET, "/elsewhere")])
def test_read_only_broker_settings_cannot_be_altered(change: tuple[str, int, str], raw: RawConnection) -> None:
    answer = increment(raw, BROKER, broker_name(raw), change)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.error_message


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("sasl.kerberos.min.time.before.relogin", "70000", "70000"),
        ("cleanup.policy", "compact", None),
        ("a.b", "c", None),
    ],
    ids=["only-kafkas", "of-topics", "of-nobody"],
)
def test_a_broker_stores_settings_without_effect(key: str, value: str, shown: str | None, raw: RawConnection) -> None:
    """Kafka's plugins have their own settings. An undeclared setting may be a secret, so its value is not shown."""
    name = broker_name(raw)

    def current() -> list[tuple[str | None, int]]:
        found = describe(raw, BROKER, name, [key]).configs
        return [(each.value, each.config_source) for each in found if each.config_source != DEFAULT_SOURCE]

    try:
        changes = ((key, SET, value), ("log.retention.bytes", SET, "1000000000000"))
        assert increment(raw, BROKER, name, *changes).error_code == 0
        wait_until(lambda: current() == [(shown, DYNAMIC_BROKER_SOURCE)])
    finally:
        assert replace(raw, BROKER, name, {}).error_code == 0
    wait_until(lambda: current() == [])


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("sasl.kerberos.min.time.before.relogin", SET, "soon"), ErrorCode.INVALID_REQUEST),
        (("broker.session.timeout.ms", SET, "10000"), ErrorCode.INVALID_REQUEST),
        (("a.b", APPEND, "c"), ErrorCode.INVALID_CONFIG),
    ],
)
def test_settings_without_effect_have_kafkas_types_and_scopes(
    change: tuple[str, int, str], code: ErrorCode, raw: RawConnection
) -> None:
    assert increment(raw, BROKER, broker_name(raw), change).error_code == code


# Group settings -------------------------------------------------------------------------------------------------------

GROUP_DEFAULTS = {
    "consumer.assignment.interval.ms": "1000",
    "consumer.heartbeat.interval.ms": "5000",
    "consumer.session.timeout.ms": "45000",
    "share.assignment.interval.ms": "1000",
    "share.auto.offset.reset": "latest",
    "share.delivery.count.limit": "5",
    "share.heartbeat.interval.ms": "5000",
    "share.isolation.level": "read_uncommitted",
    "share.partition.max.record.locks": "2000",
    "share.record.lock.duration.ms": "30000",
    "share.renew.acknowledge.enable": "true",
    "share.session.timeout.ms": "45000",
    "streams.assignment.interval.ms": "1000",
    "streams.heartbeat.interval.ms": "5000",
    "streams.initial.rebalance.delay.ms": "3000",
    "streams.num.standby.replicas": "0",
    "streams.session.timeout.ms": "45000",
}


@pytest.fixture
def group(raw: RawConnection) -> Iterator[str]:
    """The id of a group that nobody ever joined. Its settings are deleted after the test."""
    name = f"group/{uuid.uuid4()}"
    yield name
    assert replace(raw, GROUP, name, {}).error_code == 0


def test_a_group_has_the_settings_and_defaults_of_kafka(raw: RawConnection, group: str) -> None:
    answer = describe(raw, GROUP, group, include_synonyms=True)
    assert answer.error_code == 0
    assert {each.name: each.value for each in answer.configs} == GROUP_DEFAULTS
    assert {each.config_source for each in answer.configs} == {DEFAULT_SOURCE}
    synonyms = {each.name: [(one.name, one.source) for one in each.synonyms] for each in answer.configs}
    assert synonyms["consumer.session.timeout.ms"] == [("group.consumer.session.timeout.ms", DEFAULT_SOURCE)]
    assert synonyms["share.session.timeout.ms"] == [("group.share.session.timeout.ms", DEFAULT_SOURCE)]
    assert synonyms["share.isolation.level"] == [("share.isolation.level", DEFAULT_SOURCE)]


def test_settings_of_a_group_are_set_replaced_and_deleted(raw: RawConnection, group: str) -> None:
    def own() -> dict[str, str | None]:
        found = describe(raw, GROUP, group).configs
        return {each.name: each.value for each in found if each.config_source == GROUP_SOURCE}

    changes = (("consumer.session.timeout.ms", SET, "50000"), ("share.auto.offset.reset", SET, "by_duration:PT1H"))
    assert increment(raw, GROUP, group, *changes).error_code == 0
    wait_until(lambda: own() == {name: value for name, _, value in changes})
    assert increment(raw, GROUP, group, ("share.auto.offset.reset", DELETE, None)).error_code == 0
    wait_until(lambda: own() == {"consumer.session.timeout.ms": "50000"})
    assert replace(raw, GROUP, group, {"consumer.heartbeat.interval.ms": "6000"}).error_code == 0
    wait_until(lambda: own() == {"consumer.heartbeat.interval.ms": "6000"})
    (entry,) = describe(raw, GROUP, group, ["consumer.heartbeat.interval.ms", "nosuch"], include_synonyms=True).configs
    assert [(one.name, one.value, one.source) for one in entry.synonyms] == [
        ("consumer.heartbeat.interval.ms", "6000", GROUP_SOURCE),
        ("group.consumer.heartbeat.interval.ms", "5000", DEFAULT_SOURCE),
    ]


@pytest.mark.parametrize(
    "change",
    [
        ("no.such.setting", SET, "1"),
        ("consumer.session.timeout.ms", SET, "soon"),
        ("consumer.session.timeout.ms", SET, "44999"),
        ("consumer.session.timeout.ms", SET, "60001"),
        ("consumer.heartbeat.interval.ms", SET, "4999"),
        ("consumer.heartbeat.interval.ms", SET, "15001"),
        ("consumer.heartbeat.interval.ms", APPEND, "5000"),
        ("share.session.timeout.ms", SET, "1000"),
        ("share.auto.offset.reset", SET, "by_duration:1 hour"),
        ("share.isolation.level", SET, "read_something"),
        ("streams.num.standby.replicas", SET, "3"),
    ],
    ids=lambda change: f"{change[0]}-{change[2]}",
)
def test_a_wrong_setting_of_a_group_is_refused(change: tuple[str, int, str], raw: RawConnection, group: str) -> None:
    answer = increment(raw, GROUP, group, ("share.heartbeat.interval.ms", SET, "6000"), change)
    assert ErrorCode(answer.error_code) == ErrorCode.INVALID_CONFIG
    assert answer.error_message


def test_groups_have_no_settings_in_common(raw: RawConnection) -> None:
    change = ("consumer.session.timeout.ms", SET, "50000")
    assert increment(raw, GROUP, "", change).error_code == ErrorCode.INVALID_REQUEST
    assert describe(raw, GROUP, "").error_code == ErrorCode.INVALID_REQUEST


def test_members_get_the_heartbeat_interval_of_their_group(raw: RawConnection, group: str) -> None:
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
    wait_until(lambda: ask(raw, find).coordinators[0].error_code == 0)

    def interval() -> int:
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=str(uuid.uuid4()),
            member_epoch=0,
            rebalance_timeout_ms=1000,
            subscribed_topic_names=["nosuch"],
            topic_partitions=[],
        )
        answer = wait_until(lambda: (found := ask(raw, request)).error_code == 0 and found)
        left = ConsumerGroupHeartbeatRequest(group_id=group, member_id=answer.member_id, member_epoch=-1)
        assert ask(raw, left).error_code == 0
        return int(answer.heartbeat_interval_ms)

    wait_until(lambda: interval() == 5000)
    assert increment(raw, GROUP, group, ("consumer.heartbeat.interval.ms", SET, "7000")).error_code == 0
    wait_until(lambda: interval() == 7000)


# As a whole -----------------------------------------------------------------------------------------------------------


def test_altering_replaces_everything_that_was_set(raw: RawConnection, new_topic: Callable[..., str]) -> None:
    topic = new_topic(configs={"retention.ms": "1000", "segment.bytes": "2000000"})
    assert replace(raw, TOPIC, topic, {"retention.ms": "5000"}).error_code == 0
    becomes(raw, topic, "retention.ms", "5000")
    becomes(raw, topic, "segment.bytes", "1073741824", DEFAULT_SOURCE)
    assert replace(raw, TOPIC, topic, {}).error_code == 0
    becomes(raw, topic, "retention.ms", "604800000", DEFAULT_SOURCE)


@pytest.mark.parametrize(
    ("configs", "code"),
    [
        ({"no.such.setting": "1"}, ErrorCode.INVALID_CONFIG),
        ({"retention.ms": "soon"}, ErrorCode.INVALID_CONFIG),
        ({"retention.ms": None}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_refused_replacement_changes_nothing(
    configs: dict[str, str | None], code: ErrorCode, raw: RawConnection, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(configs={"segment.bytes": "2000000"})
    answer: Any = replace(raw, TOPIC, topic, {"max.message.bytes": "5000", **configs})
    assert ErrorCode(answer.error_code) == code
    assert entry(raw, topic, "segment.bytes").value == "2000000"
    assert entry(raw, topic, "max.message.bytes").config_source == DEFAULT_SOURCE
