"""Client network layer: metadata, coordinators, and connections that idle, hang or end."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest

from moldau.client.errors import (
    BrokerUnavailable,
    ClosedError,
    GroupAuthorizationFailed,
    InvalidTopic,
    NotKafka,
    TimedOut,
    UnknownTopicOrPartition,
)
from moldau.client.metadata import ClusterMetadata
from moldau.client.network import ANY_NODE, CONTROLLER, CoordinatorKind, Network
from moldau.client.pool import coordinator_node, real_node
from moldau.client.settings import CONSUMER, PRODUCER
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from moldau.wire.messages.find_coordinator import FindCoordinatorResponse, FindCoordinatorResponseCoordinator
from moldau.wire.messages.metadata import MetadataResponse, MetadataResponseBroker
from tests.client.core import fake_servers
from tests.client.core.fake_servers import FakeServer
from tests.client.core.support import PATIENCE_S, network, run, soon
from tests.compat import wire
from tests.support.adversity import AdversityProxy
from tests.support.raw import RawConnection
from tests.support.waiting import loop_turns, wait_until_async

NODE = 7


def cluster(*addresses: str, cluster_id: str = "fake_servers") -> MetadataResponse:
    """A Metadata response with brokers 7, 8, … at these addresses."""
    brokers = []
    for node, address in enumerate(addresses, NODE):
        host, _, port = address.rpartition(":")
        brokers.append(MetadataResponseBroker(node_id=node, host=host, port=int(port)))
    return MetadataResponse(brokers=brokers, controller_id=NODE, cluster_id=cluster_id)


def fake_server(**answers: Callable[[], Any]) -> FakeServer:
    """A server that describes itself as the whole cluster and gives these answers."""
    given = {ApiKey[name.upper()]: lambda _, answer=answer: answer() for name, answer in answers.items()}
    one = FakeServer(fake_servers.broker(fake_servers.everything(), given))
    given.setdefault(ApiKey.METADATA, lambda _: cluster(one.bootstrap))
    return one


def asked(one: FakeServer, api: ApiKey) -> int:
    return sum(key == api for key, _ in one.asked)


async def ask(client: Network, deadline_s: float = 60.0) -> Any:
    return await client.call(ANY_NODE, DescribeClusterRequest(), deadline=soon(deadline_s))


# Metadata -------------------------------------------------------------------------------------------------------------


def test_a_topic_is_known_with_its_partitions(bootstrap: str, new_topic: Callable[..., str]) -> None:
    name = new_topic(partitions=3)

    async def scenario() -> None:
        async with network(bootstrap, CONSUMER) as client:
            found = await client.topic(name, soon())
            assert found.name == name and [one.index for one in found.partitions] == [0, 1, 2]
            assert all(one.leader in client.metadata.nodes for one in found.partitions)
            assert client.metadata.topic_names[found.id] == name

    run(scenario())


def test_a_producer_may_have_topics_created_and_an_admin_may_not(
    bootstrap: str, unused_name: Callable[[], str]
) -> None:
    async def scenario() -> None:
        name = unused_name()
        async with network(bootstrap) as admin:
            error: Exception = TimedOut()
            while isinstance(error, TimedOut):  # a slow broker may not have answered before the deadline
                with pytest.raises((UnknownTopicOrPartition, TimedOut)) as caught:
                    await admin.topic(name, soon(0.2))
                error = caught.value
            assert "check the name, or create the topic" in str(error)
            assert name not in (await admin.refreshed(soon())).topics, "no caller waits for the topic any more"
        async with network(bootstrap, PRODUCER) as producer:
            assert (await producer.topic(name, soon())).partitions

    run(scenario())


def test_cancelling_one_topic_lookup_does_not_cancel_the_others(bootstrap: str, unused_name: Callable[[], str]) -> None:
    async def scenario() -> None:
        name = unused_name()
        async with network(bootstrap) as client:
            first, second = (asyncio.ensure_future(client.topic(name, soon())) for _ in range(2))
            await client.refreshed(soon())
            first.cancel()
            await asyncio.wait([first])
            assert first.cancelled()
            with RawConnection(bootstrap) as connection:
                wire.create_topic(connection, name, 1, {})
            assert (await second).name == name
            assert name in (await client.refreshed(soon())).topics, "the topic was found and must be tracked"

    run(scenario())


def test_an_invalid_topic_name_fails_at_once(bootstrap: str) -> None:
    async def scenario() -> None:
        async with network(bootstrap, PRODUCER) as client:
            with pytest.raises(InvalidTopic, match="looking up topic 'no good'"):
                await client.topic("no good", soon())

    run(scenario())


def test_metadata_is_requested_only_for_tracked_topics(bootstrap: str, new_topic: Callable[..., str]) -> None:
    first, second = new_topic(), new_topic()

    async def scenario() -> None:
        async with network(bootstrap, CONSUMER) as client:
            client.follow([first, second])
            assert {first, second} <= set((await client.refreshed(soon())).topics)
            client.unfollow([first])
            assert set((await client.refreshed(soon())).topics) == {second}
            client.follow_all(True)
            assert {first, second} <= set((await client.refreshed(soon())).topics)
            client.follow_all(False)
            assert set((await client.refreshed(soon())).topics) == {second}

    run(scenario())


def test_old_metadata_is_refreshed_and_listeners_are_called(bootstrap: str) -> None:
    async def scenario() -> None:
        images: list[ClusterMetadata] = []
        async with network(bootstrap, metadata_max_age_ms=50, retry_backoff_ms=10) as client:
            client.on_metadata(images.append)
            await wait_until_async(lambda: len(images) >= 3)
        assert [image.version for image in images[:3]] == [1, 2, 3]

    run(scenario())


def test_a_listener_that_fails_ends_the_client_with_an_error(bootstrap: str, caplog: pytest.LogCaptureFixture) -> None:
    def listener(image: ClusterMetadata) -> None:
        raise LookupError("a fault")

    async def scenario() -> None:
        async with network(bootstrap) as client:
            client.on_metadata(listener)
            with pytest.raises(ClosedError):
                await client.refreshed(soon())
            with pytest.raises(ClosedError):
                await ask(client)

    run(scenario())
    assert "the metadata task failed, the client is unusable" in caplog.text


# Bootstrapping again from bootstrap.servers ---------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["rebootstrap", "none"])
def test_a_client_without_a_reachable_broker_bootstraps_again(strategy: str) -> None:
    told: list[MetadataResponse] = []
    with fake_server(metadata=lambda: told[0]) as one:
        told.append(cluster("127.0.0.1:1"))  # none of these brokers is reachable

        async def scenario() -> None:
            async with network(one.bootstrap, metadata_recovery_strategy=strategy) as client:
                assert str((await client.refreshed(soon())).nodes[NODE]) == "127.0.0.1:1 (id 7)"
                told[0] = cluster(one.bootstrap)
                if strategy == "none":
                    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1:1"):
                        await ask(client)
                    return
                image = await client.refreshed(soon())
                assert str(image.nodes[NODE]) == f"{one.bootstrap} (id 7)"

        run(scenario())


def test_a_broker_that_hangs_does_not_prevent_requests_to_another() -> None:
    frozen, thawed = threading.Event(), threading.Event()

    def one_answer() -> MetadataResponse:
        if frozen.is_set():
            assert thawed.wait(PATIENCE_S)
        return cluster(first.bootstrap, second.bootstrap)

    async def scenario() -> float:
        async with network(first.bootstrap) as client:
            await client.refreshed(soon())
            frozen.set()
            begun = asyncio.get_running_loop().time()
            await client.refreshed(soon())
            return asyncio.get_running_loop().time() - begun

    with fake_server(metadata=one_answer) as first, fake_server() as second:
        try:
            assert run(scenario()) < 15, "far less than request.timeout.ms"
        finally:
            thawed.set()


def test_a_broker_may_tell_the_client_to_bootstrap_again() -> None:
    told: list[MetadataResponse] = []
    with fake_server(metadata=lambda: told.pop(0) if len(told) > 1 else told[0]) as one:
        told += [cluster(one.bootstrap), MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)]
        told += [cluster(one.bootstrap, cluster_id="another")]

        async def scenario() -> None:
            async with network(one.bootstrap) as client:
                assert (await client.refreshed(soon())).cluster_id == "fake_servers"
                assert (await client.refreshed(soon())).cluster_id == "another"

        run(scenario())


def test_a_broker_that_moved_is_reached_at_its_new_address() -> None:
    told: list[MetadataResponse] = []
    answers: dict[str, Callable[[], Any]] = {"metadata": lambda: told[0]}
    with fake_server(**answers) as old, fake_server(**answers, describe_cluster=DescribeClusterResponse) as new:
        told.append(cluster(old.bootstrap))

        async def scenario() -> None:
            async with network(old.bootstrap) as client:
                await client.refreshed(soon())
                told[0] = cluster(new.bootstrap)
                await client.refreshed(soon())
                await client.call(NODE, DescribeClusterRequest(), deadline=soon())

        run(scenario())
        assert asked(new, ApiKey.DESCRIBE_CLUSTER) == 1


# Coordinators ---------------------------------------------------------------------------------------------------------


def coordinator(node: int, address: str, error: ErrorCode = ErrorCode.NONE) -> FindCoordinatorResponse:
    host, _, port = address.rpartition(":")
    found = FindCoordinatorResponseCoordinator(key="g", node_id=node, host=host, port=int(port), error_code=error)
    return FindCoordinatorResponse(coordinators=[found])


def test_a_coordinator_is_looked_up_once_and_again_when_it_moved() -> None:
    told: list[FindCoordinatorResponse] = []
    with fake_server(find_coordinator=lambda: told[0]) as one:
        told.append(coordinator(NODE, one.bootstrap))

        async def scenario() -> None:
            async with network(one.bootstrap) as client:
                group = (CoordinatorKind.GROUP, "g")
                assert await client.coordinator(*group, soon()) == coordinator_node(NODE)
                assert await client.coordinator(*group, soon()) == coordinator_node(NODE)
                assert asked(one, ApiKey.FIND_COORDINATOR) == 1
                told[0] = coordinator(NODE + 1, one.bootstrap)
                client.coordinator_gone(*group)
                assert real_node(await client.coordinator(*group, soon())) == NODE + 1
                assert await client.coordinator(CoordinatorKind.TRANSACTION, "g", soon()) == NODE + 1

        run(scenario())
        assert asked(one, ApiKey.FIND_COORDINATOR) == 3


def test_a_coordinator_that_is_not_there_yet_is_waited_for_and_a_refusal_is_not() -> None:
    told: list[FindCoordinatorResponse] = []
    with fake_server(find_coordinator=lambda: told.pop(0)) as one:
        told += [coordinator(-1, ":0", ErrorCode.COORDINATOR_NOT_AVAILABLE), coordinator(NODE, one.bootstrap)]
        told += [coordinator(-1, ":0", ErrorCode.GROUP_AUTHORIZATION_FAILED)]

        async def scenario() -> None:
            async with network(one.bootstrap, retry_backoff_ms=5) as client:
                group = (CoordinatorKind.GROUP, "g")
                assert real_node(await client.coordinator(*group, soon())) == NODE
                client.coordinator_gone(*group)
                with pytest.raises(GroupAuthorizationFailed, match="looking for the coordinator of group 'g'"):
                    await client.coordinator(*group, soon())

        run(scenario())


def test_a_lost_connection_makes_the_client_look_up_the_coordinator_again(bootstrap: str) -> None:
    async def scenario(proxy: AdversityProxy) -> None:
        async with network(proxy.bootstrap) as client:
            group = (CoordinatorKind.GROUP, "g")
            node = await client.coordinator(*group, soon())
            await client.call(node, DescribeClusterRequest(), deadline=soon())
            assert client.connected(node) is not client.connected(real_node(node)), (
                "the coordinator must have its own connection"
            )
            looked_up = proxy.seen[ApiKey.FIND_COORDINATOR]
            proxy.cut()
            await wait_until_async(lambda: client.connected(node) is None)
            assert await client.coordinator(*group, soon()) == node
            assert proxy.seen[ApiKey.FIND_COORDINATOR] > looked_up

    with AdversityProxy(bootstrap) as proxy:
        run(scenario(proxy))


def test_the_controller_can_be_addressed_as_controller(bootstrap: str) -> None:
    async def scenario() -> None:
        async with network(bootstrap) as client:
            answer = await client.call(CONTROLLER, DescribeClusterRequest(), deadline=soon())
            assert answer.brokers

    run(scenario())


# Connections ----------------------------------------------------------------------------------------------------------


def test_all_callers_share_one_connection(bootstrap: str) -> None:
    async def scenario(proxy: AdversityProxy) -> None:
        async with network(proxy.bootstrap) as client:
            await asyncio.gather(*(ask(client) for _ in range(20)))
            (node,) = (await client.refreshed(soon())).nodes
            assert client.connected(node) is not None

    with AdversityProxy(bootstrap) as proxy:
        run(scenario(proxy))
        assert proxy.connections == 1, "the connection to the bootstrap server must be used for the broker"


def test_an_idle_connection_is_closed_and_opened_again_when_it_is_needed(bootstrap: str) -> None:
    async def scenario() -> None:
        async with network(bootstrap, connections_max_idle_ms=100) as client:
            await ask(client)
            await client.refreshed(soon())
            await wait_until_async(lambda: all(client.connected(node) is None for node in client.metadata.nodes))
            assert (await ask(client)).brokers

    run(scenario())


def test_the_connection_to_a_silent_broker_is_closed_and_its_calls_fail() -> None:
    silence = threading.Event()

    def never() -> DescribeClusterResponse:
        silence.wait(60.0)
        return DescribeClusterResponse()

    with fake_server(describe_cluster=never) as one:

        async def scenario() -> None:
            async with network(one.bootstrap) as client:
                await client.refreshed(soon())
                first = client.call(NODE, DescribeClusterRequest(), deadline=soon(), timeout_s=0.2)
                behind = client.call(NODE, DescribeClusterRequest(), deadline=soon(), timeout_s=60.0)
                failures = await asyncio.gather(first, behind, return_exceptions=True)
                for failure in failures:
                    assert isinstance(failure, TimedOut), failure
                    assert (
                        "did not answer DescribeCluster within the timeout (request.timeout.ms), and the connection "
                        "was closed" in str(failure)
                    )
                silence.set()
                assert await client.call(NODE, DescribeClusterRequest(), deadline=soon())

        run(scenario())
        assert asked(one, ApiKey.API_VERSIONS) >= 2, "the coordinator must have its own connection"


def test_a_connection_that_fails_together_with_its_first_answer_is_never_used() -> None:
    """Otherwise the client would keep the dead connection forever: its end was reported before it was in use."""
    junk = iter([b"\xff" * 8] * 3)
    answers: dict[ApiKey, Callable[[int], Any]] = {ApiKey.DESCRIBE_CLUSTER: lambda _: DescribeClusterResponse()}
    with FakeServer(fake_servers.broker(fake_servers.everything(), answers, more=lambda: next(junk, b""))) as one:
        answers[ApiKey.METADATA] = lambda _: cluster(one.bootstrap)

        async def scenario() -> None:
            async with network(one.bootstrap, reconnect_backoff_max_ms=20) as client:
                answer = None
                async with asyncio.timeout(PATIENCE_S):
                    while answer is None:
                        with contextlib.suppress(NotKafka):
                            answer = await ask(client)

        run(scenario())


def test_a_hanging_broker_that_has_left_the_cluster_is_not_waited_for() -> None:
    asked_for, thawed = threading.Event(), threading.Event()

    def no_answer() -> DescribeClusterResponse:
        asked_for.set()
        assert thawed.wait(PATIENCE_S)
        return DescribeClusterResponse()

    def who_is_there() -> MetadataResponse:
        both = cluster(frozen.bootstrap, other.bootstrap)
        if asked_for.is_set():
            del both.brokers[0]
        return both

    async def scenario() -> float:
        loop = asyncio.get_running_loop()
        async with network(other.bootstrap) as client:
            await client.refreshed(soon())
            waiting = loop.create_task(client.call(NODE, DescribeClusterRequest(), deadline=soon()))
            await wait_until_async(asked_for.is_set)
            begun = loop.time()
            await client.refreshed(soon())
            with pytest.raises(BrokerUnavailable, match="has left the cluster"):
                await waiting
            return loop.time() - begun

    with fake_server(describe_cluster=no_answer) as frozen, fake_server(metadata=who_is_there) as other:
        try:
            assert run(scenario()) < 15, "far less than request.timeout.ms"
        finally:
            thawed.set()


def test_cancelling_a_request_does_not_close_the_connection(bootstrap: str) -> None:
    async def scenario(proxy: AdversityProxy) -> None:
        async with network(proxy.bootstrap) as client:
            await client.refreshed(soon())
            (node,) = client.metadata.nodes
            connection = client.connected(node)
            with proxy.black_hole():
                with pytest.raises(TimedOut, match="did not answer DescribeCluster before the timeout of the call"):
                    await ask(client, deadline_s=0.05)
                impatient = asyncio.ensure_future(ask(client))
                await loop_turns()
                impatient.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await impatient
            assert (await ask(client)).brokers
            assert client.connected(node) is connection

    with AdversityProxy(bootstrap) as proxy:
        run(scenario(proxy))


def test_waiting_and_new_calls_of_a_closed_client_fail(bootstrap: str) -> None:
    async def scenario(proxy: AdversityProxy) -> None:
        async with network(proxy.bootstrap) as client:
            await client.refreshed(soon())
            with proxy.black_hole():
                waiting = [asyncio.ensure_future(ask(client)), asyncio.ensure_future(client.refreshed(soon()))]
                waiting.append(asyncio.ensure_future(client.connection(coordinator_node(1), soon())))
                await asyncio.sleep(0.05)  # a delay, so that the calls are interrupted at different points
                await client.close()
                for one in await asyncio.gather(*waiting, return_exceptions=True):
                    assert isinstance(one, ClosedError), one
            with pytest.raises(ClosedError):
                await ask(client)
            with pytest.raises(ClosedError):
                await client.topic("t", soon())
            with pytest.raises(ClosedError):
                await client.connection(1, soon())
            await client.close()

    with AdversityProxy(bootstrap) as proxy:
        run(scenario(proxy))


def test_retries_end_with_the_deadline_and_report_the_last_error() -> None:
    async def scenario() -> None:
        async with network("127.0.0.1:1", retry_backoff_ms=5, retry_backoff_max_ms=5) as client:
            with pytest.raises(
                TimedOut, match=r"asking: timed out after \d+ attempts?; the last error: 127.0.0.1:1 ref"
            ):
                await client.retrying(lambda: ask(client), deadline=soon(0.5), what="asking")

    run(scenario())
