"""Schema registry in its own process, which tests kill, freeze and ask through its REST API."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import httpx

from tests.support.process import start_mortal
from tests.support.waiting import wait_until

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 60.0
CALL_TIMEOUT_S = 60.0

SETTINGS = {
    "session.timeout.ms": "2000",
    "heartbeat.interval.ms": "200",
    "kafkastore.topic.replication.factor": "1",
}


class RegistryServer:
    """`moldau registry` against one cluster. The system chooses the port at the first start; later starts keep it."""

    def __init__(self, bootstrap: str, settings: Mapping[str, str] | None = None) -> None:
        self.bootstrap = bootstrap
        self.settings = {**SETTINGS, **(settings or {})}
        self.port = _free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self._lines: list[bytes] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return b"".join(self._lines).decode(errors="replace")

    def launch(self) -> Self:
        """Start the process, without waiting for it."""
        command = [sys.executable, "-m", "moldau", "registry", "-b", self.bootstrap, "--port", str(self.port)]
        command += ["--log-level", "info"]
        for name, value in self.settings.items():
            command += ["--set", f"{name}={value}"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MOLDAU_")}
        self.process = start_mortal(command, environment)
        threading.Thread(target=self._read_log, args=(self.process,), daemon=True).start()
        return self

    def wait_ready(self) -> Self:
        wait_until(self._answers, "the registry answers", START_TIMEOUT_S, retry_on=(httpx.HTTPError,))
        return self

    def start(self) -> Self:
        return self.launch().wait_ready()

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the registry has ended:\n{self.log}"
        return httpx.get(f"{self.url}/subjects", timeout=CALL_TIMEOUT_S).status_code == 200

    def _read_log(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        with process.stderr:
            for line in process.stderr:
                self._lines.append(line)

    @property
    def leader(self) -> str | None:
        """The URL of the leader, as this registry has learned it last."""
        found = re.findall(r"registries have a leader leader=(\S+)", self.log)
        return found[-1] if found and found[-1] != "None" else None

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    # -- ends ----------------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """End the registry as a power loss would."""
        self._signal(signal.SIGKILL)
        assert self.process is not None
        self.process.wait(STOP_TIMEOUT_S)

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self) -> int:
        """End it cleanly, and return its exit code."""
        self._signal(signal.SIGTERM)
        assert self.process is not None
        return self.process.wait(STOP_TIMEOUT_S)

    def _signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
