"""A broker for tests: in this process, in a thread of its own, with time that can be moved and faults on demand.

    with Broker() as broker:
        producer = Producer(bootstrap_servers=broker.bootstrap_servers)

Clients reach it over TCP like any other; nothing of it is simulated but the clock. Its data is in a temporary directory
that vanishes with it, unless `data` names one to keep. All methods may be called from any thread but the broker's own,
and wait until the broker has done what they say; from a coroutine they hold up the loop for those milliseconds.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import socket
import tempfile
from collections.abc import Mapping
from concurrent.futures import Future
from datetime import timedelta
from types import TracebackType
from typing import Self

from moldau.broker.assembly import assemble
from moldau.broker.broker import Broker as Served
from moldau.cluster.image import TopicImage
from moldau.cluster.memory_store import MemoryTree
from moldau.cluster.refusal import Refusal
from moldau.cluster.store import OpenStore
from moldau.cluster.topics import NewTopic
from moldau.testing import quiet
from moldau.testing.clock import MovableClock
from moldau.testing.faults import Faults
from moldau.testing.life import ANSWER_TIMEOUT_S, BrokerNotRunning, Hosted, Life
from moldau.testing.scratch import ScratchFileSystem

HOST = "127.0.0.1"

SETTINGS = {
    # A group that has just been made waits three seconds for others to join: no test wants that.
    "group.initial.rebalance.delay.ms": "0",
    # Fifty logs for the offsets of one group would be most of what a broker does in its short life.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    # Clients live in the machine's time: a connection that was used a moment ago is not idle because a test has moved
    # the broker's by an hour.
    "connections.max.idle.ms": "-1",
}
"""What differs from a broker's own defaults; whatever is asked for comes before it."""

LOG_LEVEL = logging.ERROR

Setting = str | int | float | bool


class Broker(Hosted):
    """A broker from `with` (or `start`) to its end. It may be stopped, crashed and started again in between."""

    def __init__(
        self,
        settings: Mapping[str, Setting] | None = None,
        *,
        data: str | os.PathLike[str] | None = None,
        log_level: int = LOG_LEVEL,
    ) -> None:
        self._settings = {name: _text(value) for name, value in (settings or {}).items()}
        self._data = None if data is None else os.fspath(data)
        self._log_level = log_level
        self._clock = MovableClock()
        self._metadata = MemoryTree()
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._place: socket.socket | None = None
        self._life: Life | None = None
        self.faults = Faults()
        """What shall go wrong; see `moldau.testing.faults`."""
        self.bootstrap_servers = ""
        """For a client's `bootstrap.servers`: stays the same over restarts."""

    def __repr__(self) -> str:
        state = "not running" if self._life is None else "running"
        return f"<Broker at {self.bootstrap_servers or 'no port yet'}, {state}>"

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Returns when the broker takes connections. Raises what a broker says to bad settings or a broken disk."""
        begun = self._begin()
        try:
            self._born(begun.result(ANSWER_TIMEOUT_S))
        except BaseException:
            self._not_born()
            raise
        return self

    def stop(self) -> None:
        """A clean stop. Its data and its port are kept for another `start`."""
        self._wait(self._running().stop())

    def crash(self) -> None:
        """As `kill -9`: connections are cut, nothing more is written; `start` finds what a killed process leaves."""
        self._wait(self._running().crash())

    def restart(self) -> None:
        """A clean stop and a new start: connections are lost, data stays."""
        self.stop()
        self.start()

    def close(self) -> None:
        """The end: stopped if it still runs, its temporary data removed, its port given back."""
        try:
            if self._life is not None:
                self.stop()
        finally:
            self._give_back()

    async def __aenter__(self) -> Self:
        try:
            self._born(await asyncio.wrap_future(self._begin()))
        except BaseException:
            self._not_born()
            self._give_back()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._life is not None:
                ended = self._life.stop()
                try:
                    await asyncio.wrap_future(ended)
                finally:
                    self._wait(ended)  # also where the waiting was cancelled: nothing may be left behind
        finally:
            self._give_back()

    # -- topics ----------------------------------------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, Setting] | None = None) -> None:
        """Makes a topic; ValueError where the broker refuses it."""
        self._create_topic(name, partitions, 1, configs)

    def _create_topic(
        self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, Setting] | None
    ) -> None:
        texts = {key: _text(value) for key, value in (configs or {}).items()}
        new = NewTopic(name, partitions, replication_factor, configs=texts)
        life = self._running()
        (answer,) = life.run(life.broker.create_topics([new]))
        if not isinstance(answer, TopicImage):
            raise ValueError(f"topic {name!r} was not created: {_reason(answer)}")

    # -- time ------------------------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        """The broker's wall clock, milliseconds since 1970."""
        return self._clock.now_ms()

    def advance(self, seconds: float | timedelta = 0, *, minutes: float = 0, hours: float = 0, days: float = 0) -> None:
        """Moves the broker's time forward. At return everything that was due on the way has happened: sessions and
        transactions have timed out, old segments are gone, logs are compacted.

        Clients live on in the machine's time: a member of a group whose session time-out was jumped over is expelled,
        however lively it is, and joins again.
        """
        if not isinstance(seconds, timedelta):
            seconds = timedelta(seconds=seconds)
        total_s = (seconds + timedelta(minutes=minutes, hours=hours, days=days)).total_seconds()
        if total_s < 0:
            raise ValueError(f"time cannot be moved back, and {total_s} seconds would be")
        self._running().advance(total_s)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _running(self) -> Life:
        if self._life is None:
            raise BrokerNotRunning("the broker is not running: `start` it first")
        return self._life

    def _begin(self) -> Future[Served]:
        if self._life is not None:
            raise RuntimeError("the broker is running already")
        if self._data is None and self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="moldau-")
        if self._place is None:
            self._place = _take_port()
        quiet.hush(self._log_level)
        self._life = Life(self._make, self._clock)
        return self._life.begin()

    async def _make(self) -> Served:
        assert self._place is not None
        directory = self._data if self._scratch is None else self._scratch.name
        assert directory is not None
        texts = {
            **SETTINGS,
            "listeners": "PLAINTEXT://{}:{}".format(*self._place.getsockname()),
            "log.dirs": directory,
            **self._settings,
        }
        broker = await assemble(texts, fs=ScratchFileSystem(), clock=self._clock, open_store=self._open_store())
        self.faults.prepare(broker)
        return broker

    def _open_store(self) -> OpenStore | None:
        """Where its metadata is: of a broker whose data is kept, there."""
        return self._metadata.open if self._data is None else None

    def _born(self, broker: Served) -> None:
        assert self._life is not None
        endpoint = self._life.call(broker.listeners[0].endpoint)
        self.bootstrap_servers = f"{endpoint.host}:{endpoint.port}"
        self.faults.attach(self._life)
        atexit.register(self.close)

    def _not_born(self) -> None:
        """After a start that failed, or whose waiting was interrupted."""
        life, self._life = self._life, None
        if life is None:
            return
        life.give_up()
        quiet.unhush(self._log_level)

    def _wait(self, ended: Future[None]) -> None:
        assert self._life is not None
        try:
            ended.result(ANSWER_TIMEOUT_S)
            self._life.gone()
        finally:
            self._life = None
            self.faults.detach()
            quiet.unhush(self._log_level)
            atexit.unregister(self.close)

    def _give_back(self) -> None:
        if self._place is not None:
            self._place.close()
            self._place = None
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None


def _take_port() -> socket.socket:
    """A free port, ours as long as this socket is: it never listens, so that the broker may on the same port, and
    between two lives of the broker clients are refused and nobody else is given the port."""
    place = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        place.bind((HOST, 0))
    except BaseException:
        place.close()
        raise
    return place


def _text(value: Setting) -> str:
    """As a settings file would say it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _reason(answer: Refusal) -> str:
    return f"{answer.code.name}, {answer.message}" if answer.message else answer.code.name
