"""Child processes of a command, which never outlive it.

A child has its own session, so that Ctrl-C in a terminal reaches only the command, which then ends its children in the
right order. If the command is killed, the kernel signals the child (Linux).

The thread that starts a child must live as long as the child: the kernel watches the thread, not the process.
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

# A bare interpreter runs this and then becomes the program: the request to the kernel survives the exec. If the parent
# died before the request, the process id of the parent has changed.
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
    """The command must end, because of Ctrl-C or SIGTERM. Raised in the main thread at any point."""


class Stopping:
    """Signal handling: inside `with`, the first SIGINT or SIGTERM raises `StopAsked`.

    After `begin`, while the children are being ended, another signal kills them and ends the command at once.
    """

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
        """From now on, `StopAsked` is not raised any more."""
        self._children = list(children)

    def _signalled(self, _number: int, _frame: FrameType | None) -> None:
        if self._children is None:
            self._children = []
            raise StopAsked
        if not self._children:
            return  # a second signal before `begin`: ignored
        for child in self._children:
            child.kill()
        os._exit(EXIT_INTERRUPTED)


class ChildProcess:
    """One running child process."""

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
        """`keeps` are open files that the child inherits: it holds a lock on one of them as long as it lives."""
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
        """The way it ended, as a message for the user: "exit code 1", "killed by signal 9"."""
        code = self.process.wait()
        return f"killed by signal {-code}" if code < 0 else f"exit code {code}"

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Ask the child to end, and kill it after the timeout. Return its exit code, negative for a signal."""
        self.terminate()
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return self.kill()

    def terminate(self) -> None:
        if self.alive:
            self.process.send_signal(signal.SIGTERM)
            self.process.send_signal(signal.SIGCONT)  # a stopped process would not handle SIGTERM

    def kill(self) -> int:
        """Kill the child."""
        if self.alive:
            self.process.kill()
        return self.process.wait(KILL_TIMEOUT_S)


def first_to_end(children: Sequence[ChildProcess]) -> ChildProcess:
    """Wait until one of them has ended. They must be all children of this process."""
    while True:
        # Do not reap it here: `ending` needs its exit status.
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        for child in children:
            if not child.alive:
                return child
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG)  # reap a child that we do not know
