"""Large partitions: reading 1 MB from the middle and appending, at 10 GB compared with 10 MB.

Both logs are filled through the broker with batches of 16 KB. The data is in the page cache in both cases; otherwise
the benchmark would measure the disk. The cost is the broker's CPU time per request; the client's waiting time is in the
note.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass

from bench import frames
from bench.harness import HOST, MB, Broker, Context, Row, median

RECORDS_PER_BATCH = 150  # 16 KB
READ_BYTES = 1_000_000
IN_FLIGHT = 20
MOST_RATIO = 1.2
SMALL_BYTES = 10_000_000
BIG_BYTES = 10_000_000_000
BIG_BYTES_QUICK = 1_500_000_000


@dataclass(frozen=True)
class Cost:
    """Cost per request, in microseconds."""

    cpu: float
    wait: float


def run(context: Context) -> Iterator[Row]:
    big_bytes = context.sized(BIG_BYTES, BIG_BYTES_QUICK)
    rounds = context.sized(7, 3)
    batch = frames.batch(RECORDS_PER_BATCH)
    batches = {"small": SMALL_BYTES // len(batch), "big": big_bytes // len(batch)}
    reads: dict[str, list[Cost]] = {"small": [], "big": []}
    appends: dict[str, list[Cost]] = {"small": [], "big": []}
    with context.broker() as broker:
        for topic, count in batches.items():
            broker.create_topic(topic, 1)
            began = time.perf_counter()
            _append(broker, topic, batch, count)
            context.say(f"{count * len(batch) / MB:,.0f} MB written in {time.perf_counter() - began:.0f} s")
        for topic, count in batches.items():
            _read(broker, topic, count, 50)  # load the data for the later reads into the page cache
        for turn in range(rounds):
            # Alternate, so that a slow minute of the machine affects both.
            for topic in sorted(batches, reverse=bool(turn % 2)):
                reads[topic].append(_read(broker, topic, batches[topic], 300))
        for turn in range(rounds):
            for topic in sorted(batches, reverse=bool(turn % 2)):
                appends[topic].append(_append(broker, topic, batch, 500))
    size = f"{big_bytes / 1e9:g} GB"
    yield _row(f"Reading 1 MB from the middle of {size}", reads)
    yield _row(f"Appending to {size}", appends)


def _row(name: str, costs: dict[str, list[Cost]]) -> Row:
    cpu = {topic: median([cost.cpu for cost in found]) for topic, found in costs.items()}
    wait = {topic: median([cost.wait for cost in found]) for topic, found in costs.items()}
    note = (
        f"broker CPU {cpu['big']:.0f} against {cpu['small']:.0f} µs; the client waits {wait['big']:.0f} against "
        f"{wait['small']:.0f} µs ({wait['big'] / wait['small']:.2f} x)"
    )
    return Row(name, cpu["big"] / cpu["small"], "x of 10 MB", MOST_RATIO, note=note)


def _read(broker: Broker, topic: str, batches: int, times: int) -> Cost:
    """Read 1 MB at offsets around the middle, one request after another."""
    middle = batches * RECORDS_PER_BATCH // 2
    # The same spread of offsets for both sizes, and always at least 1 MB before the end.
    offsets = [middle - 10_000 + (step * 7_919) % 20_000 for step in range(times)]
    requests = [frames.fetch(topic, 0, offset, max_bytes=READ_BYTES) for offset in offsets]
    with frames.connect(HOST, broker.port) as connection:
        before, began = broker.cpu_seconds(), time.perf_counter()
        for request in requests:
            code, size = frames.fetched(frames.call(connection, request))
            assert code == 0
            assert size > READ_BYTES * 0.9, f"only {size} bytes arrived"
        return _cost(broker, before, began, times)


def _append(broker: Broker, topic: str, batch: bytes, times: int) -> Cost:
    request = frames.produce(topic, 0, batch)
    with frames.connect(HOST, broker.port) as connection:
        before, began = broker.cpu_seconds(), time.perf_counter()
        for _ in range(min(IN_FLIGHT, times)):
            connection.sendall(request)
        for sent in range(times):
            _check(connection)
            if sent + IN_FLIGHT < times:
                connection.sendall(request)
        return _cost(broker, before, began, times)


def _check(connection: socket.socket) -> None:
    code = frames.produce_error(frames.receive(connection))
    assert code == 0, f"produce answered {code}"


def _cost(broker: Broker, cpu_before: float, began: float, times: int) -> Cost:
    wait = (time.perf_counter() - began) / times * 1e6
    return Cost((broker.cpu_seconds() - cpu_before) / times * 1e6, wait)
