"""Creating, deleting and growing topics: every answer, with Kafka's error codes."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.cluster.changes import PartitionsChanged, TopicCreated, TopicDeleted
from moldau.cluster.errors import Refusal
from moldau.cluster.image import BrokerImage, ClusterImage, PartitionState, PartitionStates, TopicImage
from moldau.cluster.topic_names import collision_key, topic_name_error
from moldau.cluster.topics import (
    MAX_PARTITIONS_PER_REQUEST,
    MorePartitions,
    TopicCreation,
    TopicDefaults,
    TopicRef,
    create_partitions,
    create_topics,
    delete_topics,
)
from moldau.wire.errors import ErrorCode
from tests.unit.cluster.support import RULES, cluster

ID = bytes(range(16))
STATE = PartitionState((0, 1), (0, 1), 0, 5, 6)
EXISTING = TopicImage("orders.eu", ID, (STATE, STATE))


@pytest.fixture
def image() -> ClusterImage:
    return cluster(brokers=3).with_topics([EXISTING])


def create(image: ClusterImage, *topics: TopicCreation) -> list[TopicCreated | Refusal]:
    return create_topics(
        image,
        topics,
        ids=[bytes([200 + index]) * 16 for index in range(len(topics))],
        cursor=0,
        defaults=TopicDefaults(num_partitions=4, replication_factor=2),
        rules=RULES,
        known=PartitionStates(),
    )


def grow(image: ClusterImage, *requests: MorePartitions) -> list[PartitionsChanged | Refusal]:
    return create_partitions(image, requests, cursor=0, known=PartitionStates())


def created(answer: TopicCreated | Refusal) -> TopicImage:
    assert isinstance(answer, TopicCreated), answer
    return answer.topic


def assert_refused(answer: object, code: ErrorCode, says: str) -> None:
    assert isinstance(answer, Refusal), answer
    assert answer.code == code
    assert says in answer.message


# --------------------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize("name", ["a", "A-z_0.9", "...", "x" * 249, "__consumer_offsets"])
def test_legal_names(name: str) -> None:
    assert topic_name_error(name) is None


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "must not be empty"),
        (".", "must not be '.'"),
        ("..", "must not be '.' or '..'"),
        ("x" * 250, "249 characters at most, this one has 250"),
        ("a b", "ASCII letters"),
        ("a/b", "ASCII letters"),
        ("über", "ASCII letters"),
        ("a\n", "ASCII letters"),
        ("a\0", "ASCII letters"),
    ],
)
def test_illegal_names(image: ClusterImage, name: str, says: str) -> None:
    assert_refused(create(image, TopicCreation(name))[0], ErrorCode.INVALID_TOPIC_EXCEPTION, says)


def test_names_collide_where_they_differ_in_dots_and_underscores_only() -> None:
    assert collision_key("a.b_c") == collision_key("a_b.c")
    assert collision_key("abc") is None
    assert collision_key("a.b") != collision_key("a-b")


# -------------------------------------------------------------------------------------------------------------- create


def test_a_topic_takes_the_brokers_defaults(image: ClusterImage) -> None:
    topic = created(create(image, TopicCreation("t"))[0])
    assert (topic.name, len(topic.partitions), topic.replication_factor) == ("t", 4, 2)
    assert topic.id == bytes([200]) * 16
    for state in topic.partitions:
        assert state.isr == state.replicas
        assert (state.leader, state.leader_epoch, state.partition_epoch) == (state.replicas[0], 0, 0)


def test_a_topic_takes_the_numbers_and_settings_of_the_request(image: ClusterImage) -> None:
    topic = created(create(image, TopicCreation("t", 7, 3, configs={"retention.ms": "5"}))[0])
    assert (len(topic.partitions), topic.replication_factor, topic.configs) == (7, 3, {"retention.ms": "5"})


def test_a_topic_takes_an_explicit_assignment_in_any_order(image: ClusterImage) -> None:
    topic = created(create(image, TopicCreation("t", assignments=((1, (2, 0)), (0, (1, 2)))))[0])
    assert [state.replicas for state in topic.partitions] == [(1, 2), (2, 0)]
    assert [state.leader for state in topic.partitions] == [1, 2]


def test_a_topic_whose_data_exists_keeps_its_id(image: ClusterImage) -> None:
    assert created(create(image, TopicCreation("t", topic_id=b"i" * 16))[0]).id == b"i" * 16
    assert_refused(
        create(image, TopicCreation("t", topic_id=ID))[0], ErrorCode.INVALID_REQUEST, "that of topic 'orders.eu'"
    )


def test_topics_of_one_request_take_turns_on_the_brokers(image: ClusterImage) -> None:
    answers = create(image, *[TopicCreation(f"t{index}", 1, 1) for index in range(6)])
    leaders = [created(answer).partitions[0].leader for answer in answers]
    assert sorted(leaders) == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("topic", "code", "says"),
    [
        (TopicCreation("orders.eu"), ErrorCode.TOPIC_ALREADY_EXISTS, "'orders.eu' already exists"),
        (TopicCreation("orders_eu"), ErrorCode.INVALID_TOPIC_EXCEPTION, "collides with topic 'orders.eu'"),
        (TopicCreation("__cluster_metadata"), ErrorCode.INVALID_REQUEST, "cannot be created"),
        (TopicCreation("t", 0), ErrorCode.INVALID_PARTITIONS, "larger than 0, or -1"),
        (TopicCreation("t", -2), ErrorCode.INVALID_PARTITIONS, "not -2"),
        (TopicCreation("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0, or -1"),
        (TopicCreation("t", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR, "not -2"),
        (TopicCreation("t", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR, "factor of 4 cannot be met: 3 broker(s)"),
        (TopicCreation("t", 10_001), ErrorCode.POLICY_VIOLATION, "asks for 10001"),
        (TopicCreation("t", configs={"nonsense": "1"}), ErrorCode.INVALID_CONFIG, "Unknown setting nonsense"),
        (TopicCreation("t", configs={"retention.ms": "long"}), ErrorCode.INVALID_CONFIG, "must be a number"),
        (TopicCreation("t", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG, "needs a value: retention.ms"),
        (TopicCreation("t", 1, assignments=((0, (0,)),)), ErrorCode.INVALID_REQUEST, "must be -1"),
        (TopicCreation("t", -1, 1, assignments=((0, (0,)),)), ErrorCode.INVALID_REQUEST, "must be -1"),
        (TopicCreation("t", assignments=((0, ()),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "assigned to no broker"),
        (TopicCreation("t", assignments=((0, (7,)),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 7, which is not"),
        (
            TopicCreation("t", assignments=((0, (1, 1)),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "broker 1 more than once",
        ),
        (TopicCreation("t", assignments=((1, (1,)),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "begin at 0"),
        (TopicCreation("t", assignments=((0, (1,)), (2, (1,)))), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "consecutive"),
        (
            TopicCreation("t", assignments=((0, (1,)), (0, (2,)))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Partition 0 is",
        ),
        (TopicCreation("t", assignments=((-1, (1,)),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "begin at 0"),
        (
            TopicCreation("t", assignments=((0, (1,)), (1, (1, 2)))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "2 replica(s)",
        ),
    ],
)
def test_a_topic_that_may_not_be_created(image: ClusterImage, topic: TopicCreation, code: ErrorCode, says: str) -> None:
    assert_refused(create(image, topic)[0], code, says)


def test_no_topic_can_be_created_without_brokers() -> None:
    answer = create(ClusterImage("empty"), TopicCreation("t"))[0]
    assert_refused(answer, ErrorCode.INVALID_REPLICATION_FACTOR, "0 broker(s) are registered")


def test_a_name_that_is_twice_in_a_request_is_refused_both_times(image: ClusterImage) -> None:
    first, other, second = create(image, TopicCreation("t"), TopicCreation("u"), TopicCreation("t", 2))
    assert_refused(first, ErrorCode.INVALID_REQUEST, "'t' is in the request more than once")
    assert_refused(second, ErrorCode.INVALID_REQUEST, "more than once")
    created(other)


def test_names_of_one_request_that_collide_leave_the_first(image: ClusterImage) -> None:
    first, second = create(image, TopicCreation("a.b"), TopicCreation("a_b"))
    created(first)
    assert_refused(second, ErrorCode.INVALID_TOPIC_EXCEPTION, "collides with topic 'a.b'")


def test_a_refused_topic_does_not_block_one_with_a_colliding_name(image: ClusterImage) -> None:
    refused, accepted = create(image, TopicCreation("a.b c"), TopicCreation("a_b_c"))
    assert_refused(refused, ErrorCode.INVALID_TOPIC_EXCEPTION, "ASCII")
    created(accepted)


def test_the_bound_on_partitions_is_for_the_whole_request(image: ClusterImage) -> None:
    half = MAX_PARTITIONS_PER_REQUEST // 2
    for answer in create(image, TopicCreation("t", half), TopicCreation("u", half)):
        assert len(created(answer).partitions) == half
    for answer in create(image, TopicCreation("t", half), TopicCreation("u", half - 3), TopicCreation("v")):
        assert_refused(answer, ErrorCode.POLICY_VIOLATION, "10000 partitions at most; this one asks for 10001")
    one_each = tuple((index, (0,)) for index in range(10_001))
    assert_refused(create(image, TopicCreation("t", assignments=one_each))[0], ErrorCode.POLICY_VIOLATION, "10001")


def test_partitions_on_the_same_brokers_share_their_state(image: ClusterImage) -> None:
    topic = created(create(image, TopicCreation("t", 300, 1))[0])
    assert len({id(state) for state in topic.partitions}) == 3


# -------------------------------------------------------------------------------------------------------------- delete


@pytest.mark.parametrize("ref", [TopicRef("orders.eu"), TopicRef(topic_id=ID)])
def test_a_topic_is_deleted_by_name_or_by_id(image: ClusterImage, ref: TopicRef) -> None:
    assert delete_topics(image, [ref]) == [TopicDeleted(EXISTING)]


@pytest.mark.parametrize(
    ("ref", "code", "says"),
    [
        (TopicRef("none"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "'none' does not exist"),
        (TopicRef(topic_id=b"x" * 16), ErrorCode.UNKNOWN_TOPIC_ID, "eHh4eHh4eHh4eHh4eHh4eA does not exist"),
        (TopicRef(), ErrorCode.INVALID_REQUEST, "Neither"),
        (TopicRef("orders.eu", ID), ErrorCode.INVALID_REQUEST, "only one of them"),
    ],
)
def test_a_topic_that_cannot_be_deleted(image: ClusterImage, ref: TopicRef, code: ErrorCode, says: str) -> None:
    assert_refused(delete_topics(image, [ref])[0], code, says)


@pytest.mark.parametrize(
    "refs",
    [
        [TopicRef("orders.eu"), TopicRef("orders.eu")],
        [TopicRef(topic_id=ID), TopicRef(topic_id=ID)],
        [TopicRef("orders.eu"), TopicRef(topic_id=ID)],
        [TopicRef("none"), TopicRef("none")],
    ],
)
def test_a_topic_that_is_twice_in_a_request_is_not_deleted(image: ClusterImage, refs: list[TopicRef]) -> None:
    for answer in delete_topics(image, refs):
        assert_refused(answer, ErrorCode.INVALID_REQUEST, "more than once")


# ---------------------------------------------------------------------------------------------------------------- grow


def test_a_topic_grows_and_its_partitions_stay_as_they_are(image: ClusterImage) -> None:
    (answer,) = grow(image, MorePartitions("orders.eu", 5))
    assert isinstance(answer, PartitionsChanged)
    assert answer.topic.partitions[:2] == (STATE, STATE)
    assert [len(state.replicas) for state in answer.topic.partitions] == [2] * 5
    assert answer.topic.id == ID


def test_a_topic_that_grows_while_it_moves_has_as_many_replicas_as_it_will_have(image: ClusterImage) -> None:
    moving = PartitionState((2, 1, 0), (1, 0), 0, 5, 7, adding=(2,), removing=(0,))
    image = image.with_topics([TopicImage("orders.eu", ID, (moving,))])
    (answer,) = grow(image, MorePartitions("orders.eu", 2))
    assert isinstance(answer, PartitionsChanged)
    assert len(answer.topic.partitions[1].replicas) == 2


def test_a_topic_grows_by_an_explicit_assignment(image: ClusterImage) -> None:
    (answer,) = grow(image, MorePartitions("orders.eu", 4, ((2, 1), (1, 0))))
    assert isinstance(answer, PartitionsChanged)
    assert [state.replicas for state in answer.topic.partitions[2:]] == [(2, 1), (1, 0)]
    assert [state.leader for state in answer.topic.partitions[2:]] == [2, 1]


@pytest.mark.parametrize(
    ("request_", "code", "says"),
    [
        (MorePartitions("none", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "'none' does not exist"),
        (MorePartitions("orders.eu", 2), ErrorCode.INVALID_PARTITIONS, "already has 2 partitions; 2 is no increase"),
        (MorePartitions("orders.eu", 1), ErrorCode.INVALID_PARTITIONS, "1 is no increase"),
        (MorePartitions("orders.eu", -1), ErrorCode.INVALID_PARTITIONS, "-1 is no increase"),
        (MorePartitions("orders.eu", 2**31 - 1), ErrorCode.POLICY_VIOLATION, "asks for 2147483645"),
        (MorePartitions("orders.eu", 4, ((0, 1),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "2 partitions would be"),
        (MorePartitions("orders.eu", 3, ()), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "1 partition would be"),
        (MorePartitions("orders.eu", 3, ((),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Partition 2 is assigned to no"),
        (MorePartitions("orders.eu", 3, ((0,),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "1 replica(s), those before"),
        (MorePartitions("orders.eu", 3, ((0, 0),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "more than once"),
        (MorePartitions("orders.eu", 3, ((0, 9),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 9, which is not"),
    ],
)
def test_an_impossible_growth_is_refused(
    image: ClusterImage, request_: MorePartitions, code: ErrorCode, says: str
) -> None:
    assert_refused(grow(image, request_)[0], code, says)


def test_a_topic_cannot_grow_while_fewer_brokers_live_than_it_has_replicas(image: ClusterImage) -> None:
    lonely: list[BrokerImage] = [image.brokers[0]]
    answer = grow(image.with_brokers(lonely), MorePartitions("orders.eu", 3))[0]
    assert_refused(answer, ErrorCode.INVALID_REPLICATION_FACTOR, "factor of 2 cannot be met: 1 broker(s)")


def test_a_topic_that_is_twice_in_a_request_does_not_grow(image: ClusterImage) -> None:
    for answer in grow(image, MorePartitions("orders.eu", 3), MorePartitions("orders.eu", 4)):
        assert_refused(answer, ErrorCode.INVALID_REQUEST, "more than once")


def test_a_decision_does_not_change_its_request(image: ClusterImage) -> None:
    configs: dict[str, Any] = {"retention.ms": "1"}
    topic = created(create(image, TopicCreation("t", configs=configs))[0])
    configs["retention.ms"] = "2"
    assert topic.configs == {"retention.ms": "1"}
