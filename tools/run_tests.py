"""Test runner that runs several parts of the test suite in parallel; `make test` calls it.

Most tests spend most of their time waiting: for a process to start, for a session to expire. So the number of parallel
parts is the number of cores plus one, and the longest parts start first. Each part is a separate run of pytest, whose
report is shown when it is done. At the end there is one line per part, with its warnings about skipped checks. Exits
with 1 if any part failed.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple, NoReturn

from spark_class_archive import spark_jvm_options

ROOT = Path(__file__).resolve().parent.parent
AT_ONCE = (os.cpu_count() or 1) + 1

PARTS = (
    "tests/compat",
    "tests",
    "tests/spark",
    "tests/system",
    "tests/client",
    "tests/connect",
    "tests/connect/engine",
    "tests/sql",
    "tests/examples",
    "tests/system/cluster",
    "tests/cli",
    "tests/system/connect",
    "tests/pipelines",
    "tests/registry",
    "tests/rest",
    "tests/schemas",
    "tests/sim",
)
"""In starting order. A part inside another part is excluded from the outer one."""

SLOWEST = ("--durations=6", "--durations-min=5")
"""Each report names its slowest tests, for those who want to make the whole faster."""

UNCHECKED = re.compile(r"(\x1b\[[0-9;]*m)*WARNING: ")
"""The start of a line with which a test summary reports a check that could not run here."""


class Report(NamedTuple):
    """The result of one run of pytest."""

    name: str
    code: int
    seconds: float
    cpu_s: float
    """Of the part's processes that have ended and were waited for."""
    text: str

    def __str__(self) -> str:
        result = "passed" if self.code == 0 else "FAILED"
        return f"{self.name:20} {self.seconds:4.0f} s {self.cpu_s:4.0f} s of CPU  {result}"


class Parts:
    """Parallel runs of pytest, each with its own report, that can be interrupted."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._at_work: dict[str, subprocess.Popen[bytes]] = {}
        self.no_more = False

    def run(self, name: str) -> Report:
        began = time.monotonic()
        inner = [part for part in PARTS if part.startswith(f"{name}/")]
        command = [sys.executable, "-m", "pytest", name, *SLOWEST, *(f"--ignore={part}" for part in inner)]
        if sys.stdout.isatty():
            command.append("--color=yes")
        # A file instead of a pipe: a process that a test did not end would keep a pipe open forever.
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            if self.no_more:
                return Report(name, 1, 0, 0, "")
            print(f"    {name} starts", flush=True)
            self._at_work[name] = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, cwd=ROOT, env=self._environment
            )
            process = self._at_work[name]
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            del self._at_work[name]
            output.seek(0)
            cpu_s = usage.ru_utime + usage.ru_stime
            return Report(name, process.returncode, time.monotonic() - began, cpu_s, output.read())

    def end(self) -> None:
        """Interrupt the running parts as Ctrl-C does, so that the tests end the processes that they have started."""
        self.no_more = True
        for process in list(self._at_work.values()):
            process.send_signal(signal.SIGINT)


def main() -> int:
    signal.signal(signal.SIGTERM, _exit_on_signal)
    parts, reports = Parts({**os.environ, "SPARK_SUBMIT_OPTS": spark_jvm_options()}), []
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


def _exit_on_signal(*_: object) -> NoReturn:
    sys.exit(1)


if __name__ == "__main__":
    sys.exit(main())
