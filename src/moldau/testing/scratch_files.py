"""Scratch files of a test broker: on the machine's disk, without fsync."""

from __future__ import annotations

from moldau.host.fs import FileSystem
from moldau.host.syscalls import LinuxCalls

MAX_OPEN_FILES = 256
"""Maximum number of descriptors for the logs of one broker, because the test process needs its own."""


class ScratchCalls(LinuxCalls):
    """The real system calls, but without waiting until bytes are on disk: no test cuts the machine's power, and the
    page cache outlives every broker."""

    @staticmethod
    def fdatasync(fd: int) -> None:
        pass

    fsync = syncfs = fdatasync


class ScratchFileSystem(FileSystem):
    """Not a LocalFileSystem: that would raise the process's descriptor limit, and clean logs in a separate process."""

    def __init__(self) -> None:
        super().__init__(ScratchCalls(), MAX_OPEN_FILES)
