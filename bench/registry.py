"""Schema registry: look-ups per second of its CPU time, by id and by schema, the time to register, and its start.

A broker and `moldau registry` are processes of their own. 16 connections of another process send one request after the
other. A look-up is what a client sends that does not know a schema yet: `GET /schemas/ids/ID` for a consumer, `POST
/subjects/SUBJECT` for a producer. The rate is requests per second of CPU time of the registry: "a core". A second start
reads all subjects from the topic.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from bench.harness import HOST, Context, Row, free_port, median, percentile, spread

CONNECTIONS = 16
LOOKUPS, LOOKUPS_QUICK = 20_000, 4_000
SUBJECTS, SUBJECTS_QUICK = 10_000, 500
WRITERS = 8
START_TIMEOUT_S = 120.0
LOOKUPS_PER_S = 3_000.0
START_S = 5.0
V1 = "application/vnd.schemaregistry.v1+json"


def schema(number: int) -> str:
    fields: list[dict[str, Any]] = [{"name": f"field_{one}", "type": "string", "default": ""} for one in range(8)]
    fields.append({"name": f"number_{number}", "type": "long"})
    return json.dumps({"type": "record", "name": "Order", "namespace": "org.example.shop", "fields": fields})


def run(context: Context) -> Iterator[Row]:
    lookups, subjects = context.sized(LOOKUPS, LOOKUPS_QUICK), context.sized(SUBJECTS, SUBJECTS_QUICK)
    by_id: list[float] = []
    by_schema: list[float] = []
    with context.broker() as broker:
        port = free_port()
        with _registry(broker.address, port):
            times = _registered(port, subjects)
            context.say(f"{subjects} subjects registered, median {median(times):.1f} ms")
        starts = []
        for _ in range(context.repeats):
            began = time.perf_counter()
            with _registry(broker.address, port) as process:
                starts.append(time.perf_counter() - began)
                by_id.append(_rate(process, port, _gets(lookups, subjects)))
                by_schema.append(_rate(process, port, _posts(lookups // 4, subjects)))
                context.say(
                    f"{by_id[-1]:,.0f} look-ups by id, {by_schema[-1]:,.0f} by schema, {starts[-1]:.1f} s start"
                )
    note = f"{CONNECTIONS} connections, {subjects:,} subjects, {lookups:,} requests a round; {spread(by_id)}"
    yield Row("Registry: look-ups by id", median(by_id), "/s a core", LOOKUPS_PER_S, at_least=True, note=note)
    note = f"as an Avro producer asks: the schema is parsed or found by its text; {spread(by_schema)}"
    yield Row("Registry: look-ups by schema", median(by_schema), "/s a core", None, note=note)
    note = f"{WRITERS} clients, {subjects:,} subjects; each write is a transaction; median {median(times):.1f} ms"
    yield Row("Registry: p99 of a registration", percentile(times, 0.99), "ms", None, note=note)
    note = f"process, {subjects:,} subjects, ready to answer; {spread(starts)}"
    yield Row("Registry: start", median(starts), "s", START_S, note=note)


@contextmanager
def _registry(bootstrap: str, port: int) -> Iterator[psutil.Process]:
    """A registry that answers."""
    program = str(Path(sys.executable).with_name("moldau"))
    with subprocess.Popen(
        [program, "registry", "-b", bootstrap, "--port", str(port)], stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert b"ready" in line, f"the registry did not start: {line!r}"
            yield psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(START_TIMEOUT_S)


def _rate(process: psutil.Process, port: int, requests: Sequence[bytes]) -> float:
    """Requests per second of the registry's CPU time."""
    asyncio.run(_ask(port, requests[: CONNECTIONS * 20]))  # warm up
    before = process.cpu_times()
    asyncio.run(_ask(port, requests))
    after = process.cpu_times()
    return len(requests) / float(after.user + after.system - before.user - before.system)


def _gets(count: int, subjects: int) -> list[bytes]:
    return [_request("GET", f"/schemas/ids/{1 + number % subjects}") for number in range(count)]


def _posts(count: int, subjects: int) -> list[bytes]:
    """The same few schemas again and again, as from many producers that start."""
    few = min(subjects, 50)
    return [
        _request("POST", f"/subjects/subject-{number % few}", {"schema": schema(number % few)})
        for number in range(count)
    ]


def _request(method: str, path: str, body: Any = None) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    typed = f"Content-Type: {V1}\r\nContent-Length: {len(content)}\r\n" if content else ""
    head = f"{method} {path} HTTP/1.1\r\nHost: {HOST}\r\nAccept: {V1}, application/json\r\n{typed}\r\n"
    return head.encode() + content


async def _ask(port: int, requests: Sequence[bytes]) -> None:
    """Send the requests over all connections, one after the other on each. AssertionError: one is not answered 200."""

    async def one(own: Sequence[bytes]) -> None:
        reader, writer = await asyncio.open_connection(HOST, port)
        for request in own:
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            assert head.startswith(b"http/1.1 200"), head
            length = int(head.partition(b"content-length:")[2].partition(b"\r")[0])
            await reader.readexactly(length)
        writer.close()

    await asyncio.gather(*(one(requests[first::CONNECTIONS]) for first in range(CONNECTIONS)))


def _registered(port: int, subjects: int) -> list[float]:
    """Register one schema per subject from several threads; the milliseconds of each."""
    from concurrent.futures import ThreadPoolExecutor

    def register(number: int) -> float:
        began = time.perf_counter()
        request = urllib.request.Request(
            f"http://{HOST}:{port}/subjects/subject-{number}/versions",
            json.dumps({"schema": schema(number)}).encode(),
            {"Content-Type": V1},
        )
        with urllib.request.urlopen(request) as answer:
            answer.read()
        return (time.perf_counter() - began) * 1_000

    register(0)  # waits for the election of the leader, which the broker delays for a new group
    with ThreadPoolExecutor(WRITERS) as threads:
        return list(threads.map(register, range(subjects)))
