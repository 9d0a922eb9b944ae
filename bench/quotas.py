"""Quotas: how exactly a greedy client is held to its rate, and what a greedy client costs a modest one.

The rate is measured at the broker, over ten seconds from the client's first byte on, so the beginning counts. The
modest client sends one small request at a time, at a fixed pace. Its latency is measured alone, beside a greedy client
without a quota, and beside one with a quota. The three alternate in rounds, so that other load on the machine affects
all of them.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from bench import frames, kcat
from bench.harness import HOST, Broker, Context, Row, free_port, median, percentile, spread

RATE = 5_000_000
"""Bytes per second."""
WINDOW_S = 10.0
MOST_DEVIATION = 5.0
MOST_SLOWER = 1.5

PACE_S = 0.005
ROUND_S, ROUND_QUICK_S = 8.0, 4.0
GREEDY_BATCH = 100
GREEDY_RECORD = 10_000

_POLL_S = 0.01
_TIMEOUT_S = 60.0


class Gauge:
    """Counters of the broker's metrics page."""

    def __init__(self, port: int) -> None:
        self._address = f"http://{HOST}:{port}/"

    def read(self, line: str) -> float:
        """The value of the line of the page that begins so."""
        with urllib.request.urlopen(self._address, timeout=_TIMEOUT_S) as page:
            for found in page.read().decode().splitlines():
                if found.startswith(line):
                    return float(found.rpartition(" ")[2])
        return 0.0

    def rate(self, line: str, seconds: float) -> float:
        """The increase per second, over this time after the first change."""
        before = self.read(line)
        deadline = time.monotonic() + _TIMEOUT_S
        while self.read(line) == before:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{line} did not change within {_TIMEOUT_S:.0f} s")
            time.sleep(_POLL_S)
        began = time.monotonic()
        time.sleep(seconds)
        return (self.read(line) - before) / (time.monotonic() - began)


PRODUCED = 'moldau_request_bytes_total{api="Produce"}'
FETCHED = "moldau_bytes_out_total"


def run(context: Context) -> Iterator[Row]:
    if shutil.which("kcat") is None:
        raise kcat.KcatMissingError("kcat is not installed")
    port = free_port()
    with context.broker(f"moldau.metrics.port={port}") as broker:
        broker.create_topic("t", 3)
        gauge = Gauge(port)
        _limit(broker, {"limited": {"producer_byte_rate": RATE, "consumer_byte_rate": RATE}})
        yield from _rates(context, broker, gauge)
        yield from _neighbours(context, broker)


def _limit(broker: Broker, quotas: dict[str, dict[str, float | None]]) -> None:
    from moldau import Admin
    from moldau.client.admin import QuotaEntity

    with Admin(bootstrap_servers=broker.address) as admin:
        admin.alter_client_quotas({QuotaEntity(client_id=name): values for name, values in quotas.items()})


# Rates ----------------------------------------------------------------------------------------------------------------

Client = Callable[[Context, Broker], AbstractContextManager[None]]


def _rates(context: Context, broker: Broker, gauge: Gauge) -> Iterator[Row]:
    clients: list[tuple[str, str, Client]] = [
        ("produce, kcat", PRODUCED, _kcat_producer),
        ("produce, confluent-kafka", PRODUCED, _confluent_producer),
        ("fetch, kcat", FETCHED, _kcat_consumer),
        ("fetch, confluent-kafka", FETCHED, _confluent_consumer),
    ]
    kcat.produce(broker.address, "t", context.lines(2_000_000), ())
    for label, counter, client in clients:
        deviations = []
        for _ in range(context.sized(3, 1)):
            time.sleep(1)  # the client before has ended, and its debt is paid
            with client(context, broker):
                found = gauge.rate(counter, WINDOW_S)
            deviations.append((found / RATE - 1) * 100)
            context.say(f"{label}: {found / 1e6:.3f} MB/s, {deviations[-1]:+.1f} %")
        worst = max(deviations, key=abs)
        note = f"{RATE / 1e6:.0f} MB/s over {WINDOW_S:.0f} s from the first byte on; signed {spread(deviations)} %"
        yield Row(f"Quota held: {label}", abs(worst), "% off the rate", MOST_DEVIATION, False, note)


@contextmanager
def _process(*command: str) -> Iterator[None]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _kcat_producer(context: Context, broker: Broker) -> AbstractContextManager[None]:
    lines = str(context.lines(2_000_000))
    return _process("kcat", "-P", "-b", broker.address, "-t", "t", "-l", lines, "-X", "client.id=limited")


def _kcat_consumer(context: Context, broker: Broker) -> AbstractContextManager[None]:
    shape = ("-o", "beginning", "-q", "-f", "")
    return _process("kcat", "-C", "-b", broker.address, "-t", "t", *shape, "-X", "client.id=limited")


@contextmanager
def _thread(work: Callable[[threading.Event], None]) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _confluent_producer(context: Context, broker: Broker) -> AbstractContextManager[None]:
    from confluent_kafka import Producer

    def send(stop: threading.Event) -> None:
        producer = Producer({"bootstrap.servers": broker.address, "client.id": "limited", "log_level": 3})
        while not stop.is_set():
            try:
                producer.produce("t", b"x" * 1000)
            except BufferError:
                producer.poll(0.05)
        producer.purge()
        producer.flush(5)

    return _thread(send)


def _confluent_consumer(context: Context, broker: Broker) -> AbstractContextManager[None]:
    from confluent_kafka import Consumer, TopicPartition

    def read(stop: threading.Event) -> None:
        consumer = Consumer(
            {"bootstrap.servers": broker.address, "client.id": "limited", "group.id": "bench", "log_level": 3}
        )
        consumer.assign([TopicPartition("t", partition, 0) for partition in range(3)])
        while not stop.is_set():
            consumer.consume(1000, 0.1)
        consumer.close()

    return _thread(read)


# Neighbours -----------------------------------------------------------------------------------------------------------


def _neighbours(context: Context, broker: Broker) -> Iterator[Row]:
    broker.create_topic("modest", 1)
    broker.create_topic("greedy", 1, retention_bytes="200000000", segment_bytes="50000000")
    seconds = ROUND_QUICK_S if context.quick else ROUND_S
    found: dict[str, list[float]] = {"alone": [], "unlimited": [], "limited": []}
    _modest_p99(broker, 1.0)
    for _ in range(context.repeats):
        for name, times in found.items():
            rate = RATE if name == "limited" else None
            _limit(broker, {"greedy": {"producer_byte_rate": rate}})
            beside = contextlib.nullcontext() if name == "alone" else _greedy(broker)
            with beside:
                times.append(_modest_p99(broker, seconds) * 1e6)
            context.say(f"modest client, {name}: p99 {times[-1]:.0f} µs")
    alone = median(found["alone"])
    for name, label in (("unlimited", "without a quota"), ("limited", f"with a quota of {RATE / 1e6:.0f} MB/s")):
        ratios = [busy / quiet for busy, quiet in zip(found[name], found["alone"], strict=True)]
        note = (
            f"p99 {median(found[name]):.0f} ({spread(found[name])}) against {alone:.0f} ({spread(found['alone'])}) µs; "
            f"ratios {spread(ratios)}"
        )
        yield Row(
            f"Modest client beside a greedy one {label}, p99", median(ratios), "x alone", MOST_SLOWER, False, note
        )


def _modest_p99(broker: Broker, seconds: float) -> float:
    """The latency of one small produce request every `PACE_S`, without a change of the pace by slow answers."""
    request = frames.produce("modest", 0, frames.batch(1))
    times = []
    with frames.connect(HOST, broker.port) as connection:
        frames.call(connection, request)
        due = time.perf_counter()
        end = due + seconds
        while due < end:
            due += PACE_S
            wait = due - time.perf_counter()
            if wait > 0:
                time.sleep(wait)
            began = time.perf_counter()
            frames.call(connection, request)
            times.append(time.perf_counter() - began)
    return percentile(times, 0.99)


@contextmanager
def _greedy(broker: Broker) -> Iterator[None]:
    """A client in a process of its own that sends large requests as fast as they are answered."""
    process = multiprocessing.get_context("spawn").Process(target=_send_greedily, args=(broker.port,), daemon=True)
    process.start()
    try:
        with frames.connect(HOST, broker.port) as connection:
            deadline = time.monotonic() + _TIMEOUT_S
            while _end_offset(connection, "greedy") == 0 and time.monotonic() < deadline:
                time.sleep(_POLL_S)
        yield
    finally:
        process.kill()
        process.join()


def _end_offset(connection: socket.socket, topic: str) -> int:
    answer = frames.call(connection, frames.latest_offsets(topic, [0]))
    return int.from_bytes(answer[-8:], "big", signed=True)


def _send_greedily(port: int) -> None:
    """Two requests of 1 MB are always in flight."""
    request = frames.produce("greedy", 0, frames.batch(GREEDY_BATCH, GREEDY_RECORD), client_id=b"greedy")
    with frames.connect(HOST, port) as connection, contextlib.suppress(OSError):
        connection.settimeout(_TIMEOUT_S)
        connection.sendall(request)
        while True:
            connection.sendall(request)
            frames.receive(connection)
