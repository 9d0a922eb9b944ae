"""Processes of the demo: a broker and a Spark pipeline, none of which outlives the demo."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

START_TIMEOUT_S: Final = 30.0
STOP_TIMEOUT_S: Final = 30.0
LOG_TAIL_CHARS: Final = 2_000


class DemoError(Exception):
    """The error, as a message for the user."""


@contextmanager
def broker(data: Path) -> Iterator[str]:
    """Run a broker on a free port, yield its address when it is ready, and stop it cleanly."""
    command = [sys.executable, "-m", "moldau", "up", "--data", str(data), "--port", "0"]
    command += ["--set", "transaction.two.phase.commit.enable=true"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(), start_new_session=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        ready = re.search(r"ready on (\S+)", line)
        if ready is None:
            raise DemoError(f"the broker did not start: {line.strip() or 'it ended without a message'}")
        yield ready[1]
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
    if code != 0:
        raise DemoError(f"the broker ended with exit code {code}")


class Pipeline:
    """The Spark job in its own process group: driver, JVM and Python workers are killed together."""

    def __init__(self, bootstrap: str, directory: Path, heard: Callable[[dict[str, Any]], None]) -> None:
        self._directory = directory
        self._heard = heard
        self._log = directory / "pipeline.log"
        command = [sys.executable, "-m", "moldau.cli.demonstration.pipeline", bootstrap, str(directory)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # Spark starts Python workers as `python3`, which may be another interpreter.
                env={**environment(), "PYSPARK_PYTHON": sys.executable},
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(b"{"):
                self._heard(json.loads(line))

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def kill(self) -> None:
        """Kill the whole process group with SIGKILL."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._gone()

    def stop(self) -> None:
        """Stop cleanly, by closing its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._gone()

    def _gone(self) -> None:
        self._process.wait()
        self._reader.join(STOP_TIMEOUT_S)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-LOG_TAIL_CHARS:]


def environment() -> dict[str, str]:
    """The environment of the demo's processes, without settings of the user's own broker."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith("MOLDAU_") or name == "MOLDAU_PURE"
    }
