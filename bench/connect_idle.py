"""Connect: fifty idle connectors in one process, half of them sources and half of them sinks: CPU and memory.

Each source has read its file, each sink has written its topic. After Spark's Python workers have ended by themselves,
the CPU and the memory of the worker, its JVM and all other children are measured.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from bench.connect_files import FILE_SOURCE, STRINGS
from bench.harness import Context, Row, free_port
from tests.support.connect_worker import ConnectWorker

CONNECTORS = 50
MOST_CPU = 10.0
MOST_MB = 2_000.0
SETTLE_S, QUICK_SETTLE_S = 90, 65
MEASURE_S, QUICK_MEASURE_S = 60, 20


def run(context: Context) -> Iterator[Row]:
    with (
        context.broker("transaction.two.phase.commit.enable=true") as broker,
        context.scratch("idle") as directory,
        ConnectWorker(broker.address, free_port(), STRINGS) as worker,
    ):
        for number in range(CONNECTORS // 2):
            _create_pair(worker, directory, number)
        for number in range(CONNECTORS // 2):
            worker.wait_running(f"source-{number}")
            worker.wait_running(f"sink-{number}")
        assert worker.process is not None
        time.sleep(context.sized(SETTLE_S, QUICK_SETTLE_S))
        before, began = _cpu_s(worker.process.pid), time.monotonic()
        time.sleep(context.sized(MEASURE_S, QUICK_MEASURE_S))
        # A Python process of Spark that ends meanwhile takes its CPU time along: only what still runs is compared.
        spent = sum(now - before.get(process, 0.0) for process, now in _cpu_s(worker.process.pid).items())
        share = spent / (time.monotonic() - began) * 100
        memory, processes = _memory_mb(worker.process.pid)
    note = f"{CONNECTORS} connectors, {processes} processes"
    yield Row("Connect: idle connectors, CPU", share, "% of a core", MOST_CPU, note=note)
    yield Row("Connect: idle connectors, memory", memory, "MB", MOST_MB, note=note)


def _create_pair(worker: ConnectWorker, directory: Path, number: int) -> None:
    file = directory / f"{number}.txt"
    file.write_text("first line\n")
    topic = f"idle-{number}"
    worker.put(
        f"source-{number}", {"connector.class": FILE_SOURCE, "file": str(file), "topic": topic, "tasks.max": "1"}
    )
    target = {"connector.class": "FileSink", "format": "json", "path": str(directory / "out"), "topics": topic}
    worker.put(f"sink-{number}", {**target, "tasks.max": "1"})


def _family(pid: int) -> list[psutil.Process]:
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def _cpu_s(pid: int) -> dict[int, float]:
    """CPU seconds by process id."""
    return {one.pid: sum(one.cpu_times()[:2]) for one in _family(pid)}


def _memory_mb(pid: int) -> tuple[float, int]:
    family = _family(pid)
    return sum(one.memory_info().rss for one in family) / 1e6, len(family)
