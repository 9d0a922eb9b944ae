"""Clients that leave without a word, in the middle of one, or take their time: the broker is none the worse."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from tests.support.process import BrokerProcess
from tests.support.raw import RawConnection
from tests.system import calls
from tests.system.in_process import InProcessBroker, Machine
from tests.system.test_limits import framed, ping

TOPIC = "orders"
PATIENCE_S = 10
LONG_POLL_MS = 600_000
RESET = struct.pack("ii", 1, 0)
"""For SO_LINGER: close with a reset instead of a farewell."""


def eventually(broker: InProcessBroker, condition: Callable[[], bool]) -> bool:
    """Whether the condition came true, looked at again and again on the broker's own loop."""
    assert broker.broker is not None
    loop = broker.broker.loop
    true = threading.Event()

    def look() -> None:
        if condition():
            true.set()
        else:
            loop.call_later(0.001, look)

    loop.call_soon_threadsafe(look)
    return true.wait(PATIENCE_S)


@pytest.mark.parametrize("farewell", [True, False], ids=["close", "reset"])
def test_a_consumer_that_leaves_while_it_waits_is_forgotten(tmp_path: Path, farewell: bool) -> None:
    with InProcessBroker(Machine().fs, tmp_path) as broker, RawConnection(broker.bootstrap) as admin:
        assert broker.broker is not None
        delayed, connections = broker.broker.delayed_fetches, broker.broker.connections
        calls.create_topic(admin, TOPIC)
        for _ in range(3):
            consumer = RawConnection(broker.bootstrap)
            request = calls.fetch_request(TOPIC, 0, 0, max_wait_ms=LONG_POLL_MS).encode(calls.FETCH_VERSION)
            for _ in range(10):
                consumer.send(ApiKey.FETCH, calls.FETCH_VERSION, request)
            assert eventually(broker, lambda: delayed.waiting == 10)
            if not farewell:
                consumer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            consumer.close()
            assert eventually(broker, lambda: delayed.waiting == 0 and len(connections) == 1)
        assert broker.handler_failures == 0


def test_a_topic_is_created_as_a_whole_though_nobody_waits_for_the_answer(broker: BrokerProcess) -> None:
    partitions = 100
    with RawConnection(broker.bootstrap) as admin:
        for number in range(5):
            name = f"{TOPIC}-{number}"
            topic = CreateTopicsRequestTopic(name=name, num_partitions=partitions, replication_factor=1)
            request = CreateTopicsRequest(topics=[topic], timeout_ms=calls.TIMEOUT_MS)
            with RawConnection(broker.bootstrap) as hasty:
                hasty.send(ApiKey.CREATE_TOPICS, 7, request.encode(7))
            deadline = time.monotonic() + PATIENCE_S
            while calls.metadata(admin, name).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                assert time.monotonic() < deadline, "the request was dropped with its client"
            calls.create_topic(admin, f"after-{number}")  # is carried out after it
            for partition in range(partitions):
                assert calls.produce(admin, name, partition, [b"value"]) == 0
    assert "Traceback" not in broker.log


def test_a_client_that_leaves_in_the_middle_of_a_request_leaves_nothing_behind(broker: BrokerProcess) -> None:
    with RawConnection(broker.bootstrap) as good:
        calls.create_topic(good, TOPIC)
        whole = framed(ApiKey.PRODUCE, calls.PRODUCE_VERSION, calls.produce_body(TOPIC, 0, calls.batch_of([b"half"])))
        for size in range(1, len(whole)):
            with RawConnection(broker.bootstrap) as rude:
                rude.socket.sendall(whole[:size])
            ping(good)  # and no more of them at a time than the listen queue holds
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
