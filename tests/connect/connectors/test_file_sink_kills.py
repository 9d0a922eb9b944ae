"""A file sink in processes that are killed at any moment, or stopped and continued after a takeover."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

from tests.connect.connectors.file_sink_process import PARTITIONS

ROOT = Path(__file__).resolve().parents[3]
MODULE = "tests.connect.connectors.file_sink_process"
END = 140


def started(directory: Path, end: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", MODULE, str(directory), "parquet", str(end)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    return process


def commits(process: subprocess.Popen[str], count: int) -> None:
    assert process.stdout is not None
    for _ in range(count):
        process.stdout.readline()


def end_of(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    process.stdout.read()
    process.stdout.close()
    return process.wait(60)


def check(directory: Path, end: int) -> None:
    for source in PARTITIONS:
        files = (directory / "a" / f"partition={source.partition}").glob("*.parquet")
        numbers = [
            number for path in files for number in pq.read_table(path, partitioning=None).column("n").to_pylist()
        ]
        assert sorted(numbers) == list(range(end))


def test_killed_processes_lose_and_double_nothing(tmp_path: Path, count: Callable[[int, int], int]) -> None:
    chance = random.Random(16)
    end = count(120, 6000)
    for _ in range(count(2, 60)):
        process = started(tmp_path, end)
        commits(process, chance.randrange(1, 10))
        process.kill()
        end_of(process)
    assert end_of(started(tmp_path, end)) == 0
    check(tmp_path, end)


def test_a_process_that_continues_after_a_takeover_writes_nothing(
    tmp_path: Path, count: Callable[[int, int], int]
) -> None:
    for turn in range(count(1, 20)):
        directory = tmp_path / str(turn)
        old = started(directory, END)
        commits(old, 3 + turn)
        old.send_signal(signal.SIGSTOP)
        new = started(directory, END)
        commits(new, 2)
        old.send_signal(signal.SIGCONT)
        assert end_of(old) != 0
        assert end_of(new) == 0
        check(directory, END)
