"""Disk of a simulated process: its machine's memory disk, with faults, delays and process death.

Calls of a process that has ended fail, so nothing that a dead process still tries reaches the disk. A slow disk takes
virtual time. In a thread, the job ends later. On the loop, the whole process stalls, as a real process does when a
write meets a full device queue.
"""

from __future__ import annotations

import errno
from random import Random
from typing import TYPE_CHECKING

from moldau.host.fs import FileSystem
from moldau.testing.faulty_fs import DiskFault, FaultyCalls

if TYPE_CHECKING:
    from moldau.testing.simulation.machine import SimulatedProcess
    from moldau.testing.simulation.threads import SimulatedThreads

MAX_OPEN_FILES = 256

SLOW_CALLS = frozenset({"pwritev", "preadv", "fdatasync", "fsync", "syncfs", "ftruncate", "create"})


class SimulatedCalls(FaultyCalls):
    """System calls of one simulated process."""

    def __init__(self, process: SimulatedProcess, threads: SimulatedThreads) -> None:
        super().__init__(process.machine.disk, sleep=self._no_sleep)
        self.slow_s = 0.0
        """Maximum duration of each call that reaches the disk."""
        self._process = process
        self._threads = threads
        self._random = Random(process.machine.random.getrandbits(64))

    def _strike(self, call: str, path: str, fd: int = -1) -> DiskFault | None:
        process = self._process
        if process.dead:
            raise OSError(errno.EIO, "this process has ended", path)
        if process.machine.broken and any(path.startswith(one) for one in process.machine.broken):
            raise OSError(errno.EIO, "Input/output error", path)
        if self.slow_s and call in SLOW_CALLS:
            seconds = self.slow_s * self._random.random()
            if self._threads.in_job:
                self._threads.job_takes(seconds)
            else:
                process.stall(seconds)
        return super()._strike(call, path, fd) if self.faults or self.record is not None else None

    @staticmethod
    def _no_sleep(seconds: float) -> None:
        raise AssertionError("no time passes inside a call: use `slow_s`")


class SimulatedFileSystem(FileSystem):
    """The real file code on top of the simulated calls."""

    def __init__(self, process: SimulatedProcess, threads: SimulatedThreads) -> None:
        self.calls = SimulatedCalls(process, threads)
        super().__init__(self.calls, MAX_OPEN_FILES)

    def fail(self, call: str, error: int, *, path: str = "*", after: int = 0, times: int | None = 1) -> None:
        """Make calls fail; see `moldau.testing.faulty_fs`."""
        self.calls.faults.append(DiskFault(call, error, path, after, times))

    def heal(self) -> None:
        self.calls.faults.clear()
        self.calls.slow_s = 0.0
