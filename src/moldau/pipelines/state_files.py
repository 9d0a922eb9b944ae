"""State of a project: the directory .moldau, with the lock of the running process, its status, log and picture.

The lock is held by the process that runs the pipeline, and by the JVM that it started. So a process that was killed
leaves no stale lock, and a new run begins only after the old JVM has ended.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from pathlib import Path
from typing import Any, Final, Self

from moldau.pipelines.errors import PipelineError
from moldau.pipelines.flow_events import FAILED
from moldau.pipelines.run_status import COMPLETE, LOST, STOPPED

LOCK: Final = "lock"
STATUS: Final = "status.json"
LOG: Final = "spark.log"
PICTURE: Final = "graph.svg"

POLL_S: Final = 0.05
TAKEOVER_S: Final = 120.0
"""How long a run waits for the JVM of a run that was killed."""

ENDED: Final = (COMPLETE, STOPPED, FAILED)


class ProjectState:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._descriptor: int | None = None

    @property
    def log(self) -> Path:
        return self.directory / LOG

    @property
    def picture(self) -> Path:
        return self.directory / PICTURE

    # The process that runs the pipeline.

    def lock(self) -> int:
        """Take the lock and return its descriptor, to be passed to the JVM. If the holder is a process that runs,
        this is an error at once; if only its JVM is left, wait for that."""
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / ".gitignore").write_text("*\n")
        descriptor = os.open(self.directory / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        end = time.monotonic() + TAKEOVER_S
        while not _try_lock(descriptor):
            holder = self.running_pid()
            if holder is not None or time.monotonic() > end:
                os.close(descriptor)
                who = f"process {holder}" if holder is not None else "the JVM of an earlier run, which has not ended"
                raise PipelineError(f"the pipeline is already run by {who}; end it with moldau pipeline stop")
            time.sleep(POLL_S)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        self._descriptor = descriptor
        return descriptor

    def unlock(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        self.lock()
        return self

    def __exit__(self, *_: object) -> None:
        self.unlock()

    @property
    def descriptor(self) -> int:
        assert self._descriptor is not None, "the lock is held"
        return self._descriptor

    def write_status(self, status: dict[str, Any]) -> None:
        self._write(STATUS, json.dumps(status, indent=1))

    def write_picture(self, svg: str) -> None:
        self._write(PICTURE, svg)

    def _write(self, name: str, text: str) -> None:
        temporary = self.directory / f".{name}.new"
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(self.directory / name)

    # Other processes: status and stop.

    def read_status(self) -> dict[str, Any] | None:
        """The status of the last run, or None if there was none. A run that was killed is shown as lost."""
        try:
            status: dict[str, Any] = json.loads((self.directory / STATUS).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        if status["state"] not in ENDED and self.running_pid() is None:
            status["state"] = LOST
        return status

    def running_pid(self) -> int | None:
        """The process that runs the pipeline, or None. A process with the id of a run that has ended is not taken for
        it, because it does not hold the lock."""
        try:
            descriptor = os.open(self.directory / LOCK, os.O_RDWR)
        except OSError:
            return None
        try:
            if _try_lock(descriptor):
                return None
            text = os.pread(descriptor, 32, 0).strip()
            pid = int(text) if text.isdigit() else None
            return pid if pid is not None and _is_holder(pid, self.directory / LOCK) else None
        finally:
            os.close(descriptor)

    def stop(self, *, now: bool, timeout_s: float) -> bool:
        """End the running process and wait for it; False if there is none. With `now`, do not wait for the update."""
        pid = self.running_pid()
        if pid is None:
            return False
        end = time.monotonic() + timeout_s
        os.kill(pid, signal.SIGTERM)
        if now:
            time.sleep(POLL_S)
            if self.running_pid() == pid:
                os.kill(pid, signal.SIGTERM)
        while self.running_pid() == pid:
            if time.monotonic() > end:
                raise PipelineError(
                    f"process {pid} still works on its update after {timeout_s:g} s; it stops when the update is"
                    " complete; moldau pipeline stop --now ends it at once, and the next run continues there"
                )
            time.sleep(POLL_S)
        return True


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_holder(pid: int, lock: Path) -> bool:
    """Whether this process has the lock file open. The id may have been given to another process."""
    try:
        wanted = os.stat(lock)
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                found = os.stat(f"/proc/{pid}/fd/{name}")
            except OSError:
                continue
            if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                return True
    except OSError:
        return False
    return False
