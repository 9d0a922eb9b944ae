"""Compaction: speed, memory use, and the effect on clients.

A compacted topic is filled with 100-byte keyed records in batches of 16 KB. Then its `min.cleanable.dirty.ratio` is
lowered, and the cleaner starts. Its speed is the size of the complete segments divided by the CPU time of the worker
process, which does both passes. The client is one connection that repeatedly produces a record to another topic and
fetches it: its p99 during compaction is compared with its p99 just before.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from bench import frames
from bench.harness import ADMIN_TIMEOUT_S, HOST, MB, Broker, Context, Row, median, percentile, spread
from moldau.records import BatchRecord, encode_batch

TOPIC, CLIENTS_TOPIC = "compacted", "clients"
RECORDS_PER_BATCH = 150  # 16 KB
KEYS = 400_000
VALUE = b"x" * 84  # together with a key of 16 bytes
IN_FLIGHT = 20
SEGMENT_BYTES = 32 << 20
LEAST_MB_S = 50.0
MOST_P99_RATIO = 2.0
DEDUPE_MB = 64
WORKER_BASE_MB = 48
"""Memory of the process before it has read a key: the interpreter, its modules, and the read and write buffers."""

PAUSE_S = 0.002
SETTINGS = ("log.cleaner.backoff.ms=100", f"log.cleaner.dedupe.buffer.size={DEDUPE_MB * 1_000_000}")
PATIENCE_S = 300


@dataclass
class Run:
    """The result of one compaction."""

    mb_per_second: float
    worker_mb: float
    p99_before: float
    p99_during: float


def run(context: Context) -> Iterator[Row]:
    size = context.sized(600_000_000, 250_000_000)
    runs = []
    for _ in range(context.sized(3, 1)):
        runs.append(_run(context, size))
        one = runs[-1]
        context.say(
            f"cleaner: {one.mb_per_second:.0f} MB/s per core, {one.worker_mb:.0f} MB; "
            f"p99 {one.p99_before * 1000:.2f} ms before, {one.p99_during * 1000:.2f} ms during"
        )
    speeds = [one.mb_per_second for one in runs]
    ratios = [one.p99_during / one.p99_before for one in runs]
    yield Row(
        "Compaction, 100-byte keyed records", median(speeds), "MB/s per core", LEAST_MB_S, at_least=True,
        note=f"{size / MB:.0f} MB, {KEYS:,} keys, batches of 16 KB; repeats {spread(speeds)}",
    )  # fmt: skip
    yield Row(
        "Compaction: memory of the worker", max(one.worker_mb for one in runs), "MB", DEDUPE_MB + WORKER_BASE_MB,
        note=f"log.cleaner.dedupe.buffer.size of {DEDUPE_MB} MB, and {WORKER_BASE_MB} MB for the process",
    )  # fmt: skip
    yield Row(
        "Clients' p99 while a log is compacted", median(ratios), "x", MOST_P99_RATIO,
        note=f"produce and fetch one record: {median([one.p99_during for one in runs]) * 1000:.2f} against "
        f"{median([one.p99_before for one in runs]) * 1000:.2f} ms; repeats {spread(ratios)}",
    )  # fmt: skip


def _run(context: Context, size: int) -> Run:
    with context.broker(*SETTINGS) as broker:
        broker.create_topic(
            TOPIC, 1, cleanup_policy="compact", min_cleanable_dirty_ratio="1.0", segment_bytes=str(SEGMENT_BYTES)
        )
        broker.create_topic(CLIENTS_TOPIC, 1)
        complete = _fill(broker, size)
        with frames.connect(HOST, broker.port) as connection:
            client = _Client(connection)
            client.measure(lambda: client.rounds < 200)  # warm-up
            before = client.measure(lambda: client.rounds < 1500)
            done = _Checkpoint(broker.data / "cleaner-offset-checkpoint", complete.end_offset)
            worker_cpu = _let_it_be_cleaned(broker)
            during = client.measure(lambda: not done())
            worker = worker_cpu()
        cpu = worker.cpu_times()
        return Run(
            complete.bytes / MB / (cpu.user + cpu.system),
            _peak_mb(worker.pid),
            percentile(before, 0.99),
            percentile(during, 0.99),
        )


@dataclass
class Complete:
    """The segments that can be cleaned: all except the last."""

    end_offset: int
    bytes: int


def _fill(broker: Broker, size: int) -> Complete:
    chance = random.Random(1)
    sent = written = 0
    with frames.connect(HOST, broker.port) as connection:
        while written < size:
            records = (
                BatchRecord(number, 0, b"key-%012d" % chance.randrange(KEYS), VALUE)
                for number in range(RECORDS_PER_BATCH)
            )
            batch = bytes(encode_batch(records))
            connection.sendall(frames.produce(TOPIC, 0, batch))
            written += len(batch)
            sent += 1
            if sent > IN_FLIGHT:
                _taken(connection)
        for _ in range(min(sent, IN_FLIGHT)):
            _taken(connection)
    segments = {int(path.stem): path.stat().st_size for path in (broker.data / f"{TOPIC}-0").glob("*.log")}
    last = max(segments)
    assert last > sent * RECORDS_PER_BATCH // 2, "too few complete segments to clean"
    return Complete(last, sum(segments.values()) - segments[last])


def _taken(connection: socket.socket) -> None:
    code = frames.produce_error(frames.receive(connection))
    assert code == 0, f"produce answered {code}"


def _let_it_be_cleaned(broker: Broker) -> Callable[[], psutil.Process]:
    """Lower the ratio. Returns a function that finds the worker process, which the first job starts."""
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 3})
    lower = ConfigEntry("min.cleanable.dirty.ratio", "0.01", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[lower])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(timeout=ADMIN_TIMEOUT_S)
    parent = psutil.Process(broker.pid)

    def worker() -> psutil.Process:
        found = [child for child in parent.children() if "moldau.log.clean.worker" in " ".join(child.cmdline())]
        assert len(found) == 1, f"{len(found)} workers"
        return found[0]

    return worker


class _Checkpoint:
    """Whether the cleaner's checkpoint has reached the last complete segment."""

    def __init__(self, path: Path, offset: int) -> None:
        self._path = path
        self._offset = offset
        self._deadline = time.perf_counter() + PATIENCE_S

    def __call__(self) -> bool:
        assert time.perf_counter() < self._deadline, "the cleaner did not finish in time"
        if not self._path.exists():
            return False
        lines = [line.split() for line in self._path.read_text().splitlines()[2:]]
        return any(line[0] == TOPIC and int(line[2]) >= self._offset for line in lines)


class _Client:
    """Produces a record and fetches it, with a short pause, and measures the time of each round."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._offset = 0
        self._produce = frames.produce(CLIENTS_TOPIC, 0, frames.batch(1))
        self.rounds = 0

    def measure(self, go_on: Callable[[], bool]) -> list[float]:
        """The seconds of each round, while `go_on` returns True."""
        times = []
        self.rounds = 0
        while go_on():
            began = time.perf_counter()
            code = frames.produce_error(frames.call(self._connection, self._produce))
            assert code == 0, f"produce answered {code}"
            fetch = frames.fetch(CLIENTS_TOPIC, 0, self._offset, max_bytes=10_000)
            code, size = frames.fetched(frames.call(self._connection, fetch))
            assert code == 0, f"fetch answered {code}"
            assert size > 0, "the record did not arrive"
            times.append(time.perf_counter() - began)
            self._offset += 1
            self.rounds += 1
            time.sleep(PAUSE_S)
        return times


def _peak_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / MB
    raise AssertionError("no VmHWM in /proc: this is not Linux")
