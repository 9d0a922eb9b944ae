"""The files of a broker that lives for a test: on the machine's own disk, and never waited for."""

from __future__ import annotations

from moldau.host.calls import LinuxCalls
from moldau.host.fs import FileSystem

MAX_OPEN_FILES = 256
"""Descriptors that the logs of one broker may hold: the process belongs to somebody else's tests."""


class ScratchCalls(LinuxCalls):
    """The system's calls, but for waiting until bytes are on the platter: no test pulls the plug of this machine, and
    the page cache outlives every broker in it."""

    @staticmethod
    def fdatasync(fd: int) -> None:
        pass

    fsync = syncfs = fdatasync


class ScratchFileSystem(FileSystem):
    """Not a LocalFileSystem: that would raise the process's limit of descriptors and clean logs in a process."""

    def __init__(self) -> None:
        super().__init__(ScratchCalls(), MAX_OPEN_FILES)
