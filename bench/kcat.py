"""Load from kcat, and the batches that it really produced, read from the segments."""

from __future__ import annotations

import shutil
import struct
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_S = 300
_BATCH_HEADER_BYTES = 61


class KcatMissingError(Exception):
    """kcat is not installed on this machine."""


@dataclass(frozen=True)
class Stored:
    """The content of a topic's segments."""

    batches: int
    records: int
    bytes: int

    @property
    def batch_bytes(self) -> float:
        return self.bytes / max(self.batches, 1)

    @property
    def batch_records(self) -> float:
        return self.records / max(self.batches, 1)


def produce(address: str, topic: str, lines: Path, settings: Sequence[str], processes: int = 1) -> float:
    """Send all lines as records, once per process; returns the seconds until the last acknowledgement."""
    queue = ("queue.buffering.max.messages=5000000", "queue.buffering.max.kbytes=1048576")
    options = _options([*queue, "acks=1", *settings])
    return _run([["kcat", "-P", "-b", address, "-t", topic, "-l", str(lines), *options]] * processes)


def consume(address: str, topic: str, settings: Sequence[str] = ()) -> float:
    """Read a topic from beginning to end and discard it; returns the seconds."""
    big = (
        "fetch.message.max.bytes=10485760",
        "fetch.max.bytes=52428800",
        "queued.max.messages.kbytes=1048576",
        "fetch.error.backoff.ms=0",
    )
    # An empty format, so that kcat spends its time on fetching, not on printing.
    shape = ("-o", "beginning", "-e", "-q", "-f", "")
    return _run([["kcat", "-C", "-b", address, "-t", topic, *shape, *_options([*big, *settings])]])


def segments(data: Path, topic: str) -> list[Path]:
    return sorted(data.glob(f"{topic}-*/*.log"))


def stored(data: Path, topic: str) -> Stored:
    """Count batches, records and bytes from the batch headers of every partition of a topic."""
    batches = records = size = 0
    for segment in segments(data, topic):
        with segment.open("rb") as file:
            end = segment.stat().st_size
            at = 0
            while at + _BATCH_HEADER_BYTES <= end:
                file.seek(at)
                header = file.read(_BATCH_HEADER_BYTES)
                batches += 1
                records += struct.unpack_from(">i", header, 57)[0]
                at += 12 + struct.unpack_from(">i", header, 8)[0]
            size += at
    return Stored(batches, records, size)


def _options(settings: Sequence[str]) -> list[str]:
    return [argument for setting in settings for argument in ("-X", setting)]


def _run(commands: list[list[str]]) -> float:
    if shutil.which("kcat") is None:
        raise KcatMissingError("kcat is not installed")
    began = time.perf_counter()
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
    try:
        codes = [process.wait(TIMEOUT_S) for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
    if any(codes):
        raise RuntimeError(f"kcat ended with exit codes {codes}")
    return time.perf_counter() - began
