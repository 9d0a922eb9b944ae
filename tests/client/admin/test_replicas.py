"""Admin client on one broker: elections and reassignments that are refused or need no work.

Also run against Apache Kafka. Tests with several brokers are in tests/client/cluster/.
"""

from __future__ import annotations

import asyncio

import pytest

import moldau.aio
from moldau import Admin, TopicPartition
from moldau.client.admin import ElectionType, SomeFailed
from moldau.client.errors import InvalidReplicaAssignment, NoReassignmentInProgress, UnknownTopicOrPartition

NOBODY = 4711


def test_a_partition_that_is_led_by_its_first_replica_needs_no_election(admin: Admin, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    assert admin.elect_leaders(ElectionType.PREFERRED, partition) == {partition: False}
    assert admin.elect_leaders(ElectionType.UNCLEAN, [partition]) == {partition: False}
    assert partition not in admin.elect_leaders(ElectionType.PREFERRED), (
        "without named partitions, only those with a new leader are in the result"
    )


def test_an_unknown_partition_has_no_election(admin: Admin, topic: str) -> None:
    known, unknown = TopicPartition(topic, 0), TopicPartition(topic, 99)
    with pytest.raises(UnknownTopicOrPartition, match=f"{topic}-99"):
        admin.elect_leaders(ElectionType.PREFERRED, unknown)
    with pytest.raises(SomeFailed) as some:
        admin.elect_leaders(ElectionType.PREFERRED, [known, unknown])
    assert some.value.results == {known: False}
    assert isinstance(some.value.errors[unknown], UnknownTopicOrPartition)


def test_a_reassignment_to_the_current_replicas_changes_nothing(admin: Admin, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    (node,) = admin.describe_topics(topic)[topic].partitions[0].replicas
    admin.alter_partition_reassignments({partition: [node]}, allow_replication_factor_change=False)
    assert partition not in admin.list_partition_reassignments()
    assert admin.list_partition_reassignments(partition) == {}


@pytest.mark.parametrize("replicas", [[NOBODY], [], [-1]], ids=["unknown", "none", "negative"])
def test_impossible_replicas_are_refused(admin: Admin, topic: str, replicas: list[int]) -> None:
    with pytest.raises(InvalidReplicaAssignment, match=topic):
        admin.alter_partition_reassignments({TopicPartition(topic, 0): replicas})


def test_only_an_ongoing_reassignment_can_be_cancelled(admin: Admin, topic: str) -> None:
    with pytest.raises(NoReassignmentInProgress, match=topic):
        admin.alter_partition_reassignments({TopicPartition(topic, 0): None})


def test_unknown_partitions_do_not_move(admin: Admin, topic: str) -> None:
    unknown = TopicPartition(topic, 99)
    with pytest.raises(UnknownTopicOrPartition, match=f"{topic}-99"):
        admin.alter_partition_reassignments({unknown: [NOBODY]})
    assert admin.list_partition_reassignments([unknown]) == {}


def test_elections_and_reassignments_with_asyncio(bootstrap: str, topic: str) -> None:
    async def ask() -> None:
        partition = TopicPartition(topic, 0)
        async with moldau.aio.Admin(bootstrap_servers=bootstrap) as admin:
            assert await admin.elect_leaders(partitions=partition) == {partition: False}
            assert await admin.list_partition_reassignments() == {}

    asyncio.run(ask())


def test_descriptions_contain_the_eligible_leader_replicas(admin: Admin, topic: str) -> None:
    (partition,) = admin.describe_topics(topic)[topic].partitions
    assert partition.eligible_leader_replicas == ()
    assert partition.last_known_elr == ()
    assert partition.offline_replicas == ()
