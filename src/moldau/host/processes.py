"""Child process with a message pipe, for work that must not share the broker's interpreter.

Messages are bytes with a length prefix. The child ends when its parent ends, for whatever reason: it must never write
into directories that another broker has taken over.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from struct import Struct

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""The size limit of a message; a larger length means that the stream is corrupt."""

NICENESS = 10
"""The nice value of the child, so that the broker has priority on a busy machine."""

_LENGTH = Struct(">I")
_PR_SET_PDEATHSIG = 1


class BrokenPipeToChild(ConnectionError):
    """The child has ended, or sent an invalid message."""


class Child:
    """A running `python -m MODULE`, as seen by its parent. For one event loop, one conversation at a time."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._input = process.stdin
        self._output = process.stdout

    @classmethod
    async def start(cls, module: str) -> Child:
        """Start the process. OSError if that fails."""
        command = (sys.executable, "-m", module, str(os.getpid()))
        return cls(await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE))

    @property
    def pid(self) -> int:
        return self._process.pid

    async def send(self, message: bytes) -> None:
        try:
            self._input.write(_LENGTH.pack(len(message)) + message)
            await self._input.drain()
        except ConnectionError as error:
            raise BrokenPipeToChild(f"process {self.pid} does not accept messages: {error}") from error

    async def receive(self) -> bytes:
        try:
            (length,) = _LENGTH.unpack(await self._output.readexactly(_LENGTH.size))
            if length > MAX_MESSAGE_BYTES:
                raise BrokenPipeToChild(f"process {self.pid} announced a message of {length} bytes, over the limit")
            return await self._output.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise BrokenPipeToChild(f"process {self.pid} has ended") from error

    async def kill(self) -> None:
        """Kill the process, and wait until it has ended."""
        try:
            self._process.kill()
        except ProcessLookupError:
            pass  # it has ended already
        await self._process.wait()
        self._input.close()


class Parent:
    """The child's end of the pipe to its parent."""

    def __init__(self) -> None:
        """Make this process end with its parent, and lower its priority."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the broker, which ends this process itself
        import ctypes  # only here: the broker does not need it, and each import delays its start

        self._pid = int(sys.argv[1])
        try:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        except (OSError, AttributeError):
            pass  # not Linux: the worker calls `alive` often enough
        os.nice(NICENESS)

    def alive(self) -> bool:
        """Whether the parent is alive; after its death this process gets another parent."""
        return os.getppid() == self._pid

    def receive(self) -> bytes | None:
        """The next message; None if there will be no more."""
        head = self._read(_LENGTH.size)
        if len(head) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack(head)
        if length > MAX_MESSAGE_BYTES:
            return None
        message = self._read(length)
        return message if len(message) == length else None

    def _read(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            part = os.read(0, count - len(data))
            if not part:
                break
            data += part
        return bytes(data)

    def send(self, message: bytes) -> None:
        rest = memoryview(_LENGTH.pack(len(message)) + message)
        while rest:
            rest = rest[os.write(1, rest) :]

    @staticmethod
    def sleep(seconds: float) -> None:
        time.sleep(seconds)


def in_forked_children(callback: Callable[[], None]) -> None:
    """Call `callback` in every process forked from this one, where threads are gone and locks may be held forever."""
    os.register_at_fork(after_in_child=callback)
