"""Leading and following: the effect of elections on a broker, and refused requests."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from moldau.log.errors import LogError
from moldau.testing.cluster import Cluster
from moldau.wire.errors import ErrorCode
from tests.replication.stage import Stage
from tests.support.waiting import wait_until

QUIET = {"replica.fetch.wait.max.ms": 20_000}
"""Nobody hears of anything because a poll happened to end."""


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Cluster(3, QUIET) as cluster:
        yield Stage(cluster)


def test_followers_copy_records_of_their_leader(stage: Stage) -> None:
    stage.elect(0)
    stage.write(0, "a", "b")
    stage.wait_copied(0)
    assert stage.values(1) == stage.values(2) == ["a", "b"]


def test_the_high_watermark_waits_for_every_in_sync_replica(stage: Stage) -> None:
    stage.elect(0)
    stage.isolate(2)
    stage.write(0, "a")
    stage.wait_copied(0, 1)
    assert stage.high_watermark(0) == 0
    stage.tell(0, known_to=[2])
    wait_until(lambda: stage.high_watermark(0) == 1, "the third replica has it, too")


def test_the_high_watermark_does_not_wait_for_a_replica_that_is_not_in_sync(stage: Stage) -> None:
    stage.elect(0, isr=[0, 1])
    stage.isolate(2)
    stage.write(0, "a")
    wait_until(lambda: stage.high_watermark(0) == 1, "two are enough")


def test_idle_followers_get_the_high_watermark_at_once(stage: Stage) -> None:
    stage.elect(0)
    stage.write(0, "a")
    wait_until(lambda: stage.high_watermark(1) == stage.high_watermark(2) == 1, "told without being asked", timeout_s=5)


def test_only_the_leader_writes_to_a_follower(stage: Stage) -> None:
    stage.elect(0)
    with pytest.raises(LogError) as refusal:
        stage.write(1, "x")
    assert refusal.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_unreplicated_records_of_a_former_leader_are_replaced_by_those_of_the_new_one(stage: Stage) -> None:
    stage.elect(0)
    stage.write(0, "a", "b")
    stage.wait_copied(0)
    stage.isolate(1)
    stage.isolate(2)
    stage.write(0, "only here")
    stage.elect(1, known_to=[1, 2])
    stage.write(1, "c", "d")
    stage.wait_copied(1, 2)
    stage.tell(1, known_to=[0])
    stage.wait_copied(1)
    assert stage.values(0) == stage.values(1) == stage.values(2) == ["a", "b", "c", "d"]


def test_a_leader_that_missed_its_successors_election_commits_nothing(stage: Stage) -> None:
    stage.elect(0)
    stage.write(0, "a")
    wait_until(lambda: stage.high_watermark(0) == 1, "all in sync")
    stage.elect(1, known_to=[1, 2])
    stage.write(0, "unheard")
    stage.write(1, "b")
    wait_until(lambda: stage.values(2) == ["a", "b"], "the third follows the new leader")
    assert stage.high_watermark(0) == 1
    stage.tell(1, known_to=[0])
    stage.wait_copied(1)


def test_a_producer_waiting_for_acks_gets_not_leader_when_the_leader_changes(stage: Stage) -> None:
    stage.elect(0)
    stage.isolate(1)
    heard: list[ErrorCode] = []

    class Waiter:
        def acknowledged(self, error: ErrorCode) -> None:
            heard.append(error)

    stage.write(0, "a")
    stage.look(0, lambda partition: partition.await_ack(1, Waiter()))
    assert heard == []
    stage.elect(1, known_to=[0])
    assert heard == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_new_leader_keeps_the_high_watermark_that_it_knew(stage: Stage) -> None:
    stage.elect(0)
    stage.write(0, "a", "b")
    wait_until(lambda: stage.high_watermark(1) == 2, "a follower knows what is committed")
    stage.elect(1, known_to=[1])
    assert stage.high_watermark(1) == 2
    assert stage.look(1, lambda partition: partition.knows_its_end)


def test_a_new_leader_with_a_lower_high_watermark_reports_offset_not_available(stage: Stage) -> None:
    stage.elect(0)
    stage.write(0, "a")
    wait_until(lambda: stage.high_watermark(1) == 1, "committed")
    stage.isolate(2)
    stage.write(0, "b")
    stage.wait_copied(0, 1)
    stage.elect(1, known_to=[1])
    assert not stage.look(1, lambda partition: partition.knows_its_end)
    stage.tell(1, known_to=[0, 2])
    wait_until(lambda: stage.look(1, lambda partition: partition.knows_its_end), "its followers have come")
    assert stage.high_watermark(1) == 2


def test_partitions_added_during_a_long_poll_do_not_wait_for_its_end(stage: Stage) -> None:
    stage.elect(0)
    stage.wait_copied(0)
    begun = time.monotonic()
    other = Stage(stage.cluster, "other")
    other.elect(0)
    other.write(0, "a")
    other.wait_copied(0)
    assert time.monotonic() - begun < 10, "the poll takes twenty seconds"


def test_in_an_epoch_that_was_given_up_a_broker_never_leads_again(stage: Stage) -> None:
    stage.elect(0)
    stage.cluster.brokers[0].look(lambda served: served.replicas.stop_leading())
    stage.tell(0)
    assert not stage.look(0, lambda partition: partition.leads)
    stage.elect(0)
    assert stage.look(0, lambda partition: partition.leads)


def test_listeners_hear_of_every_beginning_and_end_of_leading(stage: Stage) -> None:
    heard: list[bool] = []
    stage.cluster.brokers[0].look(
        lambda served: served.replicas.on_leadership(
            lambda partition, leads: heard.append(leads) if partition.topic == stage.topic else None
        )
    )
    was = stage.look(0, lambda partition: partition.leads)
    stage.elect(1)
    stage.elect(0)
    stage.elect(0)
    stage.elect(2)
    assert heard == [False] * was + [True, False, True, False]


def test_a_replica_that_is_moved_elsewhere_takes_its_log_along(stage: Stage) -> None:
    stage.elect(0)
    stage.write(0, "a")
    stage.wait_copied(0)
    stage.replicas = (0, 1)
    stage.tell(0, known_to=[0, 1, 2])
    assert stage.cluster.brokers[2].look(lambda served: served.replicas.find(stage.topic, 0)) is None
    stage.write(0, "b")
    wait_until(lambda: stage.high_watermark(0) == 2, "nobody waits for what is gone")
