"""Handle of a Debezium process in its connector: starts it, receives its frames, keeps it alive, and ends it."""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Mapping
from typing import Any, BinaryIO, Final

from moldau.connect.connector import Offset
from moldau.connect.connectors.change_capture.frames import (
    CapturedChanges,
    CaptureEnded,
    CaptureLease,
    CaptureProblems,
    CaptureStop,
    CaptureStored,
    StartCapture,
    read_frame,
    write_frame,
)

LEASE_INTERVAL_S: Final = 1.0
STOP_TIMEOUT_S: Final = 8.0
VALIDATE_TIMEOUT_S: Final = 60.0
MAX_FRAMES: Final = 8
"""Frames that wait in this process; then the pipe fills, and the engine waits."""
MAX_LOG_LINES: Final = 40

_MODULE: Final = "moldau.connect.connectors.change_capture.debezium_process"


class CaptureProcess:
    """One running process."""

    def __init__(
        self,
        name: str,
        properties: Mapping[str, str],
        offsets: list[tuple[Offset, Offset]],
        java_options: list[str],
        *,
        only_validate: bool = False,
        mariadb: bool = False,
        schemas: bool = True,
        lease_s: float = 10.0,
    ) -> None:
        self._directory = tempfile.mkdtemp(prefix="moldau-capture-")
        self._frames: queue.Queue[Any] = queue.Queue(MAX_FRAMES)
        self._log: deque[str] = deque(maxlen=MAX_LOG_LINES)
        self._write_lock = threading.Lock()
        self._over = threading.Event()
        self._end: str | None = None
        self._process = subprocess.Popen(
            [sys.executable, "-m", _MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self._directory,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._stdin: BinaryIO = self._process.stdin  # type: ignore[assignment]
        self._start(self._read_frames, self._process.stdout)
        self._start(self._read_log, self._process.stderr)
        plain = [(dict(partition), dict(offset)) for partition, offset in offsets]
        self._tell(
            StartCapture(
                name,
                dict(properties),
                plain,
                self._directory,
                java_options,
                only_validate,
                mariadb,
                schemas,
                lease_s,
            )
        )
        self._start(self._keep_alive)

    @property
    def pid(self) -> int:
        return self._process.pid

    def _start(self, work: Any, *arguments: Any) -> None:
        threading.Thread(target=work, args=arguments, daemon=True, name="change-capture").start()

    def _tell(self, message: Any) -> bool:
        try:
            with self._write_lock:
                write_frame(self._stdin, message)
        except (OSError, ValueError):  # the process is gone: its end is reported by `received`
            return False
        return True

    def _keep_alive(self) -> None:
        while not self._over.wait(LEASE_INTERVAL_S):
            if not self._tell(CaptureLease()):
                return

    def _read_frames(self, stream: BinaryIO) -> None:
        while True:
            try:
                frame = read_frame(stream)
            except (OSError, ValueError, EOFError):
                frame = None
            while not self._over.is_set():
                try:
                    self._frames.put(frame, timeout=1.0)
                    break
                except queue.Full:
                    continue
            if frame is None or self._over.is_set():
                return

    def _read_log(self, stream: BinaryIO) -> None:
        try:
            for line in stream:
                self._log.append(line.decode(errors="replace").rstrip())
        except (OSError, ValueError):
            pass

    def received(self, max_rows: int, wait_s: float = 0.0) -> list[CapturedChanges] | str:
        """The changes that have arrived, or arrive within `wait_s`; a text, if the process has ended: why."""
        found: list[CapturedChanges] = []
        rows = 0
        while rows < max_rows and self._end is None:
            try:
                frame = self._frames.get_nowait() if found or not wait_s else self._frames.get(timeout=wait_s)
            except queue.Empty:
                break
            if isinstance(frame, CapturedChanges):
                found.append(frame)
                rows += frame.rows
            else:
                self._end = frame.message if isinstance(frame, CaptureEnded) else self._sudden_end()
        return found if found or self._end is None else self._end

    def _sudden_end(self) -> str:
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            pass
        lines = "; ".join(self._log) or "no message"
        return f"the capture process ended with status {self._process.returncode}: {lines}"

    def stored(self, sequence: int) -> None:
        self._tell(CaptureStored(sequence))

    def problems(self) -> dict[str, list[str]]:
        """The result of a process that validates."""
        try:
            frame = self._frames.get(timeout=VALIDATE_TIMEOUT_S)
        except queue.Empty:
            return {"connector.class": [f"Debezium's validation did not end within {VALIDATE_TIMEOUT_S:.0f} s"]}
        if isinstance(frame, CaptureProblems):
            return frame.problems
        detail = frame.message if isinstance(frame, CaptureEnded) else "; ".join(self._log)
        return {"connector.class": [f"Debezium could not be started: {detail}"]}

    def close(self, *, orderly: bool = True) -> None:
        self._over.set()
        if orderly and self._process.poll() is None and self._tell(CaptureStop()):
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                pass
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            try:
                if stream is not None:
                    stream.close()
            except OSError:
                pass
        shutil.rmtree(self._directory, ignore_errors=True)
