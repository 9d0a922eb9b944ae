"""Ctrl-C while Python still imports the command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def interrupted(tmp_path: Path) -> dict[str, str]:
    """An environment in which Ctrl-C arrives during the first import of the command."""
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nprint('went on')\n")
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}


def test_ctrl_c_during_imports_ends_the_command_silently(interrupted: dict[str, str]) -> None:
    ended = subprocess.run([sys.executable, "-m", "moldau", "up"], env=interrupted, capture_output=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, b"", b"")


def test_a_command_in_the_background_ignores_ctrl_c(interrupted: dict[str, str]) -> None:
    shell = ["sh", "-c", f"trap '' INT; {sys.executable} -m moldau up"]  # like `moldau up &` in a script
    ended = subprocess.run(shell, env=interrupted, capture_output=True, timeout=60)
    assert ended.stdout == b"went on\n"  # the command then fails, because the typer module is not the real one
