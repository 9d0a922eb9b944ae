"""Clients that disconnect silently, in the middle of a request, or are slow: the broker is not affected."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import struct
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.broker.requests.handler_registry import HANDLERS
from moldau.host.event_log import event_of
from moldau.wire.api import APIS, ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.header import encode_request_header
from moldau.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.support.process import BrokerProcess
from tests.support.raw import ConnectionClosedError, RawConnection
from tests.support.waiting import wait_until, wait_until_async
from tests.system import calls
from tests.system.in_process_broker import InProcessBroker, Machine
from tests.system.test_limits import framed, ping

TOPIC = "orders"
UNSERVED = next(api for api in APIS.values() if api.key not in HANDLERS)
PATIENCE_S = 10
LONG_POLL_MS = 600_000
RESET = struct.pack("ii", 1, 0)
"""A value for SO_LINGER: close with a reset instead of a FIN."""


def wait_on_loop(broker: InProcessBroker, condition: Callable[[], bool]) -> None:
    """Wait for a condition that is evaluated on the broker's own loop."""
    assert broker.broker is not None
    waiting = wait_until_async(condition, timeout_s=PATIENCE_S)
    asyncio.run_coroutine_threadsafe(waiting, broker.broker.loop).result()


@pytest.mark.parametrize("clean_close", [True, False], ids=["close", "reset"])
def test_a_waiting_consumer_that_disconnects_is_forgotten(tmp_path: Path, clean_close: bool) -> None:
    with InProcessBroker(Machine().fs, tmp_path) as broker, RawConnection(broker.bootstrap) as admin:
        assert broker.broker is not None
        delayed, connections = broker.broker.delayed_fetches, broker.broker.connections
        calls.create_topic(admin, TOPIC)
        for _ in range(3):
            consumer = RawConnection(broker.bootstrap)
            request = calls.fetch_request(TOPIC, 0, 0, max_wait_ms=LONG_POLL_MS).encode(calls.FETCH_VERSION)
            for _ in range(10):
                consumer.send(ApiKey.FETCH, calls.FETCH_VERSION, request)
            wait_on_loop(broker, lambda: delayed.waiting == 10)
            if not clean_close:
                consumer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            consumer.close()
            wait_on_loop(broker, lambda: delayed.waiting == 0 and len(connections) == 1)
        assert broker.handler_failures == 0


@pytest.mark.parametrize(
    ("key", "version", "told"),
    [
        (ApiKey.CREATE_TOPICS, 1, "CreateTopics version 1 is not served, versions 2 to 7 are"),
        (ApiKey.CREATE_TOPICS, 99, "CreateTopics version 99 is not served, versions 2 to 7 are"),
        (UNSERVED.key, 1, f"{UNSERVED.name} version 1 is not served, nor is any other version"),
        (4711, 0, "API key 4711 version 0 is not served, there is no such API"),
    ],
)
def test_an_api_or_version_that_is_not_served_is_named_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, key: int, version: int, told: str
) -> None:
    caplog.set_level(
        logging.WARNING, "moldau.broker.connection.connection_limits"
    )  # a broker of another test may have disabled the logger
    with InProcessBroker(Machine().fs, tmp_path) as broker:
        assert broker.broker is not None
        with RawConnection(broker.bootstrap) as client:
            client.send_frame(struct.pack(">hhih6s", key, version, 1, 6, b"client"))
            with pytest.raises(ConnectionClosedError):
                client.receive_frame()
        (line,) = [record for record in caplog.records if record.levelname == "WARNING"]
        assert event_of(line) == "API not served, connection closed"
        assert (line.reason, line.client.partition(":")[0]) == (told, "127.0.0.1")  # type: ignore[attr-defined]
        metrics = broker.broker.metrics
        assert (metrics.unsupported_versions, metrics.malformed_requests) == (1, 0)


def test_a_client_that_disconnects_before_its_request_starts_leaves_no_coroutine(tmp_path: Path) -> None:
    request = FindCoordinatorRequest(key="group").encode(3)
    frame = encode_request_header(ApiKey.FIND_COORDINATOR, 3, 1, "hasty") + request
    with InProcessBroker(Machine().fs, tmp_path) as broker, RawConnection(broker.bootstrap) as client:
        ping(client)
        assert broker.broker is not None
        connections = broker.broker.connections
        (session,) = connections

        def ask_and_leave() -> None:
            transport = session.transport
            assert transport is not None
            session.frame_received(memoryview(frame))
            session.connection_lost(None)
            transport.abort()

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            broker.broker.loop.call_soon_threadsafe(ask_and_leave)
            wait_on_loop(broker, lambda: len(connections) == 0)
            broker.broker.loop.call_soon_threadsafe(gc.collect)
            wait_on_loop(broker, lambda: True)  # two turns of the loop after the connection was lost
        assert [str(one.message) for one in caught] == []
        assert broker.handler_failures == 0


def test_a_request_whose_work_was_cancelled_closes_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    request = FindCoordinatorRequest(key="group")
    with InProcessBroker(Machine().fs, tmp_path) as broker, RawConnection(broker.bootstrap) as client:
        assert broker.broker is not None
        monkeypatch.setattr(broker.broker.groups.runtime, "ensure_topic", cancelled)
        with pytest.raises(ConnectionClosedError):
            client.call(ApiKey.FIND_COORDINATOR, 3, request, FindCoordinatorResponse)


def test_a_topic_is_created_completely_although_its_client_disconnects(broker: BrokerProcess) -> None:
    partitions = 100
    with RawConnection(broker.bootstrap) as admin:
        for number in range(5):
            name = f"{TOPIC}-{number}"
            topic = CreateTopicsRequestTopic(name=name, num_partitions=partitions, replication_factor=1)
            request = CreateTopicsRequest(topics=[topic], timeout_ms=calls.TIMEOUT_MS)
            with RawConnection(broker.bootstrap) as hasty:
                hasty.send(ApiKey.CREATE_TOPICS, 7, request.encode(7))
            wait_until(
                lambda name=name: (
                    calls.metadata(admin, name).topics[0].error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                ),
                "the topic is created although the client has left",
                PATIENCE_S,
            )
            calls.create_topic(admin, f"after-{number}")  # the request is still carried out
            for partition in range(partitions):
                assert calls.produce(admin, name, partition, [b"value"]) == 0
    assert "Traceback" not in broker.log


def test_a_client_that_disconnects_in_the_middle_of_a_request_leaves_nothing(broker: BrokerProcess) -> None:
    with RawConnection(broker.bootstrap) as good:
        calls.create_topic(good, TOPIC)
        whole = framed(ApiKey.PRODUCE, calls.PRODUCE_VERSION, calls.produce_body(TOPIC, 0, calls.batch_of([b"half"])))
        for size in range(1, len(whole)):
            with RawConnection(broker.bootstrap) as rude:
                rude.socket.sendall(whole[:size])
            ping(good)  # no more connections at a time than the listen queue holds
        assert calls.offset_of(good, TOPIC, 0) == 0
        assert calls.produce(good, TOPIC, 0, [b"whole"]) == 0
    assert "Traceback" not in broker.log


def test_a_client_may_send_a_byte_at_a_time(broker: BrokerProcess) -> None:
    with RawConnection(broker.bootstrap) as good, RawConnection(broker.bootstrap) as slow:
        calls.create_topic(good, TOPIC)
        body = calls.produce_body(TOPIC, 0, calls.batch_of([b"value"]))
        for byte in framed(ApiKey.PRODUCE, calls.PRODUCE_VERSION, body):
            slow.socket.sendall(bytes([byte]))
            ping(good)
        assert calls.produce_answer(slow, 0).error_code == ErrorCode.NONE
        assert [record.value for record in calls.read_all(good, TOPIC, 0)] == [b"value"]
