"""Broker for tests: runs in this process, in its own thread, with movable time and injected faults.

    with Broker() as broker:
        producer = Producer(bootstrap_servers=broker.bootstrap_servers)

Clients connect to it over TCP like to any other broker; only the clock is simulated. Its data is in a temporary
directory that is deleted with it, unless `data` names a directory to keep. All methods may be called from any thread
except the broker's own, and wait until the broker has done the work. In a coroutine they block the loop for these
milliseconds.
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
from pathlib import Path
from types import TracebackType
from typing import Self

from moldau.broker.assembly import assemble
from moldau.broker.broker import Broker as Served
from moldau.cluster.errors import Refusal
from moldau.cluster.image import TopicImage
from moldau.cluster.memory_store import MemoryTree
from moldau.cluster.store import OpenStore
from moldau.cluster.topics import TopicCreation
from moldau.security.acls import AclFilter, AclRule
from moldau.security.credentials import ScramMechanism
from moldau.settings import BROKER, gather
from moldau.testing import log_silencer
from moldau.testing.broker_thread import ANSWER_TIMEOUT_S, BrokerNotRunning, BrokerThread, Hosted
from moldau.testing.clock import MovableClock
from moldau.testing.faults import Faults
from moldau.testing.scratch_files import ScratchFileSystem
from moldau.testing.security import PreparedSecurity, Security

HOST = "127.0.0.1"

SETTINGS = {
    # A new group waits three seconds for more members to join; that would slow down tests.
    "group.initial.rebalance.delay.ms": "0",
    # Creating fifty logs for the offsets of one group would be most of the work of a short-lived broker.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    # Clients use the machine's time: a connection must not be closed as idle because a test moved the broker's time by
    # an hour.
    "connections.max.idle.ms": "-1",
}
"""Settings that differ from a broker's defaults. Settings of the caller override them."""

LOG_LEVEL = logging.ERROR

Setting = str | int | float | bool


class Broker(Hosted):
    """A broker that runs from `with` (or `start`) to `close`. It may be stopped, crashed and started again in
    between."""

    def __init__(
        self,
        settings: Mapping[str, Setting] | None = None,
        *,
        data: str | os.PathLike[str] | None = None,
        log_level: int = LOG_LEVEL,
        security: Security | None = None,
    ) -> None:
        """With `security`, clients log in with `client_settings` and may do what the rules allow."""
        self._wanted_security = security
        self._security: PreparedSecurity | None = None
        self._security_stored = False
        self._security_files: tempfile.TemporaryDirectory[str] | None = None
        self._settings = {name: _text(value) for name, value in (settings or {}).items()}
        self._data = None if data is None else os.fspath(data)
        self._log_level = log_level
        self._clock = MovableClock()
        self._metadata = MemoryTree()
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._place: socket.socket | None = None
        self._life: BrokerThread | None = None
        self.faults = Faults()
        """The injected faults; see `moldau.testing.faults`."""
        self.bootstrap_servers = ""
        """The value for a client's `bootstrap.servers`. It stays the same over restarts."""

    def __repr__(self) -> str:
        state = "not running" if self._life is None else "running"
        return f"<Broker at {self.bootstrap_servers or 'no port yet'}, {state}>"

    # -- lifecycle -------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the broker and wait until it accepts connections. Raises the broker's error for bad settings or a bad
        disk."""
        begun = self._begin()
        try:
            self._on_started(begun.result(ANSWER_TIMEOUT_S))
        except BaseException:
            self._on_start_failed()
            raise
        return self

    def stop(self) -> None:
        """Stop cleanly. Data and port are kept for another `start`."""
        self._wait(self._running().stop())

    def crash(self) -> None:
        """Stop as `kill -9` would: connections are cut, nothing more is written; `start` finds what a killed process
        leaves."""
        self._wait(self._running().crash())

    def restart(self) -> None:
        """Stop cleanly and start again: connections are lost, data is kept."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop the broker if it runs, delete its temporary data and release its port."""
        try:
            if self._life is not None:
                self.stop()
        finally:
            self._give_back()

    async def __aenter__(self) -> Self:
        try:
            self._on_started(await asyncio.wrap_future(self._begin()))
        except BaseException:
            self._on_start_failed()
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
                    self._wait(ended)  # also after cancellation: no thread may be left
        finally:
            self._give_back()

    # -- topics ----------------------------------------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, Setting] | None = None) -> None:
        """Create a topic; ValueError if the broker refuses it."""
        self._create_topic(name, partitions, 1, configs)

    def _create_topic(
        self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, Setting] | None
    ) -> None:
        texts = {key: _text(value) for key, value in (configs or {}).items()}
        new = TopicCreation(name, partitions, replication_factor, configs=texts)
        life = self._running()
        (answer,) = life.run(life.broker.create_topics([new]))
        if not isinstance(answer, TopicImage):
            raise ValueError(f"topic {name!r} was not created: {_reason(answer)}")

    # -- security ----------------------------------------------------------------------------------------------------

    def client_settings(self, user: str, mechanism: str = "SCRAM-SHA-256") -> dict[str, str]:
        """Settings for a client that logs in as this user, with the address of the broker and with Kafka's names."""
        if self._security is None:
            raise ValueError("the broker has no security, or was never started; create it with Broker(security=...)")
        login = self._security.client_settings(user, mechanism)
        return {"bootstrap.servers": self.bootstrap_servers, **login}

    def add_rules(self, *rules: AclRule) -> None:
        """Add access control rules, made by `allow` and `deny`; in force when this returns."""
        life = self._running()
        for answer in life.run(life.broker.metadata.security.create_acls(rules)):
            if answer is not None:
                raise ValueError(f"a rule was not added: {_reason(answer)}")

    def remove_rules(self, *rules: AclRule) -> None:
        """Remove rules that were added; rules that are not there are ignored."""
        life = self._running()
        life.run(life.broker.metadata.security.delete_acls([AclFilter.exactly(rule) for rule in rules]))

    # -- time ------------------------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        """The broker's wall clock, in milliseconds since 1970."""
        return self._clock.now_ms()

    def advance(self, seconds: float | timedelta = 0, *, minutes: float = 0, hours: float = 0, days: float = 0) -> None:
        """Move the broker's time forward, and wait until everything that was due has happened: sessions and
        transactions have timed out, old segments are deleted, logs are compacted.

        Clients stay in the machine's time. If the jump is longer than a group's session timeout, its members are
        removed from the group, although they are alive, and join again.
        """
        if not isinstance(seconds, timedelta):
            seconds = timedelta(seconds=seconds)
        total_s = (seconds + timedelta(minutes=minutes, hours=hours, days=days)).total_seconds()
        if total_s < 0:
            raise ValueError(f"time cannot be moved back: {total_s} seconds")
        self._running().advance(total_s)

    # -- internals -------------------------------------------------------------------------------------------------

    def _running(self) -> BrokerThread:
        if self._life is None:
            raise BrokerNotRunning("the broker is not running: `start` it first")
        return self._life

    def _begin(self) -> Future[Served]:
        if self._life is not None:
            raise RuntimeError("the broker is running already")
        if self._data is None and self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="moldau-")
        if self._wanted_security is not None and self._security is None:
            self._security_files = tempfile.TemporaryDirectory(prefix="moldau-security-")
            self._security = self._wanted_security.prepared(Path(self._security_files.name))
        if self._place is None:
            self._place = _take_port()
        log_silencer.mute(self._log_level)
        self._life = BrokerThread(self._make, self._clock)
        return self._life.begin()

    async def _make(self) -> Served:
        assert self._place is not None
        directory = self._data if self._scratch is None else self._scratch.name
        assert directory is not None
        security = self._security
        texts = {
            **SETTINGS,
            **({} if security is None else security.broker_settings()),
            "listeners": "{}://{}:{}".format(
                "PLAINTEXT" if security is None else security.protocol, *self._place.getsockname()
            ),
            "log.dirs": directory,
            # A test's settings are checked as those of the command line: a misspelt name is an error.
            **gather(BROKER, assignments=[f"{name}={text}" for name, text in self._settings.items()]),
        }
        broker = await assemble(texts, fs=ScratchFileSystem(), clock=self._clock, open_store=self._open_store())
        self.faults.prepare(broker)
        return broker

    def _open_store(self) -> OpenStore | None:
        """The metadata store: in memory, except if the broker's data is kept; then it is stored there, too."""
        return self._metadata.open if self._data is None else None

    def _on_started(self, broker: Served) -> None:
        assert self._life is not None
        endpoint = self._life.call(broker.listeners[0].endpoint)
        self.bootstrap_servers = f"{endpoint.host}:{endpoint.port}"
        if self._security is not None and not self._security_stored:
            self._life.run(_store_security(broker, self._security))
            self._security_stored = True  # a password that a test changes stays changed over restarts
        self.faults.attach(self._life)
        atexit.register(self.close)

    def _on_start_failed(self) -> None:
        """Clean up after a start that failed or was interrupted."""
        life, self._life = self._life, None
        if life is None:
            return
        life.give_up()
        log_silencer.unmute(self._log_level)

    def _wait(self, ended: Future[None]) -> None:
        assert self._life is not None
        try:
            ended.result(ANSWER_TIMEOUT_S)
            self._life.gone()
        finally:
            self._life = None
            self.faults.detach()
            log_silencer.unmute(self._log_level)
            atexit.unregister(self.close)

    def _give_back(self) -> None:
        if self._place is not None:
            self._place.close()
            self._place = None
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None
        if self._security_files is not None:
            self._security_files.cleanup()
            self._security_files = self._security = None
            self._security_stored = False


async def _store_security(broker: Served, security: PreparedSecurity) -> None:
    requests = broker.metadata.security
    refused: list[Refusal | None] = []
    for mechanism in ScramMechanism:
        refused += await requests.alter_credentials(security.scram_users(mechanism))
    refused += await requests.create_acls(security.rules)
    for answer in refused:
        if answer is not None:
            raise ValueError(f"the broker refused a user or a rule: {_reason(answer)}")


def _take_port() -> socket.socket:
    """Reserve a free port as long as this socket is open. The socket never listens, so the broker can listen on the
    same port. While the broker is down, clients are refused, and no other process gets the port."""
    place = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        place.bind((HOST, 0))
    except BaseException:
        place.close()
        raise
    return place


def _text(value: Setting) -> str:
    """The value as in a settings file."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _reason(answer: Refusal) -> str:
    return f"{answer.code.name}, {answer.message}" if answer.message else answer.code.name
