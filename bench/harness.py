"""Benchmark harness: the broker as a process, its CPU time and memory, and the row of a result."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psutil
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench import frames

HOST = "127.0.0.1"
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 240  # a stop may have to write thousands of files to a slow disk
ADMIN_TIMEOUT_S = 120
START_POLL_S = 0.002
GB = 1e9
MB = 1e6


@dataclass(frozen=True)
class Row:
    """One line of the table. `limit` is the promised value; None if a number is shown only for comparison."""

    name: str
    measured: float
    unit: str
    limit: float | None
    at_least: bool = False
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """The share of the limit that was used: up to 1.0 is within the limit, for both kinds of limits."""
        if self.limit is None:
            return None
        return self.limit / self.measured if self.at_least else self.measured / self.limit

    @property
    def met(self) -> bool:
        return self.ratio is None or self.ratio <= 1.0


@dataclass
class Context:
    """A run of benchmarks: its size, and the directory for its files."""

    directory: Path
    quick: bool
    say: Callable[[str], None]
    _lines: dict[int, Path] = field(default_factory=dict)

    @property
    def repeats(self) -> int:
        return 2 if self.quick else 5

    def sized(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    def lines(self, count: int) -> Path:
        """A file of `count` lines of 100 random characters. It is kept for the whole run, so it stays in the page
        cache."""
        if count not in self._lines:
            path = self.directory / f"{count}.lines"
            text = os.urandom(500_000).hex()
            block = "".join(f"{text[at : at + 100]}\n" for at in range(0, len(text), 100)).encode()
            with path.open("wb") as file:
                for _ in range(count // 10_000):
                    file.write(block)
            self._lines[count] = path
        return self._lines[count]

    @contextlib.contextmanager
    def scratch(self, name: str) -> Iterator[Path]:
        """A directory for one benchmark, deleted after it, so that its data does not affect the next one."""
        path = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.directory))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    @contextlib.contextmanager
    def broker(self, *settings: str) -> Iterator[Broker]:
        with self.scratch("broker") as directory, Broker(directory / "data", settings) as broker:
            broker.start()
            yield broker


def create_topic(address: str, name: str, partitions: int, factor: int = 1, **settings: str) -> None:
    admin = AdminClient({"bootstrap.servers": address, "log_level": 3})
    config = {setting.replace("_", "."): value for setting, value in settings.items()}
    topic = NewTopic(name, num_partitions=partitions, replication_factor=factor, config=config)
    admin.create_topics([topic], request_timeout=ADMIN_TIMEOUT_S)[name].result(timeout=ADMIN_TIMEOUT_S)


class Broker:
    """A `moldau broker` process. Its data outlives it, so it can be started again; leaving the context stops it."""

    def __init__(self, data: Path, settings: Sequence[str] = (), other_listeners: Sequence[str] = ()) -> None:
        self.data = data
        self.port = free_port()
        self.address = f"{HOST}:{self.port}"
        self._settings = list(settings)
        if other_listeners:
            self._settings.append(f"listeners={','.join([f'PLAINTEXT://{self.address}', *other_listeners])}")
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None

    def command(self) -> list[str]:
        program = str(Path(sys.executable).with_name("moldau"))
        overrides = [f"--set={setting}" for setting in self._settings]
        place = ["--data", str(self.data), "--listen", self.address]
        return [program, "broker", "--log-level", "warning", *place, *overrides]

    def start(self) -> float:
        """Start it; returns the seconds until the first answered Metadata request."""
        began = time.perf_counter()
        self.launch()
        assert self._process is not None
        deadline = began + START_TIMEOUT_S
        while True:
            try:
                with frames.connect(HOST, self.port) as connection:
                    frames.call(connection, frames.metadata())
                    return time.perf_counter() - began
            except OSError:
                if self._process.poll() is not None:
                    raise RuntimeError(f"the broker ended with exit code {self._process.returncode}") from None
                if time.perf_counter() > deadline:
                    self.stop()
                    raise
                time.sleep(START_POLL_S)

    def launch(self) -> None:
        """Start the process without waiting for it."""
        with (self.data.parent / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(self.command(), stdout=log, stderr=log)

    def kill(self) -> None:
        """End the process by kill -9."""
        assert self._process is not None, "the broker is not running"
        self._process.kill()
        self._process.wait()
        self._process = None

    def ask_to_stop(self) -> None:
        """Send SIGTERM without waiting."""
        os.kill(self.pid, signal.SIGTERM)

    def wait_stopped(self) -> None:
        assert self._process is not None, "the broker is not running"
        self._process.wait(STOP_TIMEOUT_S)
        self._process = None

    def stop(self) -> float:
        """Stop cleanly; returns the seconds that it took."""
        began = time.perf_counter()
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
                raise
            finally:
                self._process = None
        return time.perf_counter() - began

    def create_topic(self, name: str, partitions: int, factor: int = 1, **settings: str) -> None:
        create_topic(self.address, name, partitions, factor, **settings)

    def delete_topic(self, name: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.address, "log_level": 3})
        admin.delete_topics([name], request_timeout=ADMIN_TIMEOUT_S)[name].result(timeout=ADMIN_TIMEOUT_S)

    def cpu_seconds(self) -> float:
        """User and system time of the process, of all its threads and of its children, including ended ones."""
        return float(sum(_cpu_seconds(process) for process in self._processes()))

    def memory_mb(self) -> float:
        """Resident memory, including children; shared pages count more than once."""
        return float(sum(process.memory_info().rss for process in self._processes())) / MB

    def _processes(self) -> list[psutil.Process]:
        broker = psutil.Process(self.pid)
        return [broker, *broker.children(recursive=True)]


def _cpu_seconds(process: psutil.Process) -> float:
    # /proc/PID/stat counts in hundredths of a second; the CPU clock of the process is the same sum in nanoseconds. Its
    # id consists of the inverted pid and the number 2 (all threads, scheduler's count): clock_getcpuclockid(3).
    clock = (~process.pid << 3) | 2
    times = process.cpu_times()
    return time.clock_gettime(clock) + float(times.children_user + times.children_system)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def raise_file_limit() -> None:
    """Raise the limit of descriptors for thousands of connections; children inherit the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def settle() -> None:
    """Flush the data of earlier runs to disk: otherwise the next run would pay for it."""
    os.sync()


def touch_memory(directory: Path, size: int) -> None:
    """Fill the page cache with this many bytes, and free them again.

    A virtual machine gets its memory from the host on first use, and may have returned memory since. Writing to a page
    that is new to the virtual machine costs ten times as much as to one that was just freed, and the process that
    happens to write first pays for it.
    """
    block = os.urandom(1 << 20)
    path = directory / "memory"
    with path.open("wb", buffering=0) as file:
        for _ in range(size // len(block) + 1):
            file.write(block)
    path.unlink()


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def spread(values: Sequence[float]) -> str:
    """The range of the repeats, so that a reader can judge the median."""
    if len(values) == 1:
        return "one run"
    digits = 0 if max(values) >= 1000 else 2
    return f"{min(values):,.{digits}f} to {max(values):,.{digits}f}"
