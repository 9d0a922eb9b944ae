"""Requests between brokers: one connection, failure when the other broker is gone, reconnection."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from moldau.broker.broker import Broker as Served
from moldau.broker.peers import MAX_IN_FLIGHT, PeerLane, PeerUnavailable
from moldau.testing import Cluster
from moldau.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from tests.support.waiting import wait_until


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(2) as cluster:
        yield cluster


def asking(lane: PeerLane = PeerLane.VERIFICATION, of: int = 1) -> Any:
    def ask(served: Served) -> Coroutine[Any, Any, AddPartitionsToTxnResponse]:
        return served.peers.ask(of, AddPartitionsToTxnRequest(), lane)

    return ask


def test_a_broker_asks_another_over_one_connection_per_lane(cluster: Cluster) -> None:
    asker, asked = cluster.brokers
    before = asked.look(lambda served: len(served.connections))
    for lane in (PeerLane.VERIFICATION, PeerLane.MARKERS, PeerLane.VERIFICATION):
        assert asker.carry_out(asking(lane)) == AddPartitionsToTxnResponse()
    assert asked.look(lambda served: len(served.connections)) == before + 2


def test_a_request_to_an_unknown_broker_fails(cluster: Cluster) -> None:
    with pytest.raises(PeerUnavailable, match="broker 7 is not registered"):
        cluster.brokers[0].carry_out(asking(of=7))


def test_requests_reach_a_broker_again_after_its_restart(cluster: Cluster) -> None:
    asker, asked = cluster.brokers
    asker.carry_out(asking())
    asked.crash()
    with pytest.raises(PeerUnavailable):
        asker.carry_out(asking())
    asked.start()

    def answered() -> bool:
        try:
            return bool(asker.carry_out(asking()) == AddPartitionsToTxnResponse())
        except PeerUnavailable:
            return False

    wait_until(answered)


def test_after_a_failure_there_is_a_pause(cluster: Cluster) -> None:
    asker, asked = cluster.brokers
    asked.crash(noticed_after_s=60)
    with pytest.raises(PeerUnavailable, match="cannot be reached"):
        asker.carry_out(asking())
    with pytest.raises(PeerUnavailable, match="could not be reached a moment ago"):
        asker.carry_out(asking())


def test_waiting_requests_fail_when_the_broker_leaves_the_cluster(cluster: Cluster) -> None:
    asker, asked = cluster.brokers
    with asked.faults.black_hole("AddPartitionsToTxn") as hole, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(asker.carry_out, asking())
        hole.wait()
        asked.expire_session()
        with pytest.raises(PeerUnavailable, match="was closed"):
            waiting.result(20)


def test_the_number_of_waiting_requests_is_bounded(cluster: Cluster) -> None:
    asker, asked = cluster.brokers

    async def crowd(served: Served) -> list[str]:
        some = [asyncio.create_task(asking()(served)) for _ in range(MAX_IN_FLIGHT + 3)]
        done, waiting = await asyncio.wait(some, return_when=asyncio.FIRST_EXCEPTION)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        return [str(task.exception()) for task in done]

    with asked.faults.black_hole("AddPartitionsToTxn"):
        refused = asker.carry_out(crowd)
    assert refused
    assert set(refused) == {f"{MAX_IN_FLIGHT} requests to broker 1 are in flight already"}
