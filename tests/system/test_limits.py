"""Client limits: each gives a clear error or a closed connection, and other clients are not affected."""

from __future__ import annotations

import os
import socket
import struct
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from moldau.broker.connection.reply_memory import PER_CONNECTION_BYTES
from moldau.broker.handlers.fetch import RESPONSE_BYTES
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.header import encode_request_header
from moldau.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.wire.messages.fetch import FetchResponse
from tests.support.process import BrokerProcess
from tests.support.raw import ConnectionClosedError, RawConnection
from tests.support.waiting import wait_until
from tests.system import calls

PATIENCE_S = 10
IDLE_MS = 400
TIMER_S = 0.002
"""The timers of the event loop count whole milliseconds."""
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
def test_a_connection_beyond_the_limit_is_closed_and_a_closed_one_makes_room(
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
        wait_until(
            lambda: admitted(stack.enter_context(RawConnection(broker.bootstrap))),
            "a new connection takes the place of the closed one",
            PATIENCE_S,
        )
    assert broker.stop() == 0
    assert "connection refused" in broker.log


def test_an_idle_connection_is_closed_and_one_that_waits_for_an_answer_is_not(
    start: Callable[..., BrokerProcess],
) -> None:
    broker = start(connections_max_idle_ms=IDLE_MS)
    with RawConnection(broker.bootstrap) as idle, RawConnection(broker.bootstrap) as waiting:
        calls.create_topic(waiting, TOPIC)
        ping(idle)
        began = time.monotonic()
        assert calls.fetch(waiting, TOPIC, 0, 0, max_wait_ms=3 * IDLE_MS).error_code == ErrorCode.NONE
        assert time.monotonic() - began >= 3 * IDLE_MS / 1000 - TIMER_S
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


def test_requests_beyond_the_request_memory_wait_until_some_is_free(start: Callable[..., BrokerProcess]) -> None:
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
        frames.pop().connection.close()  # the memory reserved for it must be freed
        for frame in frames:
            frame.send_rest()
        offsets = {calls.produce_answer(frame.connection, 0).base_offset for frame in frames}
        assert offsets == set(range(len(frames)))


def framed(api: ApiKey, version: int, body: bytes, correlation_id: int = 0) -> bytes:
    """A complete request, as sent over the wire."""
    frame = encode_request_header(api, version, correlation_id, "raw") + body
    return struct.pack(">i", len(frame)) + frame


class Slowly:
    """A request that is sent piece by piece."""

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
"""The replies to these requests would be ten times larger."""


def test_a_client_that_requests_much_and_reads_nothing_costs_little_memory_and_blocks_no_other(
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
        for _ in range(20):  # when it reads at last, it gets all answers
            response = greedy.receive(ApiKey.FETCH, calls.FETCH_VERSION, FetchResponse, 0)
            assert len(calls.records_in(response.responses[0].partitions[0].records)) == RECORDS


COLD = "cold_reads_total"
PIPELINED = 100
BATCH_BYTES = 900_000
BATCHES = 4
"""Size of one answer. All answers together are more than three times the allowed growth of the broker."""


def evict(broker: BrokerProcess) -> None:
    """Remove the broker's logs from the page cache, so that the next read comes from the disk."""
    for path in broker.data.glob("*/*.log"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Metrics:
    """The metrics of a broker, read from its metrics page."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.port: int = server.getsockname()[1]

    def __getitem__(self, name: str) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=PATIENCE_S) as page:
            lines = page.read().decode().splitlines()
        return float(next(line for line in lines if line.startswith(f"moldau_{name} ")).split()[1])


def write_batches(connection: RawConnection) -> None:
    for _ in range(BATCHES):
        calls.produce(connection, TOPIC, 0, [b"x" * BATCH_BYTES])


def send_fetches(connection: RawConnection, **limits: int) -> range:
    """Send many fetches at once, each for all batches. Returns their correlation ids."""
    body = calls.fetch_request(TOPIC, 0, 0, **limits).encode(calls.FETCH_VERSION)
    ids = range(PIPELINED)
    connection.socket.sendall(b"".join(framed(ApiKey.FETCH, calls.FETCH_VERSION, body, one) for one in ids))
    return ids


@pytest.mark.parametrize("cold", [False, True], ids=["woken-together", "read-from-disk"])
def test_unread_answers_take_bounded_memory_and_arrive_in_order_when_they_are_read(
    cold: bool, start: Callable[..., BrokerProcess]
) -> None:
    metrics = Metrics()
    broker = start(moldau_metrics_port=metrics.port)
    with RawConnection(broker.bootstrap) as greedy, RawConnection(broker.bootstrap) as other:
        calls.create_topic(other, TOPIC)
        if cold:
            write_batches(other)
            evict(broker)
        before = psutil.Process(broker.pid).memory_info().rss
        ids = send_fetches(greedy, min_bytes=BATCHES * BATCH_BYTES, max_wait_ms=60_000)
        if cold:
            # On a tmpfs nothing is read ahead from a disk, and the first answer already stops the others.
            wait_until(lambda: metrics["reply_memory_bytes"] and (metrics["reply_memory_waits"] or not metrics[COLD]))
        else:
            wait_until(lambda: metrics["fetches_waiting"] == PIPELINED)
            write_batches(other)
            wait_until(lambda: metrics["reply_memory_waits"] >= PIPELINED - 10)
        began = time.monotonic()
        for _ in range(100):
            ping(other)
        assert time.monotonic() - began < PATIENCE_S
        assert metrics["reply_memory_bytes"] < PER_CONNECTION_BYTES + RESPONSE_BYTES
        assert psutil.Process(broker.pid).memory_info().rss - before < MAX_MEMORY_FOR_UNREAD_BYTES
        for correlation_id in ids:
            response = greedy.receive(ApiKey.FETCH, calls.FETCH_VERSION, FetchResponse, correlation_id)
            assert len(calls.records_in(response.responses[0].partitions[0].records)) == BATCHES
        wait_until(lambda: metrics["reply_memory_bytes"] == 0)


def test_a_reader_continues_batch_by_batch_when_others_have_filled_the_memory_for_answers(
    start: Callable[..., BrokerProcess],
) -> None:
    metrics = Metrics()
    broker = start(moldau_metrics_port=metrics.port, moldau_queued_max_response_bytes=100_000)
    with RawConnection(broker.bootstrap) as greedy, RawConnection(broker.bootstrap) as other:
        calls.create_topic(other, TOPIC)
        write_batches(other)
        assert len(calls.records_in(calls.fetch(other, TOPIC, 0, 0).records)) == BATCHES
        send_fetches(greedy)
        wait_until(lambda: metrics["reply_memory_bytes"] > metrics["reply_memory_limit_bytes"])
        for offset in range(BATCHES):
            assert [one.offset for one in calls.records_in(calls.fetch(other, TOPIC, 0, offset).records)] == [offset]
        greedy.close()
        wait_until(lambda: metrics["reply_memory_bytes"] == 0)
        assert len(calls.records_in(calls.fetch(other, TOPIC, 0, 0).records)) == BATCHES
