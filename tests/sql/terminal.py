"""`moldau sql` in a real terminal, driven by pexpect."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import pexpect

TIMEOUT_S = 240
"""For one statement, also if it is the first one and waits for Spark on a busy machine."""
PROMPT = "\x1b[?2004h"
"""A prompt switches bracketed paste on when it appears."""
TYPED = "\x1b[?2004l"
"""… and off when a statement was typed."""
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|\r")
FAST_START = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""This JVM runs for a minute only: the full compiler and a parallel collector cost more than they save."""


def environment(bootstrap: str, state: Path) -> dict[str, str]:
    return {
        **os.environ,
        "MOLDAU_BOOTSTRAP_SERVERS": bootstrap,
        "XDG_STATE_HOME": str(state),
        "PROMPT_TOOLKIT_NO_CPR": "1",  # nobody answers where the cursor is
        "TERM": "xterm-256color",
        "PYSPARK_SUBMIT_ARGS": f'--driver-java-options "{FAST_START}" --driver-memory 1g pyspark-shell',
    }


def plain(text: str) -> str:
    return _ESCAPES.sub("", text)


class SqlTerminal:
    """A shell. `enter` types a statement, and returns what it shows until the next prompt."""

    def __init__(self, bootstrap: str, state: Path, *arguments: str, lines: int = 40, columns: int = 120) -> None:
        self.process: Any = pexpect.spawn(
            sys.executable,
            ["-m", "moldau", "sql", "--master", "local[2]", *arguments],
            env=environment(bootstrap, state),
            dimensions=(lines, columns),
            encoding="utf-8",
            timeout=TIMEOUT_S,
        )
        self.process.expect_exact(PROMPT)

    def enter(self, text: str) -> str:
        """Type a text and Enter, and wait until it has run."""
        self.begin(text)
        return self.ended()

    def begin(self, text: str) -> None:
        """Type a text and Enter, and wait until the shell runs it."""
        self.process.send(f"{text}\r")
        self.process.expect_exact(TYPED)

    def ended(self) -> str:
        """What was shown until the next prompt."""
        self.process.expect_exact(PROMPT)
        return plain(self.process.before)

    def until(self, pattern: str) -> str:
        """Wait for a text in what is shown; returns everything up to it."""
        self.process.expect(pattern)
        return plain(self.process.before + self.process.after)

    def interrupt(self) -> str:
        """Ctrl-C while a statement runs."""
        self.process.send("\x03")
        return self.ended()

    def close(self) -> int:
        """Ctrl-D. Returns the exit code."""
        if self.process.isalive():
            self.process.send("\x04")
            self.process.expect(pexpect.EOF)
        self.process.close()
        return int(self.process.exitstatus)
