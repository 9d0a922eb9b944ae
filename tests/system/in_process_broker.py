"""Broker in the test's process, in a thread with its own loop, on a given file system.

Clients are real and connect over TCP. Its metadata store is a real SQLite file, without injected faults.
"""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from moldau.broker.assembly import assemble
from moldau.broker.broker import Broker
from moldau.host.fs import FileSystem
from moldau.testing.broker_thread import ANSWER_TIMEOUT_S, BrokerThread
from moldau.testing.clock import MovableClock
from moldau.testing.faulty_fs import FaultyFileSystem
from moldau.testing.memory_disk import MemoryDisk


class InProcessBroker:
    """A broker that runs while the context is open. `data` are its directories; only the first must be a real one."""

    def __init__(self, fs: FileSystem, *data: Path, settings: dict[str, str] | None = None) -> None:
        data[0].mkdir(parents=True, exist_ok=True)  # the metadata store is in this directory
        texts = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": ",".join(map(str, data)), **(settings or {})}
        self._thread = BrokerThread(lambda: assemble(texts, fs=fs), MovableClock())
        self.broker: Broker | None = None
        self.bootstrap = ""

    def __enter__(self) -> Self:
        self.broker = self._thread.begin().result(ANSWER_TIMEOUT_S)
        self.bootstrap = f"127.0.0.1:{self._thread.call(lambda: self._thread.broker.listeners[0].port)}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ended = self._thread.stop()
        self._thread.gone()
        if error is None:
            ended.result(0)

    @property
    def handler_failures(self) -> int:
        assert self.broker is not None
        return self.broker.metrics.handler_failures


class Machine:
    """A disk in memory that outlives brokers, with a power switch."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self._plug = Plug(self.disk)
        self.fs = FaultyFileSystem(self._plug)

    def cut_power(self) -> None:
        """Stop all writes to the disk. The broker does not notice; it may still be stopped cleanly."""
        self._plug.pull()

    def power_on(self, seed: int) -> None:
        """Apply a random outcome to unsynced data. The next broker finds the result in `fs`."""
        self.disk.lose_power(seed)
        self._plug = Plug(self.disk)
        self.fs = FaultyFileSystem(self._plug)


class Plug:
    """Calls to a disk in memory: one at a time from any thread, and only while the power is on."""

    def __init__(self, disk: MemoryDisk) -> None:
        self._disk = disk
        self._lock = threading.Lock()
        self._pulled = False

    def pull(self) -> None:
        with self._lock:
            self._pulled = True

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._disk, name)

        def call(*arguments: Any) -> Any:
            with self._lock:
                if not self._pulled:
                    return method(*arguments)
            if name == "close":
                return None  # descriptors vanish with the process, so closing one needs no power
            raise OSError(errno.EIO, "there is no power")

        self.__dict__[name] = call
        return call
