"""Cleaner process: takes one job at a time from the broker's pipe and reports its results.

It imports nothing of the broker. It only reads the log's files and writes `.cleaned` files next to them. The broker
decides which files replace which, so this process may die at any moment.
"""

from __future__ import annotations

import sys

from moldau.host.clock import SystemClock, SystemRandomness
from moldau.host.fs import LocalFileSystem
from moldau.host.processes import Parent
from moldau.log.clean.compaction import run
from moldau.log.clean.job import Job, Report, decode_job, encode_report
from moldau.log.clean.throttle import CleanerThrottle

MODULE = "moldau.log.clean.worker"

OPEN_FILES = 64

LIVENESS_CHECK_BYTES = 4 << 20
"""Bytes processed between two checks whether the broker is alive."""


def main() -> int:
    parent = Parent()
    fs = LocalFileSystem(OPEN_FILES)
    randomness = SystemRandomness()
    while (message := parent.receive()) is not None:
        job = decode_job(message)

        def report(one: Report) -> None:
            parent.send(encode_report(one))

        run(job, fs, report, _Pace(job, parent).spend, randomness.uuid())
    return 0


class _Pace:
    """Limits the job to its bytes per second, and ends the process when the broker is gone."""

    def __init__(self, job: Job, parent: Parent) -> None:
        self._parent = parent
        self._clock = SystemClock()
        self._throttle = CleanerThrottle(job.bytes_per_second, self._clock.monotonic())
        self._limited = job.bytes_per_second < float("inf")
        self._since_check = 0

    def spend(self, count: int) -> None:
        self._since_check += count
        if self._since_check >= LIVENESS_CHECK_BYTES:
            self._exit_if_orphaned()
        if self._limited:
            self._throttle.spend(count)
            while (seconds := self._throttle.wait(self._clock.monotonic())) > 0:
                self._parent.sleep(seconds)
                self._exit_if_orphaned()

    def _exit_if_orphaned(self) -> None:
        self._since_check = 0
        if not self._parent.alive():
            sys.exit(1)


if __name__ == "__main__":
    sys.exit(main())
