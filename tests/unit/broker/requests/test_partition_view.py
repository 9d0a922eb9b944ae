"""Partitions as clients of one listener see them: leaders that they can reach, and offline replicas."""

from __future__ import annotations

from moldau.broker.requests.partition_view import PartitionView, reachable
from moldau.cluster.image import NO_LEADER, BrokerImage, ClusterImage, Endpoint, PartitionState
from moldau.wire.errors import ErrorCode

ME = 1


def broker(node: int, *listeners: str) -> BrokerImage:
    return BrokerImage(node, tuple(Endpoint(name, f"host{node}", 9092, "PLAINTEXT") for name in listeners))


IMAGE = ClusterImage("c").with_brokers([broker(1, "IN", "OUT"), broker(2, "IN", "OUT"), broker(3, "IN")])


def state(leader: int, *replicas: int) -> PartitionState:
    return PartitionState(replicas, replicas, leader, 5, 7)


def test_a_reachable_leader_is_named() -> None:
    assert PartitionView(IMAGE, ME, "IN").status(state(2, 1, 2, 3), lost_here=False) == (ErrorCode.NONE, 2, [])


def test_no_leader_is_named_if_there_is_none_or_it_is_not_registered() -> None:
    view = PartitionView(IMAGE, ME, "IN")
    assert view.status(state(NO_LEADER, 1, 4), lost_here=False) == (ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER, [4])
    assert view.status(state(4, 1, 4), lost_here=False) == (ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER, [4])


def test_a_leader_without_the_clients_listener_is_not_named() -> None:
    new = PartitionView(IMAGE, ME, "OUT").status(state(3, 1, 3), lost_here=False)
    assert new == (ErrorCode.LISTENER_NOT_FOUND, NO_LEADER, [3])
    old = PartitionView(IMAGE, ME, "OUT", tell_missing_listener=False).status(state(3, 1, 3), lost_here=False)
    assert old.error is ErrorCode.LEADER_NOT_AVAILABLE


def test_a_failed_disk_takes_only_replicas_of_this_broker_offline() -> None:
    view = PartitionView(IMAGE, ME, "IN")
    assert view.status(state(1, 1, 2), lost_here=True) == (ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER, [1])
    assert view.status(state(2, 1, 2), lost_here=True) == (ErrorCode.NONE, 2, [1])


def test_only_brokers_with_the_listener_are_reachable_by_its_address() -> None:
    assert [node.id for node, _ in reachable(IMAGE, "OUT")] == [1, 2]
    assert [endpoint.host for _, endpoint in reachable(IMAGE, "IN")] == ["host1", "host2", "host3"]
