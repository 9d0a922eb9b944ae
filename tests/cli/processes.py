"""Commands run as processes: the helpers that start `moldau` and return its output."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

TIMEOUT_S = 90


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "moldau", *arguments]


def environment(bootstrap: str) -> dict[str, str]:
    return {**os.environ, "MOLDAU_BOOTSTRAP_SERVERS": bootstrap}


def run(bootstrap: str, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command(*arguments),
        input=given,
        env=environment(bootstrap),
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def done(bootstrap: str, *arguments: str, given: bytes = b"") -> bytes:
    """The output of a command that must succeed."""
    finished = run(bootstrap, *arguments, given=given)
    assert finished.returncode == 0, finished.stderr.decode()
    return finished.stdout


def start(bootstrap: str, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(command(*arguments), env=environment(bootstrap), stdin=pipe, stdout=pipe, stderr=pipe)
