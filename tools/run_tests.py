"""Runs all tests, several parts of them side by side; `make test` calls it.

Most tests wait most of the time: for a process to start, for a session to end. So one part more is at work than there
are cores, and those that take longest begin first. Each part is a run of pytest of its own, whose report is shown when
it is done; at the end there is a line for each, and what went unchecked. Exits with 1 if any of them failed.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple, NoReturn

ROOT = Path(__file__).resolve().parent.parent
AT_ONCE = (os.cpu_count() or 1) + 1

PARTS = (
    "tests",
    "tests/system",
    "tests/spark",
    "tests/client",
    "tests/system/cluster",
    "tests/compat",
    "tests/sim",
)
"""In the order in which they begin. What is inside of another one is left out there."""

UNCHECKED = re.compile(r"(\x1b\[[0-9;]*m)*WARNING: ")
"""How the tests' summaries begin a line about what they could not do here."""


class Report(NamedTuple):
    """What a run of pytest came to."""

    name: str
    code: int
    seconds: float
    text: str

    def __str__(self) -> str:
        return f"{self.name:20} {self.seconds:4.0f} s  {'passed' if self.code == 0 else 'FAILED'}"


class Parts:
    """Runs of pytest, each with a report of its own; those that are at work can be told to end."""

    def __init__(self) -> None:
        self._at_work: dict[str, subprocess.Popen[bytes]] = {}
        self.no_more = False

    def run(self, name: str) -> Report:
        began = time.monotonic()
        inner = [part for part in PARTS if part.startswith(f"{name}/")]
        command = [sys.executable, "-m", "pytest", name, *(f"--ignore={part}" for part in inner)]
        if sys.stdout.isatty():
            command.append("--color=yes")
        # A file and no pipe: what a test has failed to end would keep a pipe open for ever.
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            if self.no_more:
                return Report(name, 1, 0, "")
            print(f"    {name} begins", flush=True)
            self._at_work[name] = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=ROOT)
            code = self._at_work[name].wait()
            del self._at_work[name]
            output.seek(0)
            return Report(name, code, time.monotonic() - began, output.read())

    def end(self) -> None:
        """As Ctrl-C does, for those that have not heard it themselves: tests end what they have started."""
        self.no_more = True
        for process in list(self._at_work.values()):
            process.send_signal(signal.SIGINT)


def main() -> int:
    signal.signal(signal.SIGTERM, _told_to_end)
    parts, reports = Parts(), []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            for done in as_completed([pool.submit(parts.run, name) for name in PARTS]):
                reports.append(done.result())
                print(f"==> {reports[-1]}\n{reports[-1].text}", flush=True)
        except KeyboardInterrupt:
            parts.no_more = True
            raise
        except SystemExit:
            parts.end()
            raise
    for report in reports:
        print(report, *filter(UNCHECKED.match, report.text.splitlines()), sep="\n")
    return int(any(report.code for report in reports))


def _told_to_end(*_: object) -> NoReturn:
    sys.exit(1)


if __name__ == "__main__":
    sys.exit(main())
