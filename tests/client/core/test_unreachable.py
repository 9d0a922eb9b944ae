"""Log warnings of a client that reaches no broker: soon, with addresses and reasons, and rarely."""

from __future__ import annotations

import asyncio
import logging
import queue
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moldau import Admin, Consumer, Producer, aio
from moldau.client import unreachable
from moldau.client.unreachable import UnreachableWarning
from moldau.errors import TimedOut
from moldau.testing import Broker
from tests.client.core import fake_servers
from tests.client.core.fake_servers import FakeServer
from tests.client.core.support import run

PATIENCE_S = 20.0
SETTINGS = {"request_timeout_ms": 20_000}


class LoggedWarnings(logging.Handler):
    """The log lines of the clients; a test can wait for the next one."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.put(f"{record.levelname} {record.getMessage()}")

    def next(self) -> str:
        return self._lines.get(timeout=PATIENCE_S)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoggedWarnings]:
    monkeypatch.setattr(unreachable, "FIRST_WARNING_S", 0.05)
    handler = LoggedWarnings()
    level = unreachable.log.level
    unreachable.log.addHandler(handler)
    unreachable.log.setLevel(logging.INFO)
    yield handler
    unreachable.log.removeHandler(handler)
    unreachable.log.setLevel(level)


@pytest.fixture
def closed_port() -> str:
    """An address without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def poll_once(consumer: Consumer) -> None:
    consumer.poll(PATIENCE_S)


BLOCKING: dict[str, tuple[Callable[..., Any], Callable[[Any], object]]] = {
    "producer": (Producer, lambda client: client.partitions_for("t")),
    "consumer": (lambda **settings: Consumer("t", group_id="g", **settings), poll_once),
    "admin": (Admin, lambda client: client.list_topics()),
}


@pytest.mark.parametrize("kind", BLOCKING)
def test_each_blocking_client_warns_while_its_call_waits(said: LoggedWarnings, closed_port: str, kind: str) -> None:
    make, call = BLOCKING[kind]
    client = make(bootstrap_servers=closed_port, client_id="it", **SETTINGS)

    def wait() -> None:
        with pytest.raises(Exception):  # noqa: B017, PT011 - the client is closed, or woken, meanwhile
            call(client)

    waiting = threading.Thread(target=wait)
    waiting.start()
    line = said.next()
    assert line.startswith('WARNING no broker reached, still trying client_id=it seconds=0 reason="')
    assert f"{closed_port} refused the connection: is the broker running, and is this its port?" in line
    if kind == "consumer":
        client.wakeup()
        waiting.join()
    client.close() if kind != "producer" else client.close(0)
    waiting.join()


@pytest.mark.parametrize("kind", ["Producer", "Consumer", "Admin"])
def test_each_asyncio_client_warns(said: LoggedWarnings, closed_port: str, kind: str) -> None:
    async def scenario() -> str:
        async with getattr(aio, kind)(bootstrap_servers=closed_port, **SETTINGS):
            return await asyncio.to_thread(said.next)

    assert f"{closed_port} refused the connection" in run(scenario())


def test_each_address_is_shown_with_its_reason(said: LoggedWarnings, closed_port: str) -> None:
    with FakeServer(fake_servers.silent_server) as silent:
        servers = f"{closed_port},no-such-host.invalid:9092,{silent.bootstrap}"
        with Admin(bootstrap_servers=servers, **SETTINGS) as admin:
            with pytest.raises(TimedOut):
                admin.list_topics(timeout=0)
            lines = [said.next()]
            while not all(
                reason in lines[-1]
                for reason in (
                    f"{closed_port} refused the connection",
                    "there is no host 'no-such-host.invalid'",
                    f"{silent.bootstrap} accepted the connection, but has not answered yet",
                )
            ):
                lines.append(said.next())  # the resolver may take longer than the first warning


def test_the_first_warning_appears_after_three_seconds_and_later_ones_are_rare() -> None:
    assert unreachable.FIRST_WARNING_S == 3.0

    async def scenario() -> None:
        loop = FakeTime()
        warning = UnreachableWarning("it", lambda: ["one is away"])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asyncio, "get_running_loop", lambda: loop)
            for _ in range(1_000):
                warning.watch()  # one line for each attempt
            loop.run_for(300.0)
        assert loop.called_at == [3.0, 9.0, 21.0, 45.0, 93.0, 153.0, 213.0, 273.0]

    run(scenario())


class FakeTime:
    """An event loop with timers only, whose time the test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.called_at: list[float] = []
        self._due: list[tuple[float, Callable[[], object]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], object]) -> object:
        self._due.append((self.now + delay, callback))
        return object()

    def run_for(self, seconds: float) -> None:
        while self._due and self._due[0][0] <= seconds:
            self.now, callback = self._due.pop(0)
            self.called_at.append(self.now)
            callback()


def test_the_warnings_end_when_a_broker_is_reached(said: LoggedWarnings) -> None:
    with Broker() as broker, Admin(bootstrap_servers=broker.bootstrap_servers, **SETTINGS) as admin:
        broker.stop()
        with pytest.raises(TimedOut):
            admin.list_topics(timeout=0)
        assert said.next().startswith("WARNING")
        broker.start()
        assert admin.list_topics() == []
        line = said.next()
        while line.startswith("WARNING"):
            line = said.next()
        assert line.startswith("INFO a broker was reached client_id=")


def test_a_client_that_reaches_a_broker_logs_no_warning(said: LoggedWarnings, bootstrap: str, closed_port: str) -> None:
    with Admin(bootstrap_servers=f"{closed_port},{bootstrap}", **SETTINGS) as admin:
        admin.list_topics()
        admin.list_topics()
    assert said._lines.empty()


def test_an_address_that_drops_packets_delays_a_client_only_briefly(bootstrap: str) -> None:
    """Addresses of bootstrap.servers are tried concurrently: the next one does not wait for a time-out of 10 s."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:  # The listener's queue is full, so that further connection attempts are not answered.
            filler.setblocking(False)
            filler.connect_ex(address)
        servers = f"{address[0]}:{address[1]},{bootstrap}"
        with Admin(bootstrap_servers=servers, **SETTINGS) as admin:
            assert admin.list_topics(timeout=5) is not None
        for filler in fillers:
            filler.close()
