"""Broker in its own process, which tests kill and restart."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

START_TIMEOUT_S = 30
STOP_TIMEOUT_S = 30


# PR_SET_PDEATHSIG survives the exec. The signal is SIGKILL, because the broker may be paused.
_LAUNCH = """\
import os, signal, sys
try:
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
except (ImportError, OSError, AttributeError):
    pass
if os.getppid() == int(sys.argv[1]):
    os.execvp(sys.argv[2], sys.argv[2:])
"""

# For Linux, the parent is the thread that starts the process. This thread lives as long as the test process.
_STARTER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="starter")


def start_mortal(command: Sequence[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start a process that ends with this one, even if this one is killed. Its standard error is a pipe."""
    whole = [sys.executable, "-ISc", _LAUNCH, str(os.getpid()), *command]
    started = _STARTER.submit(
        subprocess.Popen, whole, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment
    )
    return started.result()


class BrokerProcess:
    """`moldau broker` on a data directory. The system chooses the port at the first start; later starts keep it."""

    start_timeout_s: float = START_TIMEOUT_S

    def __init__(
        self,
        data: Path,
        settings: dict[str, str] | None = None,
        *,
        arguments: Sequence[str] = (),
        environment: dict[str, str] | None = None,
        module: str = "moldau",
        host: str = "127.0.0.1",
        enter: Sequence[str] = (),
    ) -> None:
        self.module = module
        """The command: `python -m moldau broker ...`, or a variant for one test."""
        self.host = host
        self.enter = enter
        """A prefix of the command, for example to enter another network namespace."""
        self.data = data
        self.settings = settings or {}
        self.arguments = arguments
        self.environment = environment or {}
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._lines: list[bytes] = []
        self._reader: threading.Thread | None = None
        self._ready = threading.Event()
        self._said_ready = False

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def log(self) -> str:
        """All log lines of the broker, over all its starts."""
        return b"".join(self._lines).decode(errors="replace")

    def command(self) -> list[str]:
        command = [*self.enter, sys.executable, "-m", self.module, "broker", "--data", str(self.data)]
        command += [*self.listen_arguments(), *self.arguments]
        for name, value in self.settings.items():
            command += ["--set", f"{name}={value}"]
        return command

    def listen_arguments(self) -> list[str]:
        return ["--listen", f"{self.host}:{self.port}"]

    def start(self) -> Self:
        """Start the broker and return when it is ready."""
        return self.launch().wait_ready()

    def launch(self) -> Self:
        """Start the process without waiting until it is ready."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MOLDAU_")}
        if "MOLDAU_PURE" in os.environ:
            environment["MOLDAU_PURE"] = os.environ["MOLDAU_PURE"]
        self.process = start_mortal(self.command(), environment | self.environment)
        self._ready = threading.Event()
        self._said_ready = False
        self._reader = threading.Thread(target=self._read_log, args=(self.process, self._ready), daemon=True)
        self._reader.start()
        return self

    def wait_ready(self) -> Self:
        assert self.process is not None
        if not self._ready.wait(self.start_timeout_s) or not self._said_ready:
            self.process.kill()
            raise AssertionError(f"the broker did not start (exit code {self.process.wait()}):\n{self.log}")
        return self

    def _read_log(self, process: subprocess.Popen[bytes], ready: threading.Event) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            self._lines.append(line)
            if b": ready " in line:
                found = re.search(rb"://[^:]+:(\d+)", line)
                assert found is not None, line
                self.port = int(found[1])
                self._said_ready = True
                ready.set()
        process.stderr.close()
        ready.set()  # The process has ended: wake the waiting thread.

    def stop(self) -> int:
        """Stop the broker by SIGTERM and return its exit code."""
        self.ask_to_stop()
        return self.wait_ended()

    def ask_to_stop(self) -> None:
        """Send SIGTERM. A second SIGTERM would end the broker at once."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the broker by SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.wait_ended()

    def wait_ended(self) -> int:
        assert self.process is not None
        assert self._reader is not None
        code = self.process.wait(STOP_TIMEOUT_S)
        self._reader.join(STOP_TIMEOUT_S)
        return code

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.alive():
            if error is None:
                code = self.stop()
                assert code == 0, f"exit code {code}:\n{self.log}"
            else:
                self.kill()
                print(self.log, file=sys.stderr)
