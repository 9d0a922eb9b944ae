"""Wrong addresses: the error says in time what is wrong."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import pytest

from moldau.client.errors import BrokerUnavailable, MoldauError, NotKafka, TimedOut, UnsupportedByBroker
from moldau.client.network import ANY_NODE
from moldau.wire.api import ApiKey
from moldau.wire.messages.describe_cluster import DescribeClusterRequest
from moldau.wire.messages.metadata import MetadataResponse, MetadataResponseBroker
from tests.client.core import impostors
from tests.client.core.impostors import Impostor
from tests.client.core.support import network, run, soon


def what_a_client_says(bootstrap: str) -> MoldauError:
    """The error of the first thing that any client needs: a description of the cluster."""

    async def scenario() -> MoldauError:
        async with network(bootstrap) as client:
            with pytest.raises(MoldauError) as caught:
                await client.refreshed(soon())
            return caught.value

    return run(scenario())


def one_attempt(bootstrap: str) -> MoldauError:
    """The error of a single request to anybody."""

    async def scenario() -> MoldauError:
        async with network(bootstrap) as client:
            with pytest.raises(MoldauError) as caught:
                await client.call(ANY_NODE, DescribeClusterRequest(), deadline=soon())
            return caught.value

    return run(scenario())


@pytest.fixture
def nobody() -> str:
    """An address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def test_a_port_without_a_listener_is_reported(nobody: str) -> None:
    error = one_attempt(nobody)
    assert isinstance(error, BrokerUnavailable) and error.retriable
    assert f"{nobody} refused the connection: is the broker running, and is this its port?" in str(error)


def test_a_host_that_does_not_exist() -> None:
    error = one_attempt("no-such-host.invalid:9092")
    assert isinstance(error, BrokerUnavailable)
    assert "there is no host 'no-such-host.invalid'; check bootstrap.servers" in str(error)


def test_a_request_to_an_unreachable_broker_ends_with_the_reason(nobody: str) -> None:
    async def scenario() -> None:
        async with network(nobody) as client:
            reason = ""
            while "refused the connection" not in reason:  # on a slow machine the first wait may end before any attempt
                with pytest.raises(TimedOut, match="no broker answered the metadata request in time") as caught:
                    await client.refreshed(soon(0.2))
                reason = str(caught.value)

    run(scenario())


@pytest.mark.parametrize(
    ("behaviour", "says"),
    [
        (impostors.web_server, "speaks HTTP, not Kafka's protocol; check the port in bootstrap.servers"),
        (impostors.mail_server, "does not speak Kafka's protocol (it sent b'220 mail.example"),
        (impostors.tls_server, "speaks TLS, but this client uses plain text; use a PLAINTEXT listener"),
        (impostors.tls_server_that_says_so, "speaks TLS, but this client uses plain text; use a PLAINTEXT listener"),
    ],
    ids=["http", "smtp", "tls", "tls-alert"],
)
def test_a_port_with_another_protocol_is_reported_at_once(behaviour: impostors.Behaviour, says: str) -> None:
    with Impostor(behaviour) as impostor:
        error = what_a_client_says(impostor.bootstrap)
        assert isinstance(error, NotKafka) and not error.retriable
        assert impostor.bootstrap in str(error) and says in str(error)


def test_a_server_that_hangs_up_may_be_stopping_or_no_broker_at_all() -> None:
    with Impostor(impostors.server_that_hangs_up) as impostor:

        async def scenario() -> None:
            async with network(impostor.bootstrap) as client:
                with pytest.raises(BrokerUnavailable, match="closed the connection before it answered"):
                    await client.call(ANY_NODE, DescribeClusterRequest(), deadline=soon())

        run(scenario())


def test_a_server_that_never_answers_is_given_up_after_the_request_timeout() -> None:
    with Impostor(impostors.silent_server) as impostor:

        async def scenario() -> None:
            async with network(impostor.bootstrap, request_timeout_ms=200) as client:
                with pytest.raises(
                    TimedOut,
                    match=r"did not answer ApiVersions within the timeout \(request\.timeout\.ms\), and the "
                    "connection was closed",
                ):
                    await client.call(ANY_NODE, DescribeClusterRequest(), deadline=soon())

        run(scenario())


def test_a_shorter_time_limit_reports_that_the_server_is_silent() -> None:
    with Impostor(impostors.silent_server) as impostor:

        async def scenario() -> None:
            async with network(impostor.bootstrap) as client:
                patient = asyncio.ensure_future(client.call(ANY_NODE, DescribeClusterRequest(), deadline=soon()))
                await asyncio.get_running_loop().run_in_executor(None, impostor.spoken_to.wait, 60.0)
                with pytest.raises(TimedOut, match="accepted the connection, but did not answer in time"):
                    await client.call(ANY_NODE, DescribeClusterRequest(), deadline=soon(0.01))
                patient.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await patient

        run(scenario())


def cluster_of(impostor: Impostor) -> MetadataResponse:
    host, _, port = impostor.bootstrap.rpartition(":")
    broker = MetadataResponseBroker(node_id=7, host=host, port=int(port))
    return MetadataResponse(brokers=[broker], controller_id=7, cluster_id="impostors")


@pytest.mark.parametrize("highest", [0, 1, 2, 3])
def test_an_old_broker_is_asked_again_in_a_version_that_it_supports(highest: int) -> None:
    versions = impostors.everything(api_versions=(0, highest))
    with Impostor(impostors.broker(versions, {ApiKey.METADATA: lambda _: cluster_of(impostor)})) as impostor:

        async def scenario() -> None:
            async with network(impostor.bootstrap) as client:
                assert list((await client.refreshed(soon())).nodes) == [7]

        run(scenario())
        first = [version for key, version in impostor.asked if key == ApiKey.API_VERSIONS][:2]
        assert first == [4, highest]


def test_a_broker_that_is_too_old_is_reported_with_its_versions_and_ours() -> None:
    with Impostor(impostors.broker(impostors.everything(metadata=(0, 2)), {})) as impostor:
        error = what_a_client_says(impostor.bootstrap)
    assert isinstance(error, UnsupportedByBroker) and not error.retriable
    assert "serves Metadata in versions 0 to 2, but the client needs 4 to 13; the broker is too old" in str(error)


def test_an_api_that_the_broker_does_not_have_is_named() -> None:
    versions = impostors.everything()
    del versions[ApiKey.DESCRIBE_CLUSTER]
    with Impostor(impostors.broker(versions, {ApiKey.METADATA: lambda _: cluster_of(impostor)})) as impostor:

        async def scenario() -> None:
            async with network(impostor.bootstrap) as client:
                await client.refreshed(soon())
                with pytest.raises(UnsupportedByBroker, match=r"\(id 7\) does not serve DescribeCluster"):
                    await client.call(7, DescribeClusterRequest(), deadline=soon())

        run(scenario())


def test_one_good_address_among_bad_ones_is_enough(bootstrap: str) -> None:
    with Impostor(impostors.web_server) as impostor:

        async def scenario() -> None:
            async with network(f"127.0.0.1:1,{impostor.bootstrap},{bootstrap}") as client:
                assert (await client.refreshed(soon())).nodes

        run(scenario())


@contextlib.contextmanager
def swallowing() -> Iterator[str]:
    """An address that takes no connection and refuses none: its queue is full, what is sent to it is dropped."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        address = listener.getsockname()
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(address)
        yield f"127.0.0.1:{address[1]}"


async def first_answer_s(addresses: str) -> float:
    loop = asyncio.get_running_loop()
    async with network(addresses) as client:
        begun = loop.time()
        await client.call(ANY_NODE, DescribeClusterRequest(), deadline=soon())
        return loop.time() - begun


def test_addresses_that_swallow_packets_cost_a_moment_and_not_a_timeout(bootstrap: str) -> None:
    with swallowing() as one, swallowing() as two:
        took_s = run(first_answer_s(f"{one},{two},{bootstrap}"))
    assert took_s < 5, "far less than socket.connection.setup.timeout.ms"


def test_a_server_that_is_silent_costs_a_moment_and_not_a_timeout(bootstrap: str) -> None:
    with Impostor(impostors.silent_server) as frozen:
        assert run(first_answer_s(f"{frozen.bootstrap},{bootstrap}")) < 10, "far less than request.timeout.ms"
