"""Brokers that start, stop, die and return, as other brokers and clients see them."""

from __future__ import annotations

import pytest

from moldau.cluster import controller, membership
from moldau.cluster.elections import ElectionKind
from moldau.cluster.image import NO_LEADER, ClusterImage
from moldau.host import boot
from moldau.testing.cluster import Cluster, ClusterBroker
from moldau.wire.messages.describe_cluster import DescribeClusterRequest
from tests.compat import wire
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until


def led_by(image: ClusterImage, topic: str = "t") -> list[int]:
    return [state.leader for state in image.topics[topic].partitions]


def test_a_broker_that_stops_leaves_no_partition_without_a_leader() -> None:
    with Cluster(3) as cluster:
        cluster.create_topic("t", 12, 3)
        seen: list[list[int]] = []
        watching, stopping = cluster.brokers[0], cluster.brokers[1]
        watching.look(lambda served: served.metadata.listen(lambda _old, new: seen.append(led_by(new))))
        stopping.stop()
        cluster.wait_until(lambda image: 1 not in image.brokers)
        assert all(NO_LEADER not in leaders for leaders in seen)
        assert 1 not in seen[-1]
        cluster.wait_until(lambda image: all(1 not in state.isr for state in image.topics["t"].partitions))


def test_a_broker_that_is_killed_is_replaced_and_is_in_sync_and_leads_again_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(controller, "RETURN_SETTLE_S", 0.05)
    with Cluster(3) as cluster:
        cluster.create_topic("t", 6, 3)
        preferred = cluster.brokers[0].look(lambda served: led_by(served.image))
        cluster.brokers[2].crash()
        cluster.wait_until(lambda image: 2 not in led_by(image) and NO_LEADER not in led_by(image))
        cluster.brokers[2].start()
        cluster.wait_in_sync()
        cluster.wait_until(lambda image: led_by(image) == preferred, "the preferred leaders lead again")


def test_a_broker_that_lost_its_session_registers_again_with_a_higher_epoch() -> None:
    with Cluster(3) as cluster:
        cluster.create_topic("t", 6, 3)
        before = cluster.brokers[0].look(lambda served: served.image.brokers[1].epoch)
        cluster.brokers[1].expire_session()
        cluster.wait_until(lambda image: 1 in image.brokers and image.brokers[1].epoch > before)
        cluster.wait_in_sync()
        assert cluster.brokers[1].look(lambda served: served.metadata.registered)


def test_brokers_without_sessions_still_answer_metadata_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    def back_but_not_registered(broker: ClusterBroker) -> None:
        """The broker has a new session and has read the metadata. Then it loses the connection before it can
        register."""

        def image_changed(_old: ClusterImage, new: ClusterImage) -> None:
            if broker.node_id not in new.brokers:
                broker.lose_touch()

        broker.look(lambda served: served.metadata.listen(image_changed))
        broker.expire_session()
        wait_until(lambda: broker.look(lambda served: broker.node_id not in served.image.brokers))

    with Cluster(2) as cluster:
        cluster.create_topic("t", 2, 2)
        monkeypatch.setattr(membership, "FIRST_RETRY_S", 60.0)  # not registered again before the request
        first, last = cluster.brokers
        back_but_not_registered(first)
        back_but_not_registered(last)
        assert not last.look(lambda served: served.image.brokers)
        with RawConnection(last.bootstrap_servers) as connection:
            answer = wire.metadata(connection, ["t"])
            described = wire.ask(connection, DescribeClusterRequest())
    # With an empty broker list, a client could not ask any broker again.
    assert [f"{one.host}:{one.port}" for one in answer.brokers] == [last.bootstrap_servers]
    assert [f"{one.host}:{one.port}" for one in described.brokers] == [last.bootstrap_servers]
    assert answer.controller_id == last.node_id
    assert [one.leader_id for one in answer.topics[0].partitions] == [NO_LEADER, NO_LEADER]


def test_a_machine_that_lost_power_is_not_in_sync_until_it_has_copied_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def epochs(image: ClusterImage) -> list[int]:
        return [state.partition_epoch for state in image.topics["t"].partitions]

    with Cluster(3) as cluster:
        cluster.create_topic("t", 3, 3)
        cluster.wait_in_sync()
        before = cluster.brokers[0].look(lambda served: epochs(served.image))
        cluster.brokers[1].crash(noticed_after_s=60)
        monkeypatch.setattr(boot, "boot_id", lambda: "another")
        cluster.brokers[1].start()
        cluster.wait_until(lambda image: image.brokers[1].epoch > 0)
        cluster.wait_in_sync()
        after = cluster.brokers[0].look(lambda served: epochs(served.image))
        # The broker has left each ISR and was added again.
        assert all(now >= then + 2 for then, now in zip(before, after, strict=True))


def test_after_all_machines_lost_power_only_an_operator_can_choose_the_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    with Cluster(2) as cluster:
        cluster.create_topic("t", 2, 2, {"min.insync.replicas": 2})
        for broker in cluster.brokers:
            broker.crash()
        monkeypatch.setattr(boot, "boot_id", lambda: "another")
        cluster.start()
        cluster.wait_until(lambda image: led_by(image) == [NO_LEADER, NO_LEADER])
        answers = cluster.brokers[0].carry_out(
            lambda served: served.metadata.elect_leaders(ElectionKind.UNCLEAN, [("t", 0), ("t", 1)])
        )
        assert [answer for _, _, answer in answers] == [None, None]
        cluster.wait_in_sync()
