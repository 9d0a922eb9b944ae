"""REST proxy: records produced by API v3 in batches, and followers of one topic by server-sent events.

Broker, proxy and clients are processes of their own. The clients send bodies that were made before: JSON records of
about 100 bytes, 1,000 in each request. The followers read over plain sockets; the time of the proxy's process is
measured while single records are written at a fixed rate, and every follower must have received every record.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from urllib.request import urlopen

import psutil

from bench.harness import Context, Row, create_topic, median, percentile, raise_file_limit, settle, spread
from moldau import Producer

BATCH = 1_000
CLIENTS = 2
RECORDS, RECORDS_QUICK = 300_000, 60_000
LEAST_PER_S = 30_000
FOLLOWERS = 1_000
EVENTS_PER_S = 10
EVENTS, EVENTS_QUICK = 200, 60
CORES = 1.0
START_TIMEOUT_S = 60.0


@contextmanager
def _proxy(address: str) -> Iterator[tuple[int, psutil.Process]]:
    """The port and the process of a proxy."""
    command = [sys.executable, "-m", "moldau", "rest", "-b", address, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield int(line.rstrip().rpartition(":")[2]), psutil.Process(process.pid)
    finally:
        process.terminate()
        process.communicate()


def _send(port: int, path: str, requests: int, begin: object, results: object) -> None:
    """The process of a client."""
    record = json.dumps(
        {"key": {"type": "STRING", "data": "k0000007"}, "value": {"type": "JSON", "data": {"n": "x" * 80}}}
    )
    body = (record * BATCH).encode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_TIMEOUT_S)
    begin.wait()  # type: ignore[attr-defined]
    good = 0
    for _ in range(requests):
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        good += connection.getresponse().read().count(b'"error_code":200')
    results.put(good)  # type: ignore[attr-defined]


def _produce_rate(port: int, path: str, records: int) -> float:
    processes = get_context("spawn")
    begin, results = processes.Barrier(CLIENTS + 1), processes.Queue()
    each = records // BATCH // CLIENTS
    clients = [processes.Process(target=_send, args=(port, path, each, begin, results)) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    begin.wait()
    began = time.perf_counter()
    good = sum(results.get() for _ in clients)
    seconds = time.perf_counter() - began
    for client in clients:
        client.join()
    assert good == each * BATCH * CLIENTS, f"{good} records were acknowledged"
    return good / seconds


async def _follow(port: int, topic: str, address: str, events: int) -> tuple[list[float], float]:
    """The time from write to event in milliseconds, of all followers; and how long the writing took."""
    ready = asyncio.Semaphore(0)
    delays: list[float] = []
    sent: dict[int, float] = {}

    async def follower() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET /topics/{topic}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        await reader.readuntil(b": following")
        ready.release()
        count = 0
        while count < events:
            data = await reader.read(1 << 16)
            assert data, "the stream has ended"
            new = data.count(b"data: {")
            count += new
            if new:
                delays.append((time.perf_counter() - sent[min(count, events) - 1]) * 1e3)
        writer.close()

    tasks = []
    for _ in range(FOLLOWERS):
        tasks.append(asyncio.create_task(follower()))
        await ready.acquire()
    began = time.perf_counter()
    with Producer(bootstrap_servers=address, linger_ms=0) as producer:
        for number in range(events):
            sent[number] = time.perf_counter()
            producer.send(topic, b'{"n": %d}' % number)
            await asyncio.sleep(max(0.0, began + (number + 1) / EVENTS_PER_S - time.perf_counter()))
    await asyncio.gather(*tasks)
    return delays, time.perf_counter() - began


def run(context: Context) -> Iterator[Row]:
    raise_file_limit()
    records = context.sized(RECORDS, RECORDS_QUICK)
    with context.broker() as broker, _proxy(broker.address) as (port, process):
        create_topic(broker.address, "rest", 3)
        create_topic(broker.address, "followed", 1)
        with urlopen(f"http://127.0.0.1:{port}/v3/clusters") as answer:
            cluster = json.load(answer)["data"][0]["cluster_id"]
        path = f"/v3/clusters/{cluster}/topics/rest/records"
        settle()
        _produce_rate(port, path, records // 4)
        before = process.cpu_times()
        rates = [_produce_rate(port, path, records) for _ in range(context.repeats)]
        after = process.cpu_times()
        each = (after.user + after.system - before.user - before.system) / (records * context.repeats) * 1e6
        note = f"{spread(rates)}; {each:.0f} µs of the proxy per record"
        yield Row("REST v3 produce, 1,000 records a request", median(rates), "records/s", LEAST_PER_S, True, note)
        settle()
        times = process.cpu_times()
        delays, seconds = asyncio.run(_follow(port, "followed", broker.address, context.sized(EVENTS, EVENTS_QUICK)))
        after = process.cpu_times()
        used = (after.user + after.system - times.user - times.system) / seconds
        note = f"{EVENTS_PER_S} records/s, {percentile(delays, 0.99):.0f} ms p99"
        yield Row("REST proxy with 1,000 followers by server-sent events", used, "cores", CORES, note=note)
