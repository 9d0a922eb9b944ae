"""A broker inside the test's own process, in a thread with a loop of its own, on whatever file system it is handed.

Clients are real ones: they connect over TCP. Its metadata store is a real SQLite file, which no injected fault reaches.
"""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import uvloop

from moldau.broker.assembly import assemble
from moldau.broker.broker import Broker
from moldau.host.fs import FileSystem
from moldau.testing.faulty_fs import FaultyFileSystem
from moldau.testing.memory_disk import MemoryDisk

START_TIMEOUT_S = 30
STOP_TIMEOUT_S = 30


class InProcessBroker:
    """From `with` to its end. `data` are its directories; only the first one needs to be real."""

    def __init__(self, fs: FileSystem, *data: Path, settings: dict[str, str] | None = None) -> None:
        data[0].mkdir(parents=True, exist_ok=True)  # the metadata store is there
        self._texts = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": ",".join(map(str, data)), **(settings or {})}
        self._fs = fs
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._stop: Callable[[], Any] = lambda: None
        self.broker: Broker | None = None
        self.bootstrap = ""

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(START_TIMEOUT_S), "the broker did not start"
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        self._thread.join(STOP_TIMEOUT_S)
        assert not self._thread.is_alive(), "the broker did not stop"
        if self._failure is not None and error is None:
            raise self._failure

    @property
    def handler_failures(self) -> int:
        assert self.broker is not None
        return self.broker.metrics.handler_failures

    def _run(self) -> None:
        try:
            uvloop.run(self._serve())
        except BaseException as failure:  # noqa: BLE001 - raised again in the test's thread
            self._failure = failure
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        broker = await assemble(self._texts, fs=self._fs)
        try:
            await broker.start()
        except BaseException:
            await broker.abandon()
            raise
        self.broker = broker
        self.bootstrap = f"127.0.0.1:{broker.listeners[0].port}"
        self._stop = lambda: loop.call_soon_threadsafe(stop.set)
        self._ready.set()
        await stop.wait()
        await broker.stop()


class Machine:
    """A disk in memory that outlives the brokers on it, and the power that they run on."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self._plug = Plug(self.disk)
        self.fs = FaultyFileSystem(self._plug)

    def cut_power(self) -> None:
        """From now on nothing reaches the disk. The broker does not know it yet, and may be stopped in peace."""
        self._plug.pull()

    def power_on(self, seed: int) -> None:
        """What was not synced becomes what chance leaves of it; a new broker finds that in `fs`."""
        self.disk.lose_power(seed)
        self._plug = Plug(self.disk)
        self.fs = FaultyFileSystem(self._plug)


class Plug:
    """The calls of a disk in memory: one at a time, whatever thread they come from, and only while there is power."""

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
                return None  # descriptors vanish with the process
            raise OSError(errno.EIO, "there is no power")

        self.__dict__[name] = call
        return call
