"""Leading and following: the effect of elections on a broker, and refused requests."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from moldau.log.errors import LogError
from moldau.testing.cluster import Cluster
from moldau.wire.errors import ErrorCode
from tests.replication.scripted_partition import ScriptedPartition
from tests.support.waiting import wait_until

QUIET = {"replica.fetch.wait.max.ms": 20_000}
"""Longer than a test: no broker notices a change only because a long poll has ended."""


@pytest.fixture
def scripted() -> Iterator[ScriptedPartition]:
    with Cluster(3, QUIET) as cluster:
        yield ScriptedPartition(cluster)


def test_followers_copy_records_of_their_leader(scripted: ScriptedPartition) -> None:
    scripted.elect(0)
    scripted.write(0, "a", "b")
    scripted.wait_copied(0)
    assert scripted.values(1) == scripted.values(2) == ["a", "b"]


def test_the_high_watermark_waits_for_every_in_sync_replica(scripted: ScriptedPartition) -> None:
    scripted.elect(0)
    scripted.isolate(2)
    scripted.write(0, "a")
    scripted.wait_copied(0, 1)
    assert scripted.high_watermark(0) == 0
    scripted.tell(0, known_to=[2])
    wait_until(lambda: scripted.high_watermark(0) == 1, "the third replica has the record")


def test_the_high_watermark_does_not_wait_for_a_replica_that_is_not_in_sync(scripted: ScriptedPartition) -> None:
    scripted.elect(0, isr=[0, 1])
    scripted.isolate(2)
    scripted.write(0, "a")
    wait_until(lambda: scripted.high_watermark(0) == 1, "two in-sync replicas are enough")


def test_idle_followers_get_the_high_watermark_at_once(scripted: ScriptedPartition) -> None:
    scripted.elect(0)
    scripted.write(0, "a")
    wait_until(
        lambda: scripted.high_watermark(1) == scripted.high_watermark(2) == 1,
        "the follower has the high watermark",
        timeout_s=5,
    )


def test_only_the_leader_writes_to_a_follower(scripted: ScriptedPartition) -> None:
    scripted.elect(0)
    with pytest.raises(LogError) as refusal:
        scripted.write(1, "x")
    assert refusal.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_unreplicated_records_of_a_former_leader_are_replaced_by_those_of_the_new_one(
    scripted: ScriptedPartition,
) -> None:
    scripted.elect(0)
    scripted.write(0, "a", "b")
    scripted.wait_copied(0)
    scripted.isolate(1)
    scripted.isolate(2)
    scripted.write(0, "only here")
    scripted.elect(1, known_to=[1, 2])
    scripted.write(1, "c", "d")
    scripted.wait_copied(1, 2)
    scripted.tell(1, known_to=[0])
    scripted.wait_copied(1)
    assert scripted.values(0) == scripted.values(1) == scripted.values(2) == ["a", "b", "c", "d"]


def test_a_leader_that_missed_its_successors_election_commits_nothing(scripted: ScriptedPartition) -> None:
    scripted.elect(0)
    scripted.write(0, "a")
    wait_until(lambda: scripted.high_watermark(0) == 1, "all in sync")
    scripted.elect(1, known_to=[1, 2])
    scripted.write(0, "unheard")
    scripted.write(1, "b")
    wait_until(lambda: scripted.values(2) == ["a", "b"], "the third follows the new leader")
    assert scripted.high_watermark(0) == 1
    scripted.tell(1, known_to=[0])
    scripted.wait_copied(1)


def test_a_producer_waiting_for_acks_gets_not_leader_when_the_leader_changes(scripted: ScriptedPartition) -> None:
    scripted.elect(0)
    scripted.isolate(1)
    heard: list[ErrorCode] = []

    class Waiter:
        def acknowledged(self, error: ErrorCode) -> None:
            heard.append(error)

    scripted.write(0, "a")
    scripted.look(0, lambda partition: partition.await_ack(1, Waiter()))
    assert heard == []
    scripted.elect(1, known_to=[0])
    assert heard == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_new_leader_keeps_the_high_watermark_that_it_knew(scripted: ScriptedPartition) -> None:
    scripted.elect(0)
    scripted.write(0, "a", "b")
    wait_until(lambda: scripted.high_watermark(1) == 2, "a follower has the high watermark")
    scripted.elect(1, known_to=[1])
    assert scripted.high_watermark(1) == 2
    assert scripted.look(1, lambda partition: partition.knows_its_end)


def test_a_new_leader_with_a_lower_high_watermark_reports_offset_not_available(scripted: ScriptedPartition) -> None:
    scripted.elect(0)
    scripted.write(0, "a")
    wait_until(lambda: scripted.high_watermark(1) == 1, "committed")
    scripted.isolate(2)
    scripted.write(0, "b")
    scripted.wait_copied(0, 1)
    scripted.elect(1, known_to=[1])
    assert not scripted.look(1, lambda partition: partition.knows_its_end)
    scripted.tell(1, known_to=[0, 2])
    wait_until(lambda: scripted.look(1, lambda partition: partition.knows_its_end), "the followers have fetched")
    assert scripted.high_watermark(1) == 2


def test_partitions_added_during_a_long_poll_do_not_wait_for_its_end(scripted: ScriptedPartition) -> None:
    scripted.elect(0)
    scripted.wait_copied(0)
    begun = time.monotonic()
    other = ScriptedPartition(scripted.cluster, "other")
    other.elect(0)
    other.write(0, "a")
    other.wait_copied(0)
    assert time.monotonic() - begun < 10, "the new partition waited for the end of the long poll"


def test_a_broker_never_leads_again_in_an_epoch_that_it_has_given_up(scripted: ScriptedPartition) -> None:
    scripted.elect(0)
    scripted.cluster.brokers[0].look(lambda served: served.replicas.stop_leading())
    scripted.tell(0)
    assert not scripted.look(0, lambda partition: partition.leads)
    scripted.elect(0)
    assert scripted.look(0, lambda partition: partition.leads)


def test_listeners_are_called_when_leadership_begins_and_ends(scripted: ScriptedPartition) -> None:
    heard: list[bool] = []
    scripted.cluster.brokers[0].look(
        lambda served: served.replicas.on_leadership(
            lambda partition, leads: heard.append(leads) if partition.topic == scripted.topic else None
        )
    )
    was = scripted.look(0, lambda partition: partition.leads)
    scripted.elect(1)
    scripted.elect(0)
    scripted.elect(0)
    scripted.elect(2)
    assert heard == [False] * was + [True, False, True, False]


def test_a_removed_replica_is_closed_and_not_waited_for(scripted: ScriptedPartition) -> None:
    scripted.elect(0)
    scripted.write(0, "a")
    scripted.wait_copied(0)
    scripted.replicas = (0, 1)
    scripted.tell(0, known_to=[0, 1, 2])
    assert scripted.cluster.brokers[2].look(lambda served: served.replicas.find(scripted.topic, 0)) is None
    scripted.write(0, "b")
    wait_until(lambda: scripted.high_watermark(0) == 2, "the leader does not wait for the removed replica")
