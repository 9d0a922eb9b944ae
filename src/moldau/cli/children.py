"""Programs that a command runs beside itself, and that never outlive it, however it ends.

A child is in a session of its own, so that Ctrl-C at a terminal reaches only the command, which ends its children in
the order that suits them. Should the command be killed outright, the kernel tells the child (Linux).

It must be started by a thread that lives as long as the child may: the kernel watches the thread, not the process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import FrameType, TracebackType
from typing import IO, Any, Final, Self

from moldau.cli.output import EXIT_INTERRUPTED

STOP_TIMEOUT_S: Final = 30.0
KILL_TIMEOUT_S: Final = 10.0

# Run by a bare interpreter that becomes the program: what the kernel was asked to do survives the exec. A parent that
# died before the kernel was asked is noticed by its process id.
_LAUNCH: Final = """\
import os, signal, sys
try:
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
except (ImportError, OSError, AttributeError):
    pass
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execvp(sys.argv[2], sys.argv[2:])
"""


class StopAsked(BaseException):
    """Somebody wants the command to end: Ctrl-C, or SIGTERM. Raised in the main thread, wherever that is."""


class Stopping:
    """Inside of its `with` the first SIGINT or SIGTERM raises `StopAsked`. From `begin` on, which is where children are
    being ended, another one ends them and the command at once."""

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._children: Sequence[ChildProcess] | None = None

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._signalled)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def begin(self, children: Sequence[ChildProcess]) -> None:
        """No `StopAsked` comes any more."""
        self._children = list(children)

    def _signalled(self, _number: int, _frame: FrameType | None) -> None:
        if self._children is None:
            self._children = []
            raise StopAsked
        if not self._children:
            return  # asked again before the stop has begun: once is enough
        for child in self._children:
            child.kill()
        os._exit(EXIT_INTERRUPTED)


class ChildProcess:
    """One running program."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        stdout: int | IO[bytes] = subprocess.DEVNULL,
        stderr: int | IO[bytes] = subprocess.DEVNULL,
        environment: Mapping[str, str] | None = None,
        directory: str | None = None,
        keeps: Sequence[int] = (),
    ) -> None:
        """`keeps` are open files that the child has, too: a lock on one is held for as long as it lives."""
        self.name = name
        launcher = [sys.executable, "-ISc", _LAUNCH, str(os.getpid())]
        self.process = subprocess.Popen(
            [*launcher, *command],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=None if environment is None else dict(environment),
            cwd=directory,
            start_new_session=True,
            pass_fds=keeps,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def ending(self) -> str:
        """How it ended, for a person: "exit code 1", "killed by signal 9"."""
        code = self.process.wait()
        return f"killed by signal {-code}" if code < 0 else f"exit code {code}"

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Asks it to end, and makes it where it does not; its exit code, negative for a signal's number."""
        self.terminate()
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return self.kill()

    def terminate(self) -> None:
        if self.alive:
            self.process.send_signal(signal.SIGTERM)
            self.process.send_signal(signal.SIGCONT)  # one that is paused would never see it

    def kill(self) -> int:
        """Ends it at once."""
        if self.alive:
            self.process.kill()
        return self.process.wait(KILL_TIMEOUT_S)


def first_to_end(children: Sequence[ChildProcess]) -> ChildProcess:
    """Waits until one of them has ended. They are all the children that this process has."""
    while True:
        # Not reaped here: that is for whoever asks the child how it ended.
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        for child in children:
            if not child.alive:
                return child
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG)  # nobody's that we know
