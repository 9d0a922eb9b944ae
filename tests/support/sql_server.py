"""SQL server in its own process, which tests kill, freeze and ask through its REST API."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import psutil

from tests.support.process import start_mortal
from tests.support.waiting import wait_until

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 60.0
CALL_TIMEOUT_S = 60.0

SETTINGS = {
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
    "moldau.sql.restart.pause.ms": "200",
    "moldau.sql.restart.max.failures": "3",
    "moldau.sql.report.interval.ms": "500",
}


class SqlServerProcess:
    """`moldau sql serve` against one cluster."""

    def __init__(self, bootstrap: str, port: int, state: Path, settings: Mapping[str, str] | None = None) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self._command = [sys.executable, "-m", "moldau", "sql", "serve", "-b", bootstrap, "--port", str(port)]
        self._command += ["--state-dir", str(state), "--log-level", "info"]
        for name, value in {**SETTINGS, **(settings or {})}.items():
            self._command += ["--set", f"{name}={value}"]
        self.process: subprocess.Popen[bytes] | None = None
        self.client = httpx.Client(base_url=self.url, timeout=CALL_TIMEOUT_S)
        self._lines: list[bytes] = []

    @property
    def log(self) -> str:
        return b"".join(self._lines).decode(errors="replace")

    def start(self, role: str | None = None) -> Self:
        """Start the server, and wait until it answers; with `role` until it has that role."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MOLDAU_")}
        self.process = start_mortal(self._command, environment)
        threading.Thread(target=self._read_log, args=(self.process,), daemon=True).start()
        self.wait_role(role)
        return self

    def wait_role(self, role: str | None) -> None:
        def reached() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, f"the server has ended:\n{self.log}"
            found = self.client.get("/health").json()["role"]
            return found == role or (role is None and found != "starting")

        wait_until(reached, f"the server is {role}", START_TIMEOUT_S, retry_on=(httpx.HTTPError,))

    def _read_log(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        with process.stderr:
            for line in process.stderr:
                self._lines.append(line)

    # -- REST ----------------------------------------------------------------------------------------------------------

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The answer's body. A request while no server leads is repeated."""

        def settled() -> httpx.Response | None:
            answer = self.client.request(method, path, json=body)
            return None if answer.status_code in (409, 502, 503) else answer

        answer = wait_until(settled, f"{method} {path} is answered", START_TIMEOUT_S, retry_on=(httpx.HTTPError,))
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def status(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.call("GET", f"/queries/{name}")["status"] or {"state": None}
        return found

    def wait_state(self, name: str, state: str) -> dict[str, Any]:
        def reached() -> dict[str, Any] | None:
            status = self.status(name)
            return status if status["state"] == state else None

        found: dict[str, Any] = wait_until(reached, f"{name} is {state}", START_TIMEOUT_S)
        return found

    # -- ends ----------------------------------------------------------------------------------------------------------

    def processes(self) -> list[psutil.Process]:
        """The server and its descendants: the JVM, and Spark's Python workers."""
        assert self.process is not None
        whole = psutil.Process(self.process.pid)
        return [whole, *whole.children(recursive=True)]

    def jvm(self) -> psutil.Process:
        found = [one for one in self.processes() if _name_of(one) == "java"]
        assert len(found) == 1, found
        return found[0]

    def kill(self) -> None:
        """End the server's process. Its JVM learns of it, as after a crash."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(STOP_TIMEOUT_S)

    def freeze(self) -> None:
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal_all(signal.SIGCONT)

    def stop(self) -> int:
        """Stop the server by SIGTERM and return its exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(STOP_TIMEOUT_S)

    def _signal_all(self, number: int) -> None:
        for one in self.processes():
            try:
                one.send_signal(number)
            except psutil.NoSuchProcess:
                pass

    def __enter__(self) -> Self:
        return self if self.process is not None else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()
        if self.process is not None and self.process.poll() is None:
            self.thaw()
            self.kill() if kind is not None else self.stop()
        if kind is not None:
            sys.stderr.write(self.log[-8000:])


def _name_of(process: psutil.Process) -> str | None:
    """None if the process has ended: Spark's Python workers come and go."""
    try:
        return str(process.name())
    except psutil.NoSuchProcess:
        return None
