"""What all benchmarks share: the broker as a process, its processor time and memory, and the row that a result is."""

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
STOP_TIMEOUT_S = 240  # a stop may have to bring thousands of files to a slow disk first
ADMIN_TIMEOUT_S = 120
START_POLL_S = 0.002
GB = 1e9
MB = 1e6


@dataclass(frozen=True)
class Row:
    """One line of the table. `limit` is what was promised; None where a number is shown for comparison only."""

    name: str
    measured: float
    unit: str
    limit: float | None
    at_least: bool = False
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """How much of the promise was used: up to 1.0 is kept, whichever way the promise points."""
        if self.limit is None:
            return None
        return self.limit / self.measured if self.at_least else self.measured / self.limit

    @property
    def met(self) -> bool:
        return self.ratio is None or self.ratio <= 1.0


@dataclass
class Context:
    """A run: how long it may take, and where it may put its files."""

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
        """A file of `count` lines of 100 random characters; kept for the whole run, so that it is in the page cache."""
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
        """A directory for one benchmark, gone after it: what was written there must not weigh on the next one."""
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


class Broker:
    """A `moldau broker` process. Its data outlives it, so it can be started again; leaving the context stops it."""

    def __init__(self, data: Path, settings: Sequence[str] = ()) -> None:
        self.data = data
        self.port = free_port()
        self.address = f"{HOST}:{self.port}"
        self._settings = settings
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
        """Starts it, and gives the seconds from there to the first answered Metadata request."""
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
        """Begins to start it."""
        with (self.data.parent / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(self.command(), stdout=log, stderr=log)

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None, "the broker is not running"
        self._process.kill()
        self._process.wait()
        self._process = None

    def ask_to_stop(self) -> None:
        """SIGTERM, without waiting for what comes of it."""
        os.kill(self.pid, signal.SIGTERM)

    def wait_stopped(self) -> None:
        assert self._process is not None, "the broker is not running"
        self._process.wait(STOP_TIMEOUT_S)
        self._process = None

    def stop(self) -> float:
        """A clean stop, and the seconds that it took."""
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
        admin = AdminClient({"bootstrap.servers": self.address, "log_level": 3})
        config = {setting.replace("_", "."): value for setting, value in settings.items()}
        topic = NewTopic(name, num_partitions=partitions, replication_factor=factor, config=config)
        admin.create_topics([topic], request_timeout=ADMIN_TIMEOUT_S)[name].result(timeout=ADMIN_TIMEOUT_S)

    def delete_topic(self, name: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.address, "log_level": 3})
        admin.delete_topics([name], request_timeout=ADMIN_TIMEOUT_S)[name].result(timeout=ADMIN_TIMEOUT_S)

    def cpu_seconds(self) -> float:
        """User and system time of the process, of all its threads and of its children, ended ones included."""
        return float(sum(_cpu_seconds(process) for process in self._processes()))

    def memory_mb(self) -> float:
        """Resident memory, children included; pages that they share count more than once."""
        return float(sum(process.memory_info().rss for process in self._processes())) / MB

    def _processes(self) -> list[psutil.Process]:
        broker = psutil.Process(self.pid)
        return [broker, *broker.children(recursive=True)]


def _cpu_seconds(process: psutil.Process) -> float:
    # /proc/PID/stat counts in hundredths of a second; the clock of another process is the same sum in nanoseconds.
    # Its id is made of the inverted pid and the number 2 (all threads, scheduler's count): clock_getcpuclockid(3).
    clock = (~process.pid << 3) | 2
    times = process.cpu_times()
    return time.clock_gettime(clock) + float(times.children_user + times.children_system)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def raise_file_limit() -> None:
    """Thousands of connections need as many descriptors; children inherit the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def settle() -> None:
    """Brings to the disk what earlier runs have written: its way there would be on the next run's account."""
    os.sync()


def touch_memory(directory: Path, size: int) -> None:
    """Has the page cache hold so many bytes, and lets go of them.

    A virtual machine gets its memory from the host when it is first touched, and may have given back what it had. A
    page that comes anew costs ten times as much to write to as one that was freed a moment ago, all of it on the
    account of whoever happens to write.
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
    """How far repeats lay apart, so that a reader can judge the median."""
    if len(values) == 1:
        return "one run"
    digits = 0 if max(values) >= 1000 else 2
    return f"{min(values):,.{digits}f} to {max(values):,.{digits}f}"
