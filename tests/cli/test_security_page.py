"""Guide to security: its commands and its Python example run as shown, as a new user would run them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.processes import command

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
TIMEOUT_S = 60
FAILS = "# exit code 1"
UP = "moldau up --secure "
PASSWORD = "correct horse battery staple"


def section(title: str) -> str:
    """The text between a heading and the next."""
    return PAGE.read_text(encoding="utf-8").split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]


def shell_lines(text: str) -> list[str]:
    """The commands of the indented blocks. Python examples are fenced."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return re.findall(r"^    (\S.*)$", text, re.MULTILINE)


class Shell:
    """A shell that runs one line after the other in a new directory, beside a broker of `moldau up --secure`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        tools = folder / "bin"
        tools.mkdir()
        script = tools / "moldau"
        script.write_text(f'#!/bin/sh\nexec {sys.executable} -m moldau "$@"\n')
        script.chmod(0o700)
        self.environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
        self.broker: subprocess.Popen[str] | None = None
        self.bootstrap = ""

    def up(self) -> None:
        self.broker = subprocess.Popen(
            command("up", "--secure", "--port", "0"), cwd=self.folder, stdout=subprocess.PIPE, text=True
        )
        assert self.broker.stdout is not None
        found = re.search(r"ready on (127\.0\.0\.1:\d+)", self.broker.stdout.readline())
        assert found is not None
        self.bootstrap = found[1]
        self.environment["MOLDAU_BOOTSTRAP_SERVERS"] = self.bootstrap

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        if exported := re.fullmatch(r"export (\w+)=(\S+)", line):
            self.environment[exported[1]] = exported[2]
        return subprocess.run(
            ["sh", "-c", line],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    def stop(self) -> None:
        if self.broker is not None:
            self.broker.terminate()
            self.broker.communicate(timeout=TIMEOUT_S)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    running = Shell(tmp_path)
    try:
        yield running
    finally:
        running.stop()


def test_the_first_commands_and_the_example_run_as_shown(shell: Shell) -> None:
    text = section("In one command")
    lines = shell_lines(text)
    (install, start), rest = lines[:2], lines[2:]
    assert install.startswith("pip install") and start.startswith(UP)
    shell.up()
    (shell.folder / "alice.secret").write_text(f"{PASSWORD}\n")
    outputs: list[str] = []
    for line in rest:
        done = shell.run(line)
        assert done.returncode == (1 if FAILS in line else 0), f"{line}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr and PASSWORD not in done.stdout + done.stderr
        if FAILS in line:
            assert done.stderr.count("\n") == 1, done.stderr
        outputs.append(done.stdout)
    assert sum(FAILS in line for line in rest) == 2
    assert "hello\n" in outputs
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    program = example.replace("localhost:9092", shell.bootstrap)
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=shell.folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    read = shell.run("moldau consume orders --from-beginning --max-messages 2 --command-config $ADMIN")
    assert read.stdout == "hello\nfrom alice\n", read.stderr


def test_settings_have_no_comments_after_values() -> None:
    """In a properties file, such a comment is part of the value."""
    text = PAGE.read_text(encoding="utf-8")
    assert not re.findall(r"^    [a-z.]+=\S+ +#.*$", text, re.MULTILINE)
