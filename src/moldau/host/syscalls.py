"""System calls for files, as one small object.

`fs` reaches the kernel only through this object, so that a test double can replace the disk: see
`moldau.testing.faulty_fs`, which tears writes, fails them, delays reads and simulates power loss under the real `fs`.
"""

from __future__ import annotations

import fcntl
import os
import resource
from collections.abc import Sequence
from typing import Any, Protocol

Buffer = bytes | bytearray | memoryview

MAX_OPEN_FILES = 65_536
"""The limit for file descriptors even if the system allows more, because each costs kernel memory."""

FILE_SHARE = 0.5
"""The share of the descriptor limit for files; the rest is for sockets and the interpreter."""


class SystemCalls(Protocol):
    """The system calls that `fs` uses. Each raises OSError like the call of that name."""

    def open(self, path: str, flags: int, mode: int = ...) -> int: ...
    def close(self, fd: int) -> None: ...
    def size_of(self, fd: int) -> int: ...
    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int: ...
    def preadv(self, fd: int, buffers: Sequence[bytearray | memoryview], position: int, flags: int = 0) -> int: ...
    def fdatasync(self, fd: int) -> None: ...
    def fsync(self, fd: int) -> None: ...
    def ftruncate(self, fd: int, size: int) -> None: ...
    def syncfs(self, fd: int) -> None:
        """Sync the whole volume that holds the file."""
        ...

    def try_lock(self, fd: int) -> None:
        """Take an exclusive lock, held until the file is closed; BlockingIOError if another process holds it."""
        ...

    def scan(self, path: str) -> list[tuple[str, bool]]:
        """The (name, is a directory) of everything in a directory."""
        ...

    def stat_size(self, path: str) -> int: ...
    def stat_time(self, path: str) -> float:
        """The modification time in seconds since 1970."""
        ...

    def is_directory(self, path: str) -> bool: ...
    def mkdir(self, path: str) -> None: ...
    def rmdir(self, path: str) -> None: ...
    def rename(self, old: str, new: str) -> None: ...
    def remove(self, path: str) -> None: ...
    def space(self, path: str) -> tuple[int, int]:
        """The total bytes and the bytes available to this process, of the volume that holds `path`."""
        ...


class LinuxCalls:
    """The real calls. Those on the hot path are the `os` functions themselves, without a Python frame in between."""

    open: Any = staticmethod(os.open)
    close: Any = staticmethod(os.close)
    pwritev: Any = staticmethod(os.pwritev)
    preadv: Any = staticmethod(os.preadv)
    fdatasync: Any = staticmethod(os.fdatasync)
    fsync: Any = staticmethod(os.fsync)
    ftruncate: Any = staticmethod(os.ftruncate)
    mkdir: Any = staticmethod(os.mkdir)
    rmdir: Any = staticmethod(os.rmdir)
    rename: Any = staticmethod(os.rename)
    remove: Any = staticmethod(os.unlink)
    is_directory: Any = staticmethod(os.path.isdir)

    @staticmethod
    def size_of(fd: int) -> int:
        return os.fstat(fd).st_size

    @staticmethod
    def syncfs(fd: int) -> None:
        # Not in `os`. Since Linux 5.8 it reports the errors of everything that it wrote.
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syncfs(fd) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    @staticmethod
    def try_lock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    @staticmethod
    def scan(path: str) -> list[tuple[str, bool]]:
        with os.scandir(path) as entries:
            return [(entry.name, entry.is_dir()) for entry in entries]

    @staticmethod
    def stat_size(path: str) -> int:
        return os.stat(path).st_size

    @staticmethod
    def stat_time(path: str) -> float:
        return os.stat(path).st_mtime

    @staticmethod
    def space(path: str) -> tuple[int, int]:
        volume = os.statvfs(path)
        return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open descriptors to the hard limit; return the limit in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (ValueError, OSError):
            pass  # not permitted: the soft limit stays
    if soft == resource.RLIM_INFINITY:
        return MAX_OPEN_FILES * 2
    return soft


def files_allowed() -> int:
    """The number of file descriptors that the pool may hold, from the limit of the process."""
    return max(16, min(MAX_OPEN_FILES, int(raise_descriptor_limit() * FILE_SHARE)))


def process_id() -> int:
    """The id of this process, for the lock file."""
    return os.getpid()
