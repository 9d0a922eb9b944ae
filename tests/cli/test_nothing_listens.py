"""Commands without a reachable broker: they report it at once, and retry only with --wait."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from moldau.cli.connection_options import require_listener
from moldau.cli.kafka_tools.scripts import TOOLS
from moldau.cli.main import app
from tests.cli.conftest import Tool

TIMEOUT_S = 60

COMMANDS = """
acls add --principal User:alice --operation read --topic t
acls list
acls remove --principal User:alice
cluster apis
cluster describe
cluster drain 1
cluster elect --all
cluster features
cluster log-dirs
cluster reassign --verify --file PLAN
configs alter --topic t --set retention.ms=1
configs describe --topic t
consume t
groups delete g
groups describe g
groups list
groups members g
groups offsets g
groups reset g --topic t --to-earliest
perf consume --topic t
perf latency --topic t
perf produce --topic t
produce t
quotas list
quotas remove producer_byte_rate --user alice
quotas set --user alice --producer-byte-rate 1000
sql -e SELECT(1)
topics alter t --partitions 2
topics create t
topics delete t
topics describe
topics list
transactions abort x
transactions complete x --producer-id 1 --producer-epoch 1 --commit
transactions describe x
transactions find-hanging --topic t
transactions list
users add alice --password-file SECRET
users list
users remove alice
examples run video_analytics
transactions resolve 3a1f2c4e-5b6d-4c7e-8f90-123456789abc
""".strip().splitlines()

TOOL_CALLS = {
    "kafka-broker-api-versions": "",
    "kafka-cluster": "cluster-id",
    "kafka-topics": "--list",
    "kafka-get-offsets": "",
    "kafka-console-consumer": "--topic t --timeout-ms 10",
}


@pytest.fixture
def closed_port() -> Iterator[str]:
    """An address that refuses connections."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but not listening
        yield f"127.0.0.1:{taken.getsockname()[1]}"


SERVICES = ("connect", "connect standalone", "registry", "rest", "sql serve")
"""Commands that wait for their brokers, and say so: they may be started before them."""


PROJECTS = ("pipeline new", "pipeline run")
"""Commands that need a project: tests/pipelines/test_projects.py runs them without a broker."""


def cluster_commands() -> Iterator[tuple[str, set[str]]]:
    """Every command with an option for the address of a cluster, with its options."""

    def walk(command: Any, path: str) -> Iterator[tuple[str, set[str]]]:
        for name, child in getattr(command, "commands", {}).items():
            yield from walk(child, f"{path} {name}".strip())
        options = {option for parameter in command.params for option in parameter.opts}
        if "--bootstrap-server" in options:
            yield path, options

    yield from walk(typer.main.get_command(app), "")


def test_every_command_of_a_cluster_is_tried_here_and_can_wait() -> None:
    tried = {" ".join(line.split()[:count]) for line in COMMANDS for count in (1, 2)}
    for command, options in cluster_commands():
        if command not in SERVICES + PROJECTS:
            assert command in tried
            assert "--wait" in options, command


@pytest.mark.parametrize("service", ["connect", "registry", "rest"])
def test_a_service_says_that_nothing_listens_and_goes_on_trying(service: str, closed_port: str) -> None:
    command = [sys.executable, "-m", "moldau", service, "-b", closed_port, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as worker:
        assert worker.stderr is not None
        try:
            said = worker.stderr.readline()
            assert said == f"moldau: nothing listens at {closed_port} (connection refused); still trying\n"
            assert worker.poll() is None
        finally:
            worker.terminate()


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_reports_at_once_that_nothing_listens(line: str, closed_port: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1]}]}')
    secret = tmp_path / "secret"
    secret.write_text("a password")
    filled = line.replace("PLAN", str(plan)).replace("SECRET", str(secret))
    ended = CliRunner().invoke(app, [*filled.split(), "-b", f"{closed_port}, {closed_port}"])
    assert ended.exit_code == 1
    assert ended.stderr == (
        f"moldau: nothing listens at {closed_port}, {closed_port} (connection refused); start a broker with moldau up, "
        "give another address with -b, or keep trying with --wait\n"
    )


def test_a_producer_reports_it_before_it_reads_input(closed_port: str) -> None:
    command = [sys.executable, "-m", "moldau", "produce", "t", "-b", closed_port]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as producing:
        assert producing.stderr is not None
        assert "connection refused" in producing.stderr.readline()
        assert producing.wait(TIMEOUT_S) == 1


def test_with_wait_the_client_tries_until_its_own_time_out(closed_port: str, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("default.api.timeout.ms=200\nrequest.timeout.ms=200\n")
    ended = CliRunner().invoke(app, ["topics", "list", "-b", closed_port, "--wait", "--command-config", str(config)])
    assert ended.exit_code == 1
    at_once, trouble = ended.stderr.splitlines()
    assert at_once == f"moldau: nothing listens at {closed_port} (connection refused); still trying"
    assert "refused the connection" in trouble


@pytest.mark.parametrize("tool", TOOL_CALLS)
def test_kafka_tools_report_it_and_keep_trying(tool: str, closed_port: str, our_tool: Tool, tmp_path: Path) -> None:
    assert tool in TOOLS
    config = tmp_path / "client.properties"
    config.write_text("default.api.timeout.ms=200\nrequest.timeout.ms=200\n")
    ended = our_tool(
        tool, *TOOL_CALLS[tool].split(), "--bootstrap-server", closed_port, *("--command-config", str(config))
    )
    assert ended.code == 1
    assert ended.err.splitlines()[0] == f"moldau: nothing listens at {closed_port} (connection refused); still trying"
    assert len((ended.out + ended.err).splitlines()) > 1


def test_one_listener_is_enough(closed_port: str) -> None:
    # accepts connections and never answers: slow, but not absent
    with socket.create_server(("127.0.0.1", 0)) as silent:
        require_listener(f"{closed_port},127.0.0.1:{silent.getsockname()[1]}", wait=False)


def test_a_name_that_cannot_be_resolved_is_left_to_the_client() -> None:
    require_listener("no-such-host.invalid:9092", wait=False)
