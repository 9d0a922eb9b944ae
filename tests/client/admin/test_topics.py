"""Admin client: creating, describing, growing and deleting topics, and their errors."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau import Admin, NewTopic
from moldau.client.admin import NewPartitions, SomeFailed
from moldau.client.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicationFactor,
    InvalidTopic,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from tests.support.waiting import wait_until

Name = Callable[[], str]


def names(admin: Admin) -> set[str]:
    return {topic.name for topic in admin.list_topics()}


def test_a_topic_is_created_as_requested_and_can_be_described(admin: Admin, unused_name: Name) -> None:
    name = unused_name()
    created = admin.create_topics(NewTopic(name, 3, 1, {"retention.ms": "1000000"}))
    assert created[name].partitions == 3
    assert created[name].replication_factor == 1
    assert created[name].configs["retention.ms"] == "1000000"

    wait_until(lambda: name in names(admin))
    topic = admin.describe_topics(name)[name]
    assert topic.id == created[name].id
    assert [partition.index for partition in topic.partitions] == [0, 1, 2]
    assert all(partition.leader in partition.replicas for partition in topic.partitions)
    assert all(partition.isr == partition.replicas for partition in topic.partitions)


def test_a_name_alone_means_the_brokers_defaults(admin: Admin, unused_name: Name) -> None:
    name = unused_name()
    assert admin.create_topics(name)[name].partitions >= 1


def test_a_topic_that_is_only_validated_is_not_there(admin: Admin, unused_name: Name) -> None:
    name = unused_name()
    assert admin.create_topics(NewTopic(name, 2), validate_only=True)[name].partitions == 2
    assert name not in names(admin)


def test_partitions_go_to_the_brokers_that_are_named(admin: Admin, unused_name: Name) -> None:
    name = unused_name()
    node = admin.describe_cluster().brokers[0].id
    assert admin.create_topics(NewTopic(name, assignments=[[node], [node]]))[name].partitions == 2


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"name": "bad/name"}, InvalidTopic),
        ({"replication_factor": 99}, InvalidReplicationFactor),
        ({"partitions": 0}, InvalidPartitions),
        ({"configs": {"no.such.setting": "1"}}, InvalidConfig),
    ],
)
def test_each_refused_topic_has_its_own_error(
    admin: Admin, unused_name: Name, fields: dict[str, object], error: type[Exception]
) -> None:
    with pytest.raises(error, match="creating topic"):
        admin.create_topics(NewTopic(**{"name": unused_name(), **fields}))  # type: ignore[arg-type]


def test_an_existing_topic_cannot_be_created_again(admin: Admin, topic: str) -> None:
    with pytest.raises(TopicAlreadyExists, match=topic):
        admin.create_topics(topic)


def test_of_several_topics_the_valid_ones_are_created(admin: Admin, topic: str, unused_name: Name) -> None:
    name = unused_name()
    with pytest.raises(SomeFailed, match="1 of 2 failed") as raised:
        admin.create_topics([topic, name])
    assert isinstance(raised.value.errors[topic], TopicAlreadyExists)
    assert set(raised.value.errors) == {topic}
    assert set(raised.value.results) == {name}
    wait_until(lambda: name in names(admin))


def test_a_topic_grows_and_never_shrinks(admin: Admin, new_topic: Callable[..., str]) -> None:
    name = new_topic(partitions=2)
    admin.create_partitions({name: 4})
    wait_until(lambda: len(admin.describe_topics(name)[name].partitions) == 4)
    with pytest.raises(InvalidPartitions):
        admin.create_partitions({name: 3})
    node = admin.describe_cluster().brokers[0].id
    admin.create_partitions({name: NewPartitions(5, [[node]])})
    wait_until(lambda: len(admin.describe_topics(name)[name].partitions) == 5)


def test_a_deleted_topic_is_gone(admin: Admin, topic: str) -> None:
    admin.delete_topics(topic)
    wait_until(lambda: topic not in names(admin))
    with pytest.raises(UnknownTopicOrPartition, match=topic):
        admin.delete_topics([topic])


def test_describing_an_unknown_topic_fails_at_once_and_does_not_create_it(admin: Admin, unused_name: Name) -> None:
    name = unused_name()
    with pytest.raises(UnknownTopicOrPartition, match=name):
        admin.describe_topics(name)
    assert name not in names(admin)


def test_asking_about_no_topics_is_answered_with_none(admin: Admin) -> None:
    assert admin.describe_topics([]) == {}
    assert admin.create_topics([]) == {}
    assert admin.delete_topics([]) is None  # type: ignore[func-returns-value]


def test_internal_topics_are_listed_only_on_request(admin: Admin, topic: str) -> None:
    from moldau import TopicPartition

    admin.alter_group_offsets(f"{topic}-group", {TopicPartition(topic, 0): 0})
    assert "__consumer_offsets" not in names(admin)
    assert "__consumer_offsets" in {one.name for one in admin.list_topics(include_internal=True)}
