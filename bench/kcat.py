"""Load from kcat, and what its batches really were: read from the segments, not believed."""

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
    """There is no kcat on this machine."""


@dataclass(frozen=True)
class Stored:
    """What lies in the segments of a topic."""

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
    """Sends the lines as records, every process all of them; gives the seconds until the last one was acknowledged."""
    queue = ("queue.buffering.max.messages=5000000", "queue.buffering.max.kbytes=1048576")
    options = _options([*queue, "acks=1", *settings])
    return _run([["kcat", "-P", "-b", address, "-t", topic, "-l", str(lines), *options]] * processes)


def consume(address: str, topic: str, settings: Sequence[str] = ()) -> float:
    """Reads a topic from the beginning to the end, and throws it away; gives the seconds."""
    big = (
        "fetch.message.max.bytes=10485760",
        "fetch.max.bytes=52428800",
        "queued.max.messages.kbytes=1048576",
        "fetch.error.backoff.ms=0",
    )
    # An empty format: kcat then spends its time on fetching, not on printing.
    shape = ("-o", "beginning", "-e", "-q", "-f", "")
    return _run([["kcat", "-C", "-b", address, "-t", topic, *shape, *_options([*big, *settings])]])


def segments(data: Path, topic: str) -> list[Path]:
    return sorted(data.glob(f"{topic}-*/*.log"))


def stored(data: Path, topic: str) -> Stored:
    """Walks the batch headers of every partition of a topic."""
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
