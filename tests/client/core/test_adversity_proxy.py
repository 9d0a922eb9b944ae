"""The adversity proxy: each fault occurs and ends as ordered."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest

from moldau.client.errors import BrokerUnavailable, MoldauError, TimedOut
from moldau.client.network import ANY_NODE
from moldau.wire.api import ApiKey
from moldau.wire.messages.describe_cluster import DescribeClusterRequest
from tests.client.core.support import network, run, soon
from tests.support.adversity import AdversityProxy, Spoil
from tests.support.waiting import loop_turns


def test_brokers_are_reached_through_the_proxy_whatever_they_advertise(bootstrap: str) -> None:
    async def scenario(proxy: AdversityProxy) -> None:
        async with network(proxy.bootstrap) as client:
            image = await client.refreshed(soon())
            assert {node.port for node in image.nodes.values()} == {proxy.port}
            for node in image.nodes:
                answer = await client.call(node, DescribeClusterRequest(), deadline=soon())
                assert {broker.port for broker in answer.brokers} == {proxy.port}

    with AdversityProxy(bootstrap) as proxy:
        run(scenario(proxy))
        assert proxy.seen[ApiKey.METADATA] >= 1


@pytest.mark.parametrize("how", Spoil)
def test_a_spoiled_request_fails_and_the_next_one_does_not(bootstrap: str, how: Spoil) -> None:
    async def scenario(proxy: AdversityProxy) -> None:
        async with network(proxy.bootstrap) as client:
            await client.refreshed(soon())
            proxy.spoil(how, ApiKey.DESCRIBE_CLUSTER)
            with pytest.raises(BrokerUnavailable):
                await client.call(ANY_NODE, DescribeClusterRequest(), deadline=soon())
            assert (await client.call(ANY_NODE, DescribeClusterRequest(), deadline=soon())).brokers

    with AdversityProxy(bootstrap) as proxy:
        run(scenario(proxy))
        proxy.wait_until_spoiled()


def test_answers_in_tiny_pieces_are_read_as_if_they_were_whole(bootstrap: str) -> None:
    async def scenario(proxy: AdversityProxy) -> None:
        async with network(proxy.bootstrap) as client:
            for piece in (1, 2, 3, 4, 5, 7):
                with proxy.dribbling(piece):
                    answer = await client.call(ANY_NODE, DescribeClusterRequest(), deadline=soon())
                    assert answer.brokers

    with AdversityProxy(bootstrap) as proxy:
        run(scenario(proxy))


def test_bytes_held_by_a_black_hole_are_delivered_when_it_ends(bootstrap: str) -> None:
    async def scenario(proxy: AdversityProxy) -> None:
        async with network(proxy.bootstrap) as client:
            await client.refreshed(soon())
            with proxy.black_hole():
                with pytest.raises(TimedOut):
                    await client.call(ANY_NODE, DescribeClusterRequest(), deadline=soon(0.1))
                late = asyncio.ensure_future(client.call(ANY_NODE, DescribeClusterRequest(), deadline=soon()))
                await loop_turns()
            assert (await late).brokers

    with AdversityProxy(bootstrap) as proxy:
        run(scenario(proxy))


def test_a_refusing_proxy_is_a_broker_that_is_down_until_it_listens_again(bootstrap: str) -> None:
    async def scenario(proxy: AdversityProxy) -> None:
        async with network(proxy.bootstrap) as client:
            await client.refreshed(soon())
            with proxy.refusing():
                reasons = [""]
                while "refused the connection" not in reasons[-1]:  # first, the old connection ends
                    with pytest.raises(MoldauError) as caught:
                        await client.call(ANY_NODE, DescribeClusterRequest(), deadline=soon())
                    reasons.append(str(caught.value))
            again = await client.retrying(
                lambda: client.call(ANY_NODE, DescribeClusterRequest(), deadline=soon()), deadline=soon(), what="asking"
            )
            assert again.brokers

    with AdversityProxy(bootstrap) as proxy:
        run(scenario(proxy))


def test_every_random_fault_ends(bootstrap: str, seed: int) -> None:
    async def scenario(proxy: AdversityProxy, chance: random.Random) -> None:
        async with network(proxy.bootstrap, retry_backoff_max_ms=100) as client:
            for _ in range(8):
                fault = asyncio.get_running_loop().run_in_executor(None, proxy.misbehave, chance, 0.05)
                with contextlib.suppress(BrokerUnavailable, TimedOut):
                    await client.call(ANY_NODE, DescribeClusterRequest(), deadline=soon())
                await fault
            answer = await client.retrying(
                lambda: client.call(ANY_NODE, DescribeClusterRequest(), deadline=soon()), deadline=soon(), what="asking"
            )
            assert answer.brokers

    with AdversityProxy(bootstrap) as proxy:
        run(scenario(proxy, random.Random(seed)))
        assert sum(proxy.faults.values()) == 8
