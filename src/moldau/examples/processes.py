"""Processes that a study needs: a broker, if none is given, and its Spark queries."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from moldau.examples.pipeline_process import FINISH, RUN
from moldau.examples.place import Place
from moldau.examples.study import StudyError

STOP_TIMEOUT_S: Final = 30.0
LOG_TAIL_CHARS: Final = 4_000


@contextmanager
def broker(data: Path) -> Iterator[str]:
    """Run a broker on a free port, yield its address when it is ready, and stop it cleanly."""
    command = [sys.executable, "-m", "moldau", "up", "--data", str(data), "--port", "0"]
    command += ["--set", "transaction.two.phase.commit.enable=true"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(), start_new_session=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        ready = re.search(r"ready on (\S+)", line)
        if ready is None:
            raise StudyError(f"the broker did not start: {line.strip() or 'it ended without a message'}")
        yield ready[1]
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


class PipelineProcess:
    """The queries of one or more studies, in a process group: Spark's driver, its JVM and its Python workers."""

    def __init__(
        self, names: Sequence[str], place: Place, order: str, heard: Callable[[dict[str, Any]], None] | None = None
    ) -> None:
        self._heard = heard
        self.error: str | None = None
        """The error of a query."""
        place.directory.mkdir(parents=True, exist_ok=True)
        self._log = place.directory / "pipeline.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "moldau.examples.pipeline_process", *names],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # Spark starts Python workers as `python3`, which may be another interpreter.
                env={**environment(), "PYSPARK_PYTHON": sys.executable},
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()
        self._tell(place.to_json())
        self._tell(order)

    @classmethod
    def running(cls, names: Sequence[str], place: Place, heard: Callable[[dict[str, Any]], None]) -> PipelineProcess:
        """Queries that run until `finish` or `kill`."""
        return cls(names, place, RUN, heard)

    @classmethod
    def finishing(
        cls, names: Sequence[str], place: Place, heard: Callable[[dict[str, Any]], None] | None = None
    ) -> PipelineProcess:
        """Queries that read what is in their topics and end."""
        return cls(names, place, FINISH, heard)

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the process has ended; `wait` says why

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(b"{"):
                said = json.loads(line)
                self.error = said.get("error", self.error)
                if self._heard is not None:
                    self._heard(said)

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def finish(self) -> None:
        """Let the queries read what is in their topics now, and wait until they have."""
        self._tell(FINISH)
        self.wait()

    def wait(self) -> None:
        """Wait until the process has ended; StudyError if a query failed."""
        code = self._process.wait()
        self._gone()
        if code != 0:
            raise StudyError(self.problem())

    def problem(self) -> str:
        log = self._log.read_text(errors="replace")[-LOG_TAIL_CHARS:]
        return f"the pipeline ended: {self.error or log}"

    def kill(self) -> None:
        """Kill the whole process group with SIGKILL."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        self._gone()

    def _gone(self) -> None:
        self._reader.join(STOP_TIMEOUT_S)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


def environment() -> dict[str, str]:
    """The environment of this process, without settings of the user's own broker."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith("MOLDAU_") or name == "MOLDAU_PURE"
    }
