"""A helper process and the pipe to it: for work that must not share the broker's interpreter.

Messages are bytes with their length before them. The child ends when its parent does, however that ends: it must never
go on writing into directories that another broker has taken over.
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
"""No message is larger; one that says so is from somebody else."""

NICENESS = 10
"""How much the child stands back where processors are scarce."""

_LENGTH = Struct(">I")
_PR_SET_PDEATHSIG = 1


class BrokenPipeToChild(ConnectionError):
    """The child is gone, or spoke nonsense."""


class Child:
    """A running `python -m MODULE`, as its parent sees it. For one loop, one conversation at a time."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._input = process.stdin
        self._output = process.stdout

    @classmethod
    async def start(cls, module: str) -> Child:
        """Starts it. OSError where the system does not let us."""
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
            raise BrokenPipeToChild(f"process {self.pid} takes no message: {error}") from error

    async def receive(self) -> bytes:
        try:
            (length,) = _LENGTH.unpack(await self._output.readexactly(_LENGTH.size))
            if length > MAX_MESSAGE_BYTES:
                raise BrokenPipeToChild(f"process {self.pid} announces a message of {length} bytes")
            return await self._output.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise BrokenPipeToChild(f"process {self.pid} has ended") from error

    async def kill(self) -> None:
        """Ends it at once, and waits until it has."""
        try:
            self._process.kill()
        except ProcessLookupError:
            pass  # it was faster
        await self._process.wait()
        self._input.close()


class Parent:
    """The other end: the pipe of this process to the one that started it."""

    def __init__(self) -> None:
        """Ties our life to the parent's, and makes us modest."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the broker, which ends us in its own time
        import ctypes  # only here: the broker has no use for it, and pays for every import at its start

        self._pid = int(sys.argv[1])
        try:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        except (OSError, AttributeError):
            pass  # not Linux: `alive` is asked often enough
        os.nice(NICENESS)

    def alive(self) -> bool:
        """Whether the parent still lives: one that died has made us somebody else's child."""
        return os.getppid() == self._pid

    def receive(self) -> bytes | None:
        """The next message; None when there will be none."""
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
    """Have it called in every process that forks off this one: its threads are gone, and locks may be held for ever."""
    os.register_at_fork(after_in_child=callback)
