"""Connect worker in its own process, which tests kill, freeze and ask through its REST API."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import httpx

from tests.support.process import start_mortal
from tests.support.waiting import wait_until

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
CALL_TIMEOUT_S = 30.0
REBALANCING = 409
STARTING = 503

SETTINGS = {
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


class ConnectWorker:
    """`moldau connect` against one cluster."""

    def __init__(
        self,
        bootstrap: str,
        port: int,
        settings: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        self.bootstrap = bootstrap
        self.port = port
        self.settings = {**SETTINGS, **(settings or {})}
        self.environment = dict(environment or {})
        self.arguments = arguments
        self.process: subprocess.Popen[bytes] | None = None
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=CALL_TIMEOUT_S)
        self._lines: list[bytes] = []

    @property
    def log(self) -> str:
        return b"".join(self._lines).decode(errors="replace")

    @property
    def worker_id(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        command = [sys.executable, "-m", "moldau", "connect", "-b", self.bootstrap, "--port", str(self.port)]
        command += self.arguments
        for name, value in self.settings.items():
            command += ["--set", f"{name}={value}"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MOLDAU_")}
        self.process = start_mortal(command, environment | self.environment)
        threading.Thread(target=self._read_log, args=(self.process,), daemon=True).start()
        wait_until(self._answers, "the worker answers", START_TIMEOUT_S, retry_on=(httpx.HTTPError,))
        return self

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the worker has ended:\n{self.log}"
        return self.client.get("/connectors").status_code == 200

    def _read_log(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        with process.stderr:
            for line in process.stderr:
                self._lines.append(line)

    # -- REST ---------------------------------------------------------------------------------------------------------

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The answer's body. A request during a rebalance is repeated, as Kafka Connect's clients do."""
        answer = wait_until(lambda: self._settled(method, path, body), f"{method} {path} is answered")
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def _settled(self, method: str, path: str, body: Any) -> httpx.Response | None:
        answer = self.client.request(method, path, json=body)
        return None if answer.status_code in (REBALANCING, STARTING) else answer

    def put(self, name: str, config: Mapping[str, str]) -> None:
        self.call("PUT", f"/connectors/{name}/config", dict(config))

    def status(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.call("GET", f"/connectors/{name}/status")
        return found

    def states(self, name: str) -> list[str]:
        """The state of the connector, then of its tasks."""
        status = self.status(name)
        return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]

    def wait_running(self, name: str, *, on: ConnectWorker | None = None) -> None:
        """Wait until connector and tasks are RUNNING, with `on` by that worker."""

        def running() -> bool:
            status = self.status(name)
            units = [status["connector"], *status["tasks"]]
            return len(units) > 1 and all(
                unit["state"] == "RUNNING" and (on is None or unit["worker_id"] == on.worker_id) for unit in units
            )

        wait_until(running, f"{name} runs", retry_on=(AssertionError,))

    def wait_failed(self, name: str) -> str:
        """Wait until the connector or a task is FAILED, and return its trace."""

        def trace() -> str | None:
            status = self.status(name)
            failed = [unit for unit in (status["connector"], *status["tasks"]) if unit["state"] == "FAILED"]
            return failed[0]["trace"] if failed else None

        found: str = wait_until(trace, f"{name} fails", retry_on=(AssertionError,))
        return found

    # -- ends ---------------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """End the worker and its JVM as a power loss would. The JVM is in the worker's group of processes."""
        assert self.process is not None
        self._signal_all(signal.SIGKILL)
        self.process.wait(STOP_TIMEOUT_S)

    def freeze(self) -> None:
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal_all(signal.SIGCONT)

    def stop(self) -> int:
        """Stop the worker by SIGTERM and return its exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(STOP_TIMEOUT_S)

    def _signal_all(self, number: int) -> None:
        """Signal the worker and its descendants: the JVM, and Spark's Python workers."""
        import psutil

        assert self.process is not None
        whole = [psutil.Process(self.process.pid)]
        whole += whole[0].children(recursive=True)
        for one in whole:
            try:
                one.send_signal(number)
            except psutil.NoSuchProcess:
                pass

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()
        if self.process is not None and self.process.poll() is None:
            self.thaw()
            self.kill() if kind is not None else self.stop()
        if kind is not None:
            sys.stderr.write(self.log[-8000:])
