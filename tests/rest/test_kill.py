"""`kill -9` of the proxy under load: no record that was acknowledged is lost, and the next proxy goes on."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from moldau import Consumer
from moldau.testing import Broker
from tests.support.process import start_mortal
from tests.support.waiting import wait_until

WRITERS = 3
BATCH = 20
START_TIMEOUT_S = 90.0


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextmanager
def proxy_process(broker: Broker, port: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "moldau", "rest", "-b", broker.bootstrap_servers, "--port", str(port)]
    process = start_mortal(command, dict(os.environ))
    try:
        url = f"http://127.0.0.1:{port}/health"
        wait_until(
            lambda: httpx.get(url).status_code == 200, "the proxy answers", START_TIMEOUT_S, retry_on=(httpx.HTTPError,)
        )
        yield process
    finally:
        process.kill()
        process.communicate()


class Writers:
    """Threads that produce numbers, and remember those that were acknowledged."""

    def __init__(self, url: str, place: str) -> None:
        self._url = url + place
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self.acknowledged: list[str] = []
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(WRITERS)]

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _write(self, writer: int) -> None:
        number = 0
        while not self._ended.is_set():
            names = [f"{writer}-{number + one}" for one in range(BATCH)]
            number += BATCH
            body = "".join(json.dumps({"value": {"type": "STRING", "data": name}}) for name in names)
            try:
                answer = httpx.post(self._url, content=body, headers={"content-type": "application/json"}, timeout=60)
                lines = [json.loads(line) for line in answer.text.splitlines()]
            except (httpx.HTTPError, ValueError):
                self._ended.wait(0.01)  # the proxy is down: the records have no answer
                continue
            told = [name for name, line in zip(names, lines, strict=False) if line.get("error_code") == 200]
            with self._lock:
                self.acknowledged += told

    def wait_for_more(self, count: int) -> None:
        wanted = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= wanted, "records are acknowledged", START_TIMEOUT_S)


@pytest.mark.timeout(600)
def test_no_acknowledged_record_is_lost(
    rest_broker: Broker, topic: str, count: Callable[[int, int], int], proxy: Any
) -> None:
    port = free_port()
    with Writers(f"http://127.0.0.1:{port}", f"{proxy.cluster}/topics/{topic}/records") as writers:
        for _ in range(count(2, 20)):
            with proxy_process(rest_broker, port):
                writers.wait_for_more(5 * BATCH)
    found: set[str] = set()
    servers = rest_broker.bootstrap_servers
    with Consumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        until = time.monotonic() + START_TIMEOUT_S
        while not set(writers.acknowledged) <= found and time.monotonic() < until:
            found |= {record.value.decode() for record in consumer.poll(1.0)}
    assert not set(writers.acknowledged) - found
