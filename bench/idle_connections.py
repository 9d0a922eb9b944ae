"""Idle connections: memory of 5,000 of them, and their effect on the p99 of one active client."""

from __future__ import annotations

import gc
import socket
import time
from collections.abc import Iterator

from bench import frames
from bench.harness import HOST, Broker, Context, Row, median, percentile

CONNECTIONS = 5_000
MOST_MB = 40
MOST_P99_RATIO = 1.5
TOPIC = "working"
WARM_UP_CALLS = 300
CALLS = 3_000


def run(context: Context) -> Iterator[Row]:
    windows = context.sized(9, 4)
    grown, alone, beside = [], [], []
    with context.broker() as broker:
        broker.create_topic(TOPIC, 1)
        _p99_us(broker)
        # Alternate, so that a slow minute of the machine affects both.
        for _ in range(windows):
            alone.append(_p99_us(broker))
            before = broker.memory_mb()
            idle = [_connect(broker) for _ in range(CONNECTIONS)]
            grown.append(broker.memory_mb() - before)
            beside.append(_p99_us(broker))
            for connection in idle:
                connection.close()
    ratio = median(beside) / median(alone)
    context.say(f"5,000 idle connections: {grown[0]:.1f} MB, p99 {ratio:.2f} x")
    # Only the first round allocates memory; later ones reuse what was freed.
    note = "each has sent one ApiVersions request"
    yield Row("5,000 idle connections: memory", grown[0], "MB more", MOST_MB, note=note)
    note = (
        f"p99 of one record in flight: {median(alone):.0f} µs alone, {median(beside):.0f} µs beside; {windows} windows"
    )
    yield Row("5,000 idle connections: a working client's p99", ratio, "x alone", MOST_P99_RATIO, note=note)


def _connect(broker: Broker) -> socket.socket:
    connection = frames.connect(HOST, broker.port)
    frames.call(connection, frames.api_versions())
    return connection


def _p99_us(broker: Broker) -> float:
    frame = frames.produce(TOPIC, 0, frames.batch(1))
    taken = []
    gc.disable()
    try:
        with frames.connect(HOST, broker.port) as connection:
            for _ in range(WARM_UP_CALLS):
                frames.call(connection, frame)
            for _ in range(CALLS):
                began = time.perf_counter_ns()
                frames.call(connection, frame)
                taken.append((time.perf_counter_ns() - began) / 1000)
    finally:
        gc.enable()
    return percentile(taken, 0.99)
