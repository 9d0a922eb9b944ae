"""Faulty file system: fails on demand as if it were full, broken, read-only, slow or without power.

`FaultyFileSystem()` is in memory and can lose power (`after_power_loss`) or its process (`after_kill`).
`FaultyFileSystem(LinuxCalls())` adds faults to the real disk. Both use the real file code of `moldau.host.fs`: faults
are injected below it, at the system calls.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from moldau.host.fs import FileSystem
from moldau.host.syscalls import Buffer, SystemCalls
from moldau.testing.memory_disk import MemoryDisk


@dataclass(slots=True)
class DiskFault:
    """The next `times` calls of `call` on files that match `path` fail, after `after` successful calls."""

    call: str
    error: int
    path: str = "*"
    after: int = 0
    times: int | None = 1
    partial: int = 0
    """For `pwritev`: write this many bytes first and return a short write; the next call fails."""
    seen: int = 0

    def strikes(self, call: str, path: str) -> bool:
        if call != self.call or not fnmatchcase(path, self.path):
            return False
        self.seen += 1
        return self.seen > self.after and (self.times is None or self.seen <= self.after + self.times)


class FaultyCalls:
    """Passes every call to the real one, unless a fault applies."""

    def __init__(self, inner: SystemCalls, sleep: Callable[[float], None] = time.sleep) -> None:
        self.inner = inner
        self.faults: list[DiskFault] = []
        self.record: list[tuple[str, str]] | None = None
        """If set to a list, the (call, path) of every call is appended to it."""
        self._slow: list[tuple[str, float]] = []
        self._sleep = sleep
        self._paths: dict[int, str] = {}

    def slow(self, path: str, seconds: float) -> None:
        """Make reads of matching files take this long; they are never in the page cache."""
        self._slow.append((path, seconds))

    def _strike(self, call: str, path: str, fd: int = -1) -> DiskFault | None:
        if self.record is not None:
            self.record.append((call, path))
        for fault in self.faults:
            if fault.strikes(call, path):
                if fault.partial:
                    return fault
                if call == "fdatasync" and isinstance(self.inner, MemoryDisk):
                    self.inner.forget_dirty(fd)
                raise OSError(fault.error, os.strerror(fault.error), path)
        return None

    def _path(self, fd: int) -> str:
        return self._paths.get(fd, "")

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        if flags & os.O_CREAT:
            self._strike("create", path)
        else:
            self._strike("open", path)
        fd = self.inner.open(path, flags, mode)
        self._paths[fd] = path
        return fd

    def close(self, fd: int) -> None:
        self._paths.pop(fd, None)
        self.inner.close(fd)

    def size_of(self, fd: int) -> int:
        return self.inner.size_of(fd)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        fault = self._strike("pwritev", self._path(fd))
        if fault is None:
            return self.inner.pwritev(fd, buffers, position)
        whole = b"".join(bytes(buffer) for buffer in buffers)
        self.faults.append(DiskFault("pwritev", fault.error, self._path(fd)))
        return self.inner.pwritev(fd, [whole[: fault.partial]], position)

    def preadv(self, fd: int, buffers: Sequence[bytearray | memoryview], position: int, flags: int = 0) -> int:
        path = self._path(fd)
        self._strike("preadv", path)
        for pattern, seconds in self._slow:
            if fnmatchcase(path, pattern):
                if flags & os.RWF_NOWAIT:
                    raise BlockingIOError(errno.EAGAIN, "would block", path)
                self._sleep(seconds)
        return self.inner.preadv(fd, buffers, position, flags)

    def fdatasync(self, fd: int) -> None:
        self._strike("fdatasync", self._path(fd), fd)
        self.inner.fdatasync(fd)

    def fsync(self, fd: int) -> None:
        self._strike("fsync", self._path(fd))
        self.inner.fsync(fd)

    def syncfs(self, fd: int) -> None:
        self._strike("syncfs", self._path(fd))
        self.inner.syncfs(fd)

    def ftruncate(self, fd: int, size: int) -> None:
        self._strike("ftruncate", self._path(fd))
        self.inner.ftruncate(fd, size)

    def try_lock(self, fd: int) -> None:
        self.inner.try_lock(fd)

    def scan(self, path: str) -> list[tuple[str, bool]]:
        self._strike("scan", path)
        return self.inner.scan(path)

    def stat_size(self, path: str) -> int:
        return self.inner.stat_size(path)

    def stat_time(self, path: str) -> float:
        return self.inner.stat_time(path)

    def is_directory(self, path: str) -> bool:
        return self.inner.is_directory(path)

    def mkdir(self, path: str) -> None:
        self._strike("mkdir", path)
        self.inner.mkdir(path)

    def rmdir(self, path: str) -> None:
        self._strike("rmdir", path)
        self.inner.rmdir(path)

    def rename(self, old: str, new: str) -> None:
        self._strike("rename", old)
        self.inner.rename(old, new)

    def remove(self, path: str) -> None:
        self._strike("remove", path)
        self.inner.remove(path)

    def space(self, path: str) -> tuple[int, int]:
        return self.inner.space(path)


class FaultyFileSystem(FileSystem):
    """A file system with injected faults; see the module's docstring."""

    def __init__(self, calls: SystemCalls | None = None, max_open_files: int = 256) -> None:
        self.calls = FaultyCalls(calls if calls is not None else MemoryDisk())
        super().__init__(self.calls, max_open_files)

    @property
    def disk(self) -> MemoryDisk:
        """The disk in memory."""
        if not isinstance(self.calls.inner, MemoryDisk):
            raise TypeError("this file system is not in memory")
        return self.calls.inner

    def fail(
        self, call: str, error: int, *, path: str = "*", after: int = 0, times: int | None = 1, partial: int = 0
    ) -> DiskFault:
        """Make calls (`pwritev`, `fdatasync`, `create`, `rename` …) on matching files fail; see `DiskFault`."""
        fault = DiskFault(call, error, path, after, times, partial)
        self.calls.faults.append(fault)
        return fault

    def heal(self) -> None:
        """Remove all faults."""
        self.calls.faults.clear()

    def slow(self, path: str, seconds: float) -> None:
        """Make reads of matching files take this long from now on."""
        self.calls.slow(path, seconds)

    def after_power_loss(self, seed: int) -> FaultyFileSystem:
        """Simulate a power loss: returns the file system that a new process finds after it."""
        self.disk.lose_power(seed)
        return FaultyFileSystem(self.disk, self.pool.limit)

    def after_kill(self) -> FaultyFileSystem:
        """Simulate a killed process: everything that it had written is kept."""
        self.disk.kill_process()
        return FaultyFileSystem(self.disk, self.pool.limit)
