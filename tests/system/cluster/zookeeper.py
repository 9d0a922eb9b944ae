"""ZooKeeper as a user runs it, `moldau zookeeper`: alone or as an ensemble, killed, frozen and restarted at will."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.system.cluster.network import Bridge, Loopback
from tests.system.cluster.waiting import NotYet, eventually

START_TIMEOUT_S = 30
STOP_TIMEOUT_S = 10
FOUR_LETTERS_TIMEOUT_S = 1.0
TICK_MS = 200
"""Sessions last at least two ticks: short ones keep tests short."""


class ZooKeeperProcess:
    """One server."""

    def __init__(self, data: Path, host: str, enter: Sequence[str], arguments: Sequence[str] = ()) -> None:
        self.data = data
        self.host = host
        self.port = free_port() if not enter else 2181
        self._enter = enter
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def log(self) -> str:
        path = self.data.with_suffix(".log")
        return path.read_text(errors="replace") if path.exists() else ""

    def command(self) -> list[str]:
        place = ["--data", str(self.data), "--listen", self.address]
        return [*self._enter, sys.executable, "-m", "moldau", "zookeeper", *place, *self._arguments]

    def launch(self) -> None:
        with self.data.with_suffix(".log").open("ab") as log:
            self._process = subprocess.Popen(self.command(), stdout=log, stderr=log)

    def wait_ready(self) -> None:
        eventually(self._look, START_TIMEOUT_S)

    def start(self) -> None:
        self.launch()
        self.wait_ready()

    def _look(self) -> None:
        assert self._process is not None
        assert self._process.poll() is None, f"ZooKeeper ended with {self._process.returncode}:\n{self.log}"
        with socket.create_connection((self.host, self.port), FOUR_LETTERS_TIMEOUT_S) as connection:
            connection.sendall(b"srvr")
            if b"Mode:" not in connection.recv(10_000):
                raise NotYet(f"ZooKeeper at {self.address} does not serve")

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """kill -9, of the server and of whatever has started it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_TIMEOUT_S)

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


class Ensemble:
    """One server or three. Leaving the context ends them."""

    def __init__(self, directory: Path, network: Loopback | Bridge, servers: int = 1) -> None:
        self.names = ["zookeeper"] if servers == 1 else [f"zookeeper-{number}" for number in range(1, servers + 1)]
        self.servers = [
            ZooKeeperProcess(directory / name, network.address(name), network.enter(name)) for name in self.names
        ]

    @property
    def connect(self) -> str:
        """What brokers are told."""
        return ",".join(server.address for server in self.servers)

    def start(self) -> None:
        for server in self.servers:
            server.launch()
        for server in self.servers:
            server.wait_ready()

    def kill(self) -> None:
        for server in self.servers:
            server.kill()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
