"""Commands as processes: exit codes, pipes, scripts with Kafka's names, help and completion."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from moldau import __version__
from moldau.cli.kafka_tools.scripts import TOOLS, write_scripts
from moldau.cli.main import app
from tests.cli.conftest import Command, Tool

TIMEOUT_S = 60
DOCUMENTATION = Path(__file__).parents[2] / "docs" / "commands.md"


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=os.environ | environment
    )


def moldau(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-m", "moldau", *arguments, **environment)


def test_a_process_ends_with_the_code_of_its_command(bootstrap: str, topic: str) -> None:
    listed = moldau("topics", "list", MOLDAU_BOOTSTRAP_SERVERS=bootstrap)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert topic in listed.stdout.splitlines()
    again = moldau("topics", "create", topic, "--bootstrap-server", bootstrap)
    assert (again.returncode, again.stdout, again.stderr.count("\n")) == (1, "", 1)
    assert moldau("topics", "describe", "--nonsense").returncode == 2


def test_a_closed_pipe_is_not_an_error(bootstrap: str) -> None:
    listing = subprocess.Popen(
        [sys.executable, "-m", "moldau", "cluster", "apis", "-b", bootstrap],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert listing.stdout is not None
    listing.stdout.close()
    _, complaint = listing.communicate(timeout=TIMEOUT_S)
    assert b"Traceback" not in complaint


def test_scripts_have_kafkas_names_and_run(bootstrap: str, topic: str, moldau: Command, tmp_path: Path) -> None:
    folder = tmp_path / "bin with a blank"
    assert moldau("kafka-tools", str(folder)).exit_code == 0
    assert {file.name for file in folder.iterdir()} == {name for tool in TOOLS for name in (tool, f"{tool}.sh")}
    assert all(file.stat().st_mode & stat.S_IXUSR for file in folder.iterdir())
    described = run(str(folder / "kafka-topics.sh"), "--bootstrap-server", bootstrap, "--describe", "--topic", topic)
    assert (described.returncode, described.stderr) == (0, "")
    assert described.stdout.startswith(f"Topic: {topic}\tTopicId: ")
    wrong = run(str(folder / "kafka-topics"), "--nonsense")
    assert (wrong.returncode, wrong.stderr) == (1, "nonsense is not a recognized option\n")


def test_the_console_scripts_write_and_read_records_as_kafkas_do(bootstrap: str, topic: str, tmp_path: Path) -> None:
    write_scripts(tmp_path)
    server = ("--bootstrap-server", bootstrap, "--topic", topic)
    form = ("--property", "parse.key=true", "--property", "key.separator=:")
    written = subprocess.run(
        [tmp_path / "kafka-console-producer.sh", *server, *form],
        input="k1:v1\nk2:v2\n",
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (written.returncode, written.stdout, written.stderr) == (0, "", "")
    shown = [f"--formatter-property=print.{one}=true" for one in ("key", "partition", "offset", "headers")]
    read = run(str(tmp_path / "kafka-console-consumer.sh"), *server, "--from-beginning", "--max-messages", "2", *shown)
    assert read.returncode == 0
    assert read.stdout == "Partition:0\tOffset:0\tNO_HEADERS\tk1\tv1\nPartition:0\tOffset:1\tNO_HEADERS\tk2\tv2\n"
    assert read.stderr == "Processed a total of 2 messages\n"


def test_existing_scripts_are_overwritten(tmp_path: Path) -> None:
    (tmp_path / "kafka-topics").write_text("old")
    write_scripts(tmp_path)
    assert "moldau" in (tmp_path / "kafka-topics").read_text()


def test_completion_is_for_moldau_also_when_python_runs_the_module() -> None:
    shown = moldau("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert shown.returncode == 0
    assert "_MOLDAU_COMPLETE" in shown.stdout


def test_the_version_is_printed() -> None:
    shown = moldau("--version")
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, f"moldau {__version__}\n", "")


def all_commands() -> list[str]:
    found = []

    def walk(command: object, path: str) -> None:
        children = getattr(command, "commands", None)
        if children is None:
            found.append(path)
            return
        for name, child in children.items():
            walk(child, f"{path} {name}".strip())

    walk(get_command(app), "")
    return found


@pytest.mark.parametrize("command", all_commands())
def test_every_command_shows_an_example_in_its_help(moldau: Command, command: str) -> None:
    shown = moldau(*command.split(), "--help")
    assert shown.exit_code == 0
    assert "Example: " in shown.stdout
    assert f"moldau {command}" in " ".join(shown.stdout.split())


def test_every_command_and_tool_is_in_the_documentation() -> None:
    text = DOCUMENTATION.read_text(encoding="utf-8")
    missing = [name for name in [*(f"moldau {one}" for one in all_commands()), *TOOLS] if name not in text]
    assert not missing


@pytest.mark.parametrize(
    "arguments",
    [
        "kafka-topics --list --command-config /no/such/file",
        "kafka-log-dirs --describe --broker-list one",
        "kafka-topics --list --command-config {}",
        "kafka-nosuch",
    ],
)
def test_a_tool_reports_an_unreadable_file_in_one_line(
    our_tool: Tool, bootstrap: str, tmp_path: Path, arguments: str
) -> None:
    (tmp_path / "bad.properties").write_bytes(b"no.such.setting=1\n")
    name, *options = arguments.format(tmp_path / "bad.properties").split()
    result = our_tool(name, "--bootstrap-server", bootstrap, *options)
    assert result.code == 1
    assert (result.out + result.err).count("\n") == 1


def test_starting_a_broker_does_not_import_the_clients() -> None:
    code = (
        "import sys, moldau.cli.main; sys.exit('moldau.client.network' in sys.modules or 'rich.table' in sys.modules)"
    )
    assert run(sys.executable, "-c", code).returncode == 0
