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
from tests.client.core import fake_servers
from tests.client.core.fake_servers import FakeServer
from tests.client.core.support import network, run, soon


def first_error(bootstrap: str) -> MoldauError:
    """The error of the first request of any client: a description of the cluster."""

    async def scenario() -> MoldauError:
        async with network(bootstrap) as client:
            with pytest.raises(MoldauError) as caught:
                await client.refreshed(soon())
            return caught.value

    return run(scenario())


def one_attempt(bootstrap: str) -> MoldauError:
    """The error of a single request to any broker."""

    async def scenario() -> MoldauError:
        async with network(bootstrap) as client:
            with pytest.raises(MoldauError) as caught:
                await client.call(ANY_NODE, DescribeClusterRequest(), deadline=soon())
            return caught.value

    return run(scenario())


@pytest.fixture
def closed_port() -> str:
    """An address without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def test_a_port_without_a_listener_is_reported(closed_port: str) -> None:
    error = one_attempt(closed_port)
    assert isinstance(error, BrokerUnavailable) and error.retriable
    assert f"{closed_port} refused the connection: is the broker running, and is this its port?" in str(error)


def test_a_host_that_does_not_exist() -> None:
    error = one_attempt("no-such-host.invalid:9092")
    assert isinstance(error, BrokerUnavailable)
    assert "there is no host 'no-such-host.invalid'; check bootstrap.servers" in str(error)


def test_a_request_to_an_unreachable_broker_ends_with_the_reason(closed_port: str) -> None:
    async def scenario() -> None:
        async with network(closed_port) as client:
            reason = ""
            while "refused the connection" not in reason:  # on a slow machine the first wait may end before any attempt
                with pytest.raises(TimedOut, match="no broker answered the metadata request in time") as caught:
                    await client.refreshed(soon(0.2))
                reason = str(caught.value)

    run(scenario())


@pytest.mark.parametrize(
    ("behaviour", "says"),
    [
        (fake_servers.web_server, "speaks HTTP, not Kafka's protocol; check the port in bootstrap.servers"),
        (fake_servers.mail_server, "does not speak Kafka's protocol (it sent b'220 mail.example"),
        (
            fake_servers.tls_server,
            "speaks TLS, but this client uses plain text; set security.protocol to SSL or SASL_SSL",
        ),
        (
            fake_servers.tls_server_with_alert,
            "speaks TLS, but this client uses plain text; set security.protocol to SSL or SASL_SSL",
        ),
    ],
    ids=["http", "smtp", "tls", "tls-alert"],
)
def test_a_port_with_another_protocol_is_reported_at_once(behaviour: fake_servers.Behaviour, says: str) -> None:
    with FakeServer(behaviour) as fake_server:
        error = first_error(fake_server.bootstrap)
        assert isinstance(error, NotKafka) and not error.retriable
        assert fake_server.bootstrap in str(error) and says in str(error)


def test_a_server_that_hangs_up_may_be_stopping_or_no_broker_at_all() -> None:
    with FakeServer(fake_servers.server_that_hangs_up) as fake_server:

        async def scenario() -> None:
            async with network(fake_server.bootstrap) as client:
                with pytest.raises(BrokerUnavailable, match="closed the connection before it answered"):
                    await client.call(ANY_NODE, DescribeClusterRequest(), deadline=soon())

        run(scenario())


def test_a_server_that_never_answers_is_given_up_after_the_request_timeout() -> None:
    with FakeServer(fake_servers.silent_server) as fake_server:

        async def scenario() -> None:
            async with network(fake_server.bootstrap, request_timeout_ms=200) as client:
                with pytest.raises(
                    TimedOut,
                    match=r"did not answer ApiVersions within the timeout \(request\.timeout\.ms\), and the "
                    "connection was closed",
                ):
                    await client.call(ANY_NODE, DescribeClusterRequest(), deadline=soon())

        run(scenario())


def test_a_shorter_time_limit_reports_that_the_server_is_silent() -> None:
    with FakeServer(fake_servers.silent_server) as fake_server:

        async def scenario() -> None:
            async with network(fake_server.bootstrap) as client:
                patient = asyncio.ensure_future(client.call(ANY_NODE, DescribeClusterRequest(), deadline=soon()))
                await asyncio.get_running_loop().run_in_executor(None, fake_server.spoken_to.wait, 60.0)
                with pytest.raises(TimedOut, match="accepted the connection, but did not answer in time"):
                    await client.call(ANY_NODE, DescribeClusterRequest(), deadline=soon(0.01))
                patient.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await patient

        run(scenario())


def cluster_of(fake_server: FakeServer) -> MetadataResponse:
    host, _, port = fake_server.bootstrap.rpartition(":")
    broker = MetadataResponseBroker(node_id=7, host=host, port=int(port))
    return MetadataResponse(brokers=[broker], controller_id=7, cluster_id="fake_servers")


@pytest.mark.parametrize("highest", [0, 1, 2, 3])
def test_an_old_broker_is_asked_again_in_a_version_that_it_supports(highest: int) -> None:
    versions = fake_servers.everything(api_versions=(0, highest))
    with FakeServer(fake_servers.broker(versions, {ApiKey.METADATA: lambda _: cluster_of(fake_server)})) as fake_server:

        async def scenario() -> None:
            async with network(fake_server.bootstrap) as client:
                assert list((await client.refreshed(soon())).nodes) == [7]

        run(scenario())
        first = [version for key, version in fake_server.asked if key == ApiKey.API_VERSIONS][:2]
        assert first == [4, highest]


def test_a_broker_that_is_too_old_is_reported_with_its_versions_and_ours() -> None:
    with FakeServer(fake_servers.broker(fake_servers.everything(metadata=(0, 2)), {})) as fake_server:
        error = first_error(fake_server.bootstrap)
    assert isinstance(error, UnsupportedByBroker) and not error.retriable
    assert "serves Metadata in versions 0 to 2, but the client needs 4 to 13; the broker is too old" in str(error)


def test_an_api_that_the_broker_does_not_have_is_named() -> None:
    versions = fake_servers.everything()
    del versions[ApiKey.DESCRIBE_CLUSTER]
    with FakeServer(fake_servers.broker(versions, {ApiKey.METADATA: lambda _: cluster_of(fake_server)})) as fake_server:

        async def scenario() -> None:
            async with network(fake_server.bootstrap) as client:
                await client.refreshed(soon())
                with pytest.raises(UnsupportedByBroker, match=r"\(id 7\) does not serve DescribeCluster"):
                    await client.call(7, DescribeClusterRequest(), deadline=soon())

        run(scenario())


def test_one_good_address_among_bad_ones_is_enough(bootstrap: str) -> None:
    with FakeServer(fake_servers.web_server) as fake_server:

        async def scenario() -> None:
            async with network(f"127.0.0.1:1,{fake_server.bootstrap},{bootstrap}") as client:
                assert (await client.refreshed(soon())).nodes

        run(scenario())


@contextlib.contextmanager
def swallowing() -> Iterator[str]:
    """An address that neither accepts nor refuses connections: its queue is full, and the system drops further
    packets."""
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


def test_addresses_that_drop_packets_cost_no_time_out(bootstrap: str) -> None:
    with swallowing() as one, swallowing() as two:
        took_s = run(first_answer_s(f"{one},{two},{bootstrap}"))
    assert took_s < 5, "far less than socket.connection.setup.timeout.ms"


def test_a_silent_server_costs_no_time_out(bootstrap: str) -> None:
    with FakeServer(fake_servers.silent_server) as frozen:
        assert run(first_answer_s(f"{frozen.bootstrap},{bootstrap}")) < 10, "far less than request.timeout.ms"
