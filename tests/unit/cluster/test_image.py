"""Metadata images: cheap derivation, shared parts, and comparison for listeners."""

from __future__ import annotations

import pytest

from moldau.cluster.changes import (
    BrokerConfigsChanged,
    Change,
    TopicConfigsChanged,
    TopicCreated,
    TopicDeleted,
    applied,
)
from moldau.cluster.image import (
    ALL_BROKERS,
    PartitionState,
    PartitionStates,
    TopicImage,
    TopicsDelta,
    topics_delta,
)
from tests.unit.cluster.support import broker, cluster

STATE = PartitionState((0,), (0,), 0, 0, 0)


def topic(name: str, number: int = 1, partitions: int = 1, **configs: str) -> TopicImage:
    return TopicImage(name, bytes([number]) * 16, (STATE,) * partitions, configs)


def test_a_topic_is_found_by_name_by_id_and_by_partition() -> None:
    image = cluster().with_topics([topic("a", 1, partitions=2), topic("b", 2)])
    assert image.topic_by_id(bytes([2]) * 16) is image.topics["b"]
    assert image.topic_by_id(bytes(16)) is None
    assert image.partition("a", 1) is STATE
    assert image.partition("a", 2) is None
    assert image.partition("a", -1) is None
    assert image.partition("c", 0) is None


def test_a_derived_image_shares_unchanged_parts_and_does_not_change_the_old_image() -> None:
    old = cluster().with_topics([topic("a", 1), topic("b", 2)])
    new = old.with_topics([topic("c", 3)], deleted=["b"])
    assert list(old.topics) == ["a", "b"]
    assert list(new.topics) == ["a", "c"]
    assert new.topics["a"] is old.topics["a"]
    assert new.brokers is old.brokers
    assert set(new.topic_names_by_id.values()) == {"a", "c"}


def test_a_topic_that_was_made_again_no_longer_answers_to_its_old_id() -> None:
    old = cluster().with_topics([topic("a", 1)])
    for new in (old.with_topics([topic("a", 2)]), old.with_topics([topic("a", 2)], deleted=["a"])):
        assert new.topic_by_id(bytes([1]) * 16) is None
        assert new.topic_by_id(bytes([2]) * 16) is new.topics["a"]


def test_the_difference_of_two_images_names_created_deleted_and_altered_topics() -> None:
    old = cluster().with_topics([topic("same", 1), topic("grows", 2), topic("replaced", 3), topic("goes", 4)])
    grown = topic("grows", 2, partitions=2)
    new = old.with_topics([grown, topic("replaced", 5), topic("comes", 6)], deleted=["goes"])
    delta = topics_delta(old, new)
    assert [(before.name, after) for before, after in delta.altered] == [("grows", grown)]
    assert [(created.name, created.id[0]) for created in delta.created] == [("replaced", 5), ("comes", 6)]
    assert [(deleted.name, deleted.id[0]) for deleted in delta.deleted] == [("replaced", 3), ("goes", 4)]


def test_images_that_were_read_twice_do_not_differ() -> None:
    one = cluster().with_topics([topic("a", 1, retention="1")])
    other = cluster().with_topics([topic("a", 1, retention="1")])
    assert topics_delta(one, other) == topics_delta(one, one) == TopicsDelta((), (), ())


def test_equal_partition_states_become_one_object() -> None:
    states = PartitionStates()
    first = states.one(PartitionState((1, 2), (1,), 1, 3, 4))
    assert states.one(PartitionState((1, 2), (1,), 1, 3, 4)) is first
    assert states.one(PartitionState((1, 2), (1,), 1, 3, 5)) is not first


def test_changes_apply_together() -> None:
    old = cluster().with_topics([topic("a", 1), topic("b", 2)])
    altered = topic("b", 2, retention="1")
    changes: list[Change] = [
        TopicCreated(topic("c", 3)),
        TopicDeleted(topic("a", 1)),
        TopicConfigsChanged(altered),
        BrokerConfigsChanged(ALL_BROKERS, {"x": "1"}),
        BrokerConfigsChanged("0", {}),
    ]
    new = applied(old, changes)
    assert list(new.topics) == ["b", "c"]
    assert new.topics["b"] is altered
    assert new.broker_configs == {ALL_BROKERS: {"x": "1"}}
    assert new.broker_config("0") == {}
    assert applied(old, []) is old


def test_a_broker_gives_the_endpoint_of_a_listener_by_its_name() -> None:
    endpoint = broker(3).endpoint("PLAINTEXT")
    assert endpoint is not None
    assert endpoint.host == "host-3"
    assert broker(3).endpoint("EXTERNAL") is None


@pytest.mark.parametrize(
    ("name", "internal"), [("__consumer_offsets", True), ("__transaction_state", True), ("a", False)]
)
def test_internal_topics_are_known_by_name(name: str, internal: bool) -> None:
    assert topic(name).internal is internal
