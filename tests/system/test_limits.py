"""Limits on what clients may take: each is met by a clear answer or a closed connection, and others do not notice."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.header import encode_request_header
from moldau.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.wire.messages.fetch import FetchResponse
from tests.support.process import BrokerProcess
from tests.support.raw import ConnectionClosedError, RawConnection
from tests.system import calls

PATIENCE_S = 10
IDLE_MS = 400
REQUEST_BYTES = 20_000
TOPIC = "orders"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """`start(name=value...)`: a broker with these settings; underscores stand for dots."""
    with ExitStack() as stack:

        def start_with(**settings: object) -> BrokerProcess:
            texts = {name.replace("_", "."): str(value) for name, value in settings.items()}
            return stack.enter_context(BrokerProcess(tmp_path / "data", texts))

        yield start_with


def ping(connection: RawConnection) -> None:
    answer = connection.call(ApiKey.API_VERSIONS, 0, ApiVersionsRequest(), ApiVersionsResponse)
    assert answer.error_code == ErrorCode.NONE


def admitted(connection: RawConnection) -> bool:
    try:
        ping(connection)
    except (ConnectionClosedError, ConnectionError):
        return False
    return True


@contextmanager
def soon(what: str) -> Iterator[Callable[[bool], bool]]:
    """`while not done(condition): ...` that fails when it takes too long."""
    deadline = time.monotonic() + PATIENCE_S

    def done(condition: bool) -> bool:
        assert condition or time.monotonic() < deadline, what
        return condition

    yield done


# Connections ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"max_connections": 3},
        {"max_connections_per_ip": 3},
        {"max_connections_per_ip": 1, "max_connections_per_ip_overrides": "127.0.0.1:3"},
    ],
    ids=["in-all", "of-one-address", "of-one-address-by-override"],
)
def test_a_connection_too_many_is_closed_and_one_that_ends_makes_room(
    start: Callable[..., BrokerProcess], settings: dict[str, object]
) -> None:
    broker = start(**settings)
    with ExitStack() as stack:
        connections = [stack.enter_context(RawConnection(broker.bootstrap)) for _ in range(3)]
        for connection in connections:
            ping(connection)
        with RawConnection(broker.bootstrap) as one_too_many:
            assert not admitted(one_too_many)
        for connection in connections:
            ping(connection)
        connections.pop().close()
        with soon("the place that was given up stays taken") as done:
            while not done(admitted(stack.enter_context(RawConnection(broker.bootstrap)))):
                pass
    assert broker.stop() == 0
    assert "connection refused" in broker.log


def test_a_connection_without_a_word_is_closed_and_one_that_waits_for_an_answer_is_not(
    start: Callable[..., BrokerProcess],
) -> None:
    broker = start(connections_max_idle_ms=IDLE_MS)
    with RawConnection(broker.bootstrap) as idle, RawConnection(broker.bootstrap) as waiting:
        calls.create_topic(waiting, TOPIC)
        ping(idle)
        began = time.monotonic()
        assert calls.fetch(waiting, TOPIC, 0, 0, max_wait_ms=3 * IDLE_MS).error_code == ErrorCode.NONE
        assert time.monotonic() - began >= 3 * IDLE_MS / 1000
        assert idle.closed_by_peer()


# Requests -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_requests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"socket.request.max.bytes": str(REQUEST_BYTES)}
    with BrokerProcess(tmp_path_factory.mktemp("small-requests"), settings) as process:
        yield process


@pytest.mark.parametrize("size", [REQUEST_BYTES + 1, 0x7FFFFFFF, -1, -0x80000000])
def test_a_request_of_impossible_size_closes_its_connection_before_it_is_received(
    small_requests: BrokerProcess, size: int
) -> None:
    bootstrap = small_requests.bootstrap
    with RawConnection(bootstrap) as good, RawConnection(bootstrap) as bad:
        ping(good)
        ping(bad)
        bad.socket.sendall(struct.pack(">i", size))
        assert bad.closed_by_peer()
        ping(good)


def test_a_request_of_just_the_allowed_size_is_served(small_requests: BrokerProcess) -> None:
    with RawConnection(small_requests.bootstrap) as connection:
        calls.create_topic(connection, TOPIC)
        value = b"x" * (REQUEST_BYTES - 500)
        body = calls.produce_body(TOPIC, 0, calls.batch_of([value]))
        value += b"x" * (REQUEST_BYTES + 4 - len(framed(ApiKey.PRODUCE, calls.PRODUCE_VERSION, body)))
        assert calls.produce(connection, TOPIC, 0, [value]) == 0
        with pytest.raises(ConnectionClosedError):
            calls.produce(connection, TOPIC, 0, [value + b"x"])


def test_requests_beyond_the_limit_in_flight_wait_and_are_answered_in_order(
    start: Callable[..., BrokerProcess],
) -> None:
    broker = start(moldau_max_inflight_requests_per_connection=4)
    with RawConnection(broker.bootstrap) as connection:
        calls.create_topic(connection, TOPIC)
        request = calls.fetch_request(TOPIC, 0, 0, max_wait_ms=50)
        ids = [
            connection.send(ApiKey.FETCH, calls.FETCH_VERSION, request.encode(calls.FETCH_VERSION)) for _ in range(30)
        ]
        for correlation_id in ids:
            connection.receive(ApiKey.FETCH, calls.FETCH_VERSION, FetchResponse, correlation_id)


def test_requests_beyond_the_memory_for_them_wait_until_there_is_some(start: Callable[..., BrokerProcess]) -> None:
    megabyte = 1 << 20
    broker = start(socket_request_max_bytes=megabyte, queued_max_request_bytes=megabyte * 3 // 2)
    body = calls.produce_body(TOPIC, 0, calls.batch_of([b"x" * (megabyte - 1000)]))
    with ExitStack() as stack:
        connections = [stack.enter_context(RawConnection(broker.bootstrap)) for _ in range(6)]
        calls.create_topic(connections[0], TOPIC, configs={"max.message.bytes": str(2 * megabyte)})
        data = framed(ApiKey.PRODUCE, calls.PRODUCE_VERSION, body)
        frames = [Slowly(connection, data) for connection in connections]
        for frame in frames:
            frame.send(len(body) // 2)
        frames.pop().connection.close()  # what was set aside for it must come back
        for frame in frames:
            frame.send_rest()
        offsets = {calls.produce_answer(frame.connection, 0).base_offset for frame in frames}
        assert offsets == set(range(len(frames)))


def framed(api: ApiKey, version: int, body: bytes, correlation_id: int = 0) -> bytes:
    """A whole request as it goes over the wire."""
    frame = encode_request_header(api, version, correlation_id, "raw") + body
    return struct.pack(">i", len(frame)) + frame


class Slowly:
    """A request that is sent bit by bit."""

    def __init__(self, connection: RawConnection, data: bytes) -> None:
        self.connection = connection
        self._data = data
        self._sent = 0

    def send(self, size: int) -> None:
        self.connection.socket.sendall(self._data[self._sent : self._sent + size])
        self._sent += size

    def send_rest(self) -> None:
        self.send(len(self._data) - self._sent)


# Replies --------------------------------------------------------------------------------------------------------------

RECORDS = 10
UNREAD_REQUESTS = 1_000
MAX_MEMORY_FOR_UNREAD_BYTES = 100 << 20
"""The replies to them would be ten times that."""


def test_a_client_that_asks_for_much_and_reads_nothing_costs_little_and_holds_up_nobody(
    start: Callable[..., BrokerProcess],
) -> None:
    broker = start()
    with RawConnection(broker.bootstrap) as greedy, RawConnection(broker.bootstrap) as other:
        calls.create_topic(other, TOPIC)
        for _ in range(RECORDS):
            calls.produce(other, TOPIC, 0, [b"x" * 100_000])
        before = psutil.Process(broker.pid).memory_info().rss
        request = calls.fetch_request(TOPIC, 0, 0).encode(calls.FETCH_VERSION)
        greedy.socket.sendall(framed(ApiKey.FETCH, calls.FETCH_VERSION, request) * UNREAD_REQUESTS)
        began = time.monotonic()
        for _ in range(100):
            ping(other)
        assert time.monotonic() - began < PATIENCE_S
        growth = psutil.Process(broker.pid).memory_info().rss - before
        assert growth < MAX_MEMORY_FOR_UNREAD_BYTES
        for _ in range(20):  # once it does read, it gets what it asked for
            response = greedy.receive(ApiKey.FETCH, calls.FETCH_VERSION, FetchResponse, 0)
            assert len(calls.records_in(response.responses[0].partitions[0].records)) == RECORDS
