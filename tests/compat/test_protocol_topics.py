"""Topics over raw connections: created, described, grown and deleted, with every error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moldau.wire.errors import ErrorCode
from moldau.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestAssignment,
    CreatePartitionsRequestTopic,
    CreatePartitionsResponseTopic,
)
from moldau.wire.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestAssignment,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
    CreateTopicsResponseTopic,
)
from moldau.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic, DeleteTopicsResponseTopic
from moldau.wire.messages.describe_cluster import DescribeClusterRequest
from moldau.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsRequestTopic,
    DescribeTopicPartitionsResponse,
)
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.primitives import ZERO_UUID
from tests.compat import wire
from tests.compat.wire import ask
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until

LONGEST_NAME = 249
MOST_PARTITIONS_A_REQUEST = 10_000
NOBODY = 77  # a broker that does not exist

BAD_NAMES = ["", ".", "..", "with space", "slash/", "x" * (LONGEST_NAME + 1), "ünïcode", "a\tb", "colon:"]


def create(
    connection: RawConnection,
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    *,
    configs: dict[str, str | None] | None = None,
    assignments: dict[int, list[int]] | None = None,
    validate_only: bool = False,
    version: int | None = None,
) -> CreateTopicsResponseTopic:
    wanted = CreateTopicsRequestTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreateTopicsRequestConfig(name=key, value=value) for key, value in (configs or {}).items()],
        assignments=[
            CreateTopicsRequestAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in (assignments or {}).items()
        ],
    )
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=10_000, validate_only=validate_only)
    (answer,) = ask(connection, request, version).topics
    return answer


def node_id(connection: RawConnection) -> int:
    return wire.metadata(connection, []).brokers[0].node_id


def assert_refused(answer: CreateTopicsResponseTopic, code: ErrorCode) -> None:
    assert ErrorCode(answer.error_code) == code
    assert answer.error_message
    assert (answer.topic_id, answer.num_partitions, answer.replication_factor, answer.configs or []) == (
        ZERO_UUID, -1, -1, [],
    )  # fmt: skip


# Creating -------------------------------------------------------------------------------------------------------------


def test_a_topic_exists_once(raw: RawConnection, topic: str) -> None:
    assert_refused(create(raw, topic), ErrorCode.TOPIC_ALREADY_EXISTS)


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_bad_name_is_refused(name: str, raw: RawConnection) -> None:
    assert_refused(create(raw, name), ErrorCode.INVALID_TOPIC_EXCEPTION)


def test_the_longest_name_is_not_too_long(raw: RawConnection, unused_name: Callable[[], str]) -> None:
    name = unused_name().ljust(LONGEST_NAME, "x")
    assert create(raw, name).error_code == 0
    wait_until(lambda: wire.is_served(raw, name, 1))


def test_names_that_differ_by_a_dot_and_an_underscore_collide(raw: RawConnection, topic: str) -> None:
    assert "." in topic
    assert_refused(create(raw, topic.replace(".", "_")), ErrorCode.INVALID_TOPIC_EXCEPTION)


@pytest.mark.parametrize("partitions", [0, -2, -100])
def test_a_topic_has_partitions(partitions: int, raw: RawConnection, unused_name: Callable[[], str]) -> None:
    assert_refused(create(raw, unused_name(), partitions), ErrorCode.INVALID_PARTITIONS)


@pytest.mark.parametrize("replicas", [0, -2, 2, 100])
def test_a_topic_has_as_many_replicas_as_there_are_brokers_at_most(
    replicas: int, raw: RawConnection, unused_name: Callable[[], str]
) -> None:
    assert_refused(create(raw, unused_name(), 1, replicas), ErrorCode.INVALID_REPLICATION_FACTOR)


@pytest.mark.parametrize("version", [4, 7])
def test_minus_one_means_the_default(version: int, raw: RawConnection, unused_name: Callable[[], str]) -> None:
    name = unused_name()
    assert create(raw, name, -1, -1, version=version).error_code == 0
    wait_until(lambda: wire.is_served(raw, name, 1))


@pytest.mark.parametrize(
    "configs",
    [
        {"no.such.setting": "1"},
        {"retention.ms": "soon"},
        {"segment.bytes": "3"},
        {"cleanup.policy": "burn"},
        {"compression.type": "rar"},
        {"min.insync.replicas": "0"},
        {"retention.ms": None},
    ],
)
def test_a_bad_setting_is_refused(
    configs: dict[str, str | None], raw: RawConnection, unused_name: Callable[[], str]
) -> None:
    name = unused_name()
    assert_refused(create(raw, name, configs=configs), ErrorCode.INVALID_CONFIG)
    assert wire.describe_topic(raw, name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_creating_with_validate_only_creates_nothing(raw: RawConnection, unused_name: Callable[[], str]) -> None:
    name = unused_name()
    answer = create(raw, name, 5, validate_only=True)
    assert (answer.error_code, answer.num_partitions) == (0, 5)
    assert_refused(create(raw, name, 0, validate_only=True), ErrorCode.INVALID_PARTITIONS)
    assert wire.describe_topic(raw, name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_name_given_twice_in_a_request_is_refused_once(raw: RawConnection, unused_name: Callable[[], str]) -> None:
    name, other = unused_name(), unused_name()
    topics = [
        CreateTopicsRequestTopic(name=each, num_partitions=1, replication_factor=1) for each in (name, other, name)
    ]
    answers = ask(raw, CreateTopicsRequest(topics=topics, timeout_ms=10_000)).topics
    codes = {answer.name: answer.error_code for answer in answers}
    assert len(answers) == 2
    assert codes == {name: ErrorCode.INVALID_REQUEST, other: 0}


def test_too_many_partitions_in_one_request_are_refused(raw: RawConnection, unused_name: Callable[[], str]) -> None:
    answer = create(raw, unused_name(), MOST_PARTITIONS_A_REQUEST + 1)
    assert answer.error_code in (ErrorCode.POLICY_VIOLATION, ErrorCode.INVALID_PARTITIONS)


def test_one_bad_topic_does_not_spoil_the_others(raw: RawConnection, unused_name: Callable[[], str]) -> None:
    good, bad = unused_name(), unused_name()
    topics = [
        CreateTopicsRequestTopic(name=bad, num_partitions=0, replication_factor=1),
        CreateTopicsRequestTopic(name=good, num_partitions=1, replication_factor=1),
    ]
    answers = ask(raw, CreateTopicsRequest(topics=topics, timeout_ms=10_000)).topics
    assert {answer.name: answer.error_code for answer in answers} == {bad: ErrorCode.INVALID_PARTITIONS, good: 0}
    wait_until(lambda: wire.is_served(raw, good, 1))


def test_creating_nothing_is_fine(raw: RawConnection) -> None:
    assert ask(raw, CreateTopicsRequest(topics=[], timeout_ms=10_000)).topics == []


# Placing --------------------------------------------------------------------------------------------------------------


def test_partitions_can_be_placed_by_hand(raw: RawConnection, unused_name: Callable[[], str]) -> None:
    name, node = unused_name(), node_id(raw)
    assert create(raw, name, -1, -1, assignments={0: [node], 1: [node]}).error_code == 0
    wait_until(lambda: wire.is_served(raw, name, 2))


@pytest.mark.parametrize(
    ("placed", "code"),
    [
        ({0: [NOBODY]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: []}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_an_impossible_assignment_is_refused(
    placed: dict[int, list[int]], code: ErrorCode, raw: RawConnection, unused_name: Callable[[], str]
) -> None:
    assert_refused(create(raw, unused_name(), -1, -1, assignments=placed), code)


def test_an_assignment_must_start_at_partition_zero_without_duplicate_brokers(
    raw: RawConnection, unused_name: Callable[[], str]
) -> None:
    node = node_id(raw)
    for placed in ({1: [node]}, {0: [node], 2: [node]}, {0: [node, node]}):
        answer = create(raw, unused_name(), -1, -1, assignments=placed)
        assert_refused(answer, ErrorCode.INVALID_REPLICA_ASSIGNMENT)


def test_an_assignment_excludes_a_partition_count(raw: RawConnection, unused_name: Callable[[], str]) -> None:
    answer = create(raw, unused_name(), 1, -1, assignments={0: [node_id(raw)]})
    assert_refused(answer, ErrorCode.INVALID_REQUEST)


# Growing --------------------------------------------------------------------------------------------------------------


def grow(connection: RawConnection, *topics: tuple[str, int], **options: Any) -> list[CreatePartitionsResponseTopic]:
    wanted = [
        CreatePartitionsRequestTopic(name=name, count=count, assignments=options.get("assignments"))
        for name, count in topics
    ]
    request = CreatePartitionsRequest(
        topics=wanted, timeout_ms=10_000, validate_only=options.get("validate_only", False)
    )
    answers: list[CreatePartitionsResponseTopic] = ask(connection, request).results
    return answers


@pytest.mark.parametrize("count", [2, 1, 0, -1])
def test_a_topic_only_grows(count: int, raw: RawConnection, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=2)
    (answer,) = grow(raw, (topic, count))
    assert answer.error_code == ErrorCode.INVALID_PARTITIONS
    assert answer.error_message


def test_every_topic_is_answered(
    raw: RawConnection, new_topic: Callable[..., str], unused_name: Callable[[], str]
) -> None:
    good, same, missing = new_topic(), new_topic(), unused_name()
    answers = grow(raw, (good, 3), (same, 1), (missing, 3))
    assert {answer.name: answer.error_code for answer in answers} == {
        good: 0,
        same: ErrorCode.INVALID_PARTITIONS,
        missing: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    wait_until(lambda: wire.is_served(raw, good, 3))


def test_a_topic_may_grow_only_once_per_request(raw: RawConnection, topic: str) -> None:
    (answer,) = grow(raw, (topic, 3), (topic, 4))
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_growing_with_validate_only_has_no_effect(raw: RawConnection, topic: str) -> None:
    (answer,) = grow(raw, (topic, 3), validate_only=True)
    assert answer.error_code == 0
    assert len(wire.describe_topic(raw, topic).partitions) == 1


def test_new_partitions_can_be_placed_by_hand(raw: RawConnection, topic: str) -> None:
    node = node_id(raw)
    for placed in ([], [[node]], [[node], [NOBODY]], [[node], []]):
        assignments = [CreatePartitionsRequestAssignment(broker_ids=brokers) for brokers in placed]
        (answer,) = grow(raw, (topic, 3), assignments=assignments)
        assert answer.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT, placed
    assignments = [CreatePartitionsRequestAssignment(broker_ids=[node]) for _ in range(2)]
    (answer,) = grow(raw, (topic, 3), assignments=assignments)
    assert answer.error_code == 0
    wait_until(lambda: wire.is_served(raw, topic, 3))


def test_adding_partitions_keeps_the_existing_ones(raw: RawConnection, topic: str) -> None:
    wire.produced(raw, topic, b"before")
    grow(raw, (topic, 2))
    wait_until(lambda: wire.is_served(raw, topic, 2))
    assert wire.stored_values(raw, topic) == [b"before"]


# Deleting -------------------------------------------------------------------------------------------------------------


def delete(connection: RawConnection, *topics: DeleteTopicsRequestTopic) -> list[DeleteTopicsResponseTopic]:
    request = DeleteTopicsRequest(topics=list(topics), timeout_ms=10_000)
    answers: list[DeleteTopicsResponseTopic] = ask(connection, request).responses
    return answers


def test_unknown_topics_cannot_be_deleted(raw: RawConnection, unused_name: Callable[[], str]) -> None:
    (by_name,) = delete(raw, DeleteTopicsRequestTopic(name=unused_name()))
    (by_id,) = delete(raw, DeleteTopicsRequestTopic(topic_id=b"nobody has this!"))
    assert (by_name.error_code, by_id.error_code) == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    )
    assert by_name.error_message


def test_a_topic_is_deleted_by_name_or_by_id_not_both(raw: RawConnection, topic: str) -> None:
    (both,) = delete(raw, DeleteTopicsRequestTopic(name=topic, topic_id=wire.topic_id(raw, topic)))
    (neither,) = delete(raw, DeleteTopicsRequestTopic())
    assert both.error_code == neither.error_code == ErrorCode.INVALID_REQUEST
    (twice,) = delete(raw, DeleteTopicsRequestTopic(name=topic), DeleteTopicsRequestTopic(name=topic))
    assert twice.error_code == ErrorCode.INVALID_REQUEST
    assert wire.describe_topic(raw, topic).error_code == 0


def test_a_topic_of_the_same_name_is_another_topic(raw: RawConnection, topic: str) -> None:
    wire.produced(raw, topic, b"old")
    old = wire.topic_id(raw, topic)
    (answer,) = delete(raw, DeleteTopicsRequestTopic(name=topic))
    assert (answer.error_code, answer.name, answer.topic_id) == (0, topic, old)
    wait_until(lambda: wire.describe_topic(raw, topic).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    wait_until(lambda: create(raw, topic).error_code == 0)
    wait_until(lambda: wire.is_served(raw, topic, 1))
    assert wire.topic_id(raw, topic) != old
    assert wire.stored_values(raw, topic) == []
    assert wire.fetch_one(raw, old).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert wire.produce(raw, old, wire.batch_of(b"for the old one")).error_code == ErrorCode.UNKNOWN_TOPIC_ID


# Describing -----------------------------------------------------------------------------------------------------------


def test_no_names_means_no_topics_and_null_means_all(raw: RawConnection, topic: str) -> None:
    assert wire.metadata(raw, []).topics == []
    assert topic in [found.name for found in wire.metadata(raw, None).topics]
    # Version 0 has no null list.
    assert topic in [found.name for found in ask(raw, MetadataRequest(topics=[]), 0).topics]


def test_an_unknown_topic_is_named(raw: RawConnection, unused_name: Callable[[], str]) -> None:
    name = unused_name()
    found = wire.describe_topic(raw, name)
    assert (found.error_code, found.name, found.topic_id, found.partitions) == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name, ZERO_UUID, [],
    )  # fmt: skip


@pytest.mark.parametrize("auto_create", [False, True])
@pytest.mark.parametrize("name", BAD_NAMES)
def test_an_invalid_name_is_an_error_and_is_not_created(name: str, auto_create: bool, raw: RawConnection) -> None:
    (found,) = wire.metadata(raw, [name], auto_create=auto_create).topics
    assert (found.error_code, found.name) == (ErrorCode.INVALID_TOPIC_EXCEPTION, name)


def test_an_unknown_id_has_no_name(raw: RawConnection) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=b"nobody has this!")])
    (found,) = ask(raw, request).topics
    assert (found.error_code, found.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)


def test_a_topic_requested_twice_is_answered_once(raw: RawConnection, topic: str) -> None:
    assert [found.name for found in wire.metadata(raw, [topic, topic]).topics] == [topic]


def test_a_metadata_request_creates_the_topic_if_allowed(raw: RawConnection, unused_name: Callable[[], str]) -> None:
    name = unused_name()
    assert wire.metadata(raw, [name], auto_create=False).topics[0].error_code != 0
    assert wire.describe_topic(raw, name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    wire.metadata(raw, [name], auto_create=True)
    wait_until(lambda: wire.is_served(raw, name, 1))


def deleted(connection: RawConnection, topic: str) -> str:
    """The name of a topic, after the server has deleted it."""
    delete(connection, DeleteTopicsRequestTopic(name=topic))
    wait_until(lambda: wire.describe_topic(connection, topic).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic


def test_a_deleted_topic_is_unknown_before_auto_creation_creates_it_again(raw: RawConnection, topic: str) -> None:
    """kafka-go, for example, checks whether a topic is deleted with a request that allows its creation."""
    deleted(raw, topic)
    (found,) = wire.metadata(raw, [topic], auto_create=True).topics
    assert (found.error_code, found.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
    wait_until(lambda: wire.metadata(raw, [topic], auto_create=True).topics[0].error_code == 0)
    wait_until(lambda: wire.is_served(raw, topic, 1))


def test_one_metadata_request_for_a_deleted_topic_does_not_create_it_again(
    raw: RawConnection, topic: str, moldau_only: None
) -> None:
    deleted(raw, topic)
    wire.metadata(raw, [topic], auto_create=True)
    assert wire.describe_topic(raw, topic).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_automatically_created_topic_is_in_the_answer(
    raw: RawConnection, unused_name: Callable[[], str], moldau_only: None
) -> None:
    (found,) = wire.metadata(raw, [unused_name()], auto_create=True).topics
    assert (found.error_code, len(found.partitions)) == (0, 1)


def described(connection: RawConnection, names: list[str], **options: Any) -> DescribeTopicPartitionsResponse:
    topics = [DescribeTopicPartitionsRequestTopic(name=name) for name in names]
    response: DescribeTopicPartitionsResponse = ask(
        connection, DescribeTopicPartitionsRequest(topics=topics, **options)
    )
    return response


def test_partitions_are_described_a_page_at_a_time(raw: RawConnection, new_topic: Callable[..., str]) -> None:
    names = sorted(new_topic(partitions=3) for _ in range(2))
    cursor = None
    found = []
    for _ in range(20):
        page = described(raw, names, response_partition_limit=2, cursor=cursor)
        found += [(topic.name, each.partition_index) for topic in page.topics for each in topic.partitions]
        if page.next_cursor is None:
            break
        cursor = DescribeTopicPartitionsRequestCursor(
            topic_name=page.next_cursor.topic_name, partition_index=page.next_cursor.partition_index
        )
    assert found == [(name, index) for name in names for index in range(3)]


def test_described_topics_are_sorted_and_unknown_ones_named(
    raw: RawConnection, new_topic: Callable[..., str], unused_name: Callable[[], str]
) -> None:
    names = [new_topic(), new_topic()]
    missing = unused_name()
    page = described(raw, [*sorted(names, reverse=True), missing])
    assert [topic.name for topic in page.topics] == sorted([*names, missing])
    codes = {topic.name: topic.error_code for topic in page.topics}
    assert codes == {**dict.fromkeys(names, 0), missing: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_cluster_has_brokers_and_no_controllers_to_ask_for(raw: RawConnection) -> None:
    answer = ask(raw, DescribeClusterRequest(endpoint_type=2))
    assert answer.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    assert answer.error_message
    assert (answer.cluster_id, answer.controller_id, answer.brokers) == ("", -1, [])
