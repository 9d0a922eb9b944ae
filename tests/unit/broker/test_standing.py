"""What clients of one listener are told of partitions: leaders that they can reach, replicas that they cannot."""

from __future__ import annotations

from moldau.broker.standing import View, reachable
from moldau.cluster.image import NO_LEADER, BrokerImage, ClusterImage, Endpoint, PartitionState
from moldau.wire.errors import ErrorCode

ME = 1


def broker(node: int, *listeners: str) -> BrokerImage:
    return BrokerImage(node, tuple(Endpoint(name, f"host{node}", 9092, "PLAINTEXT") for name in listeners))


IMAGE = ClusterImage("c").with_brokers([broker(1, "IN", "OUT"), broker(2, "IN", "OUT"), broker(3, "IN")])


def state(leader: int, *replicas: int) -> PartitionState:
    return PartitionState(replicas, replicas, leader, 5, 7)


def test_a_leader_that_is_there_is_named() -> None:
    assert View(IMAGE, ME, "IN").standing(state(2, 1, 2, 3), lost_here=False) == (ErrorCode.NONE, 2, [])


def test_without_a_leader_and_with_a_dead_one_there_is_none_to_name() -> None:
    view = View(IMAGE, ME, "IN")
    assert view.standing(state(NO_LEADER, 1, 4), lost_here=False) == (ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER, [4])
    assert view.standing(state(4, 1, 4), lost_here=False) == (ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER, [4])


def test_a_leader_without_the_clients_listener_cannot_be_named() -> None:
    new = View(IMAGE, ME, "OUT").standing(state(3, 1, 3), lost_here=False)
    assert new == (ErrorCode.LISTENER_NOT_FOUND, NO_LEADER, [3])
    old = View(IMAGE, ME, "OUT", tell_missing_listener=False).standing(state(3, 1, 3), lost_here=False)
    assert old.error is ErrorCode.LEADER_NOT_AVAILABLE


def test_a_disk_that_failed_takes_this_brokers_replicas_and_nobody_elses() -> None:
    view = View(IMAGE, ME, "IN")
    assert view.standing(state(1, 1, 2), lost_here=True) == (ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER, [1])
    assert view.standing(state(2, 1, 2), lost_here=True) == (ErrorCode.NONE, 2, [1])


def test_only_brokers_with_the_listener_are_told_by_its_address() -> None:
    assert [node.id for node, _ in reachable(IMAGE, "OUT")] == [1, 2]
    assert [endpoint.host for _, endpoint in reachable(IMAGE, "IN")] == ["host1", "host2", "host3"]
