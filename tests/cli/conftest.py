"""Fixtures for tests of commands: `moldau` and our Kafka tools in this process, and Apache Kafka's tools in a JVM."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator

import pytest
from typer.testing import CliRunner, Result

from moldau.cli.kafka_tools.scripts import run as run_tool
from moldau.cli.main import app
from tests.cli import real_tools
from tests.cli.real_tools import RealTools
from tests.compat.apache_kafka.jars import JarsUnavailableError, fetch_jars

Command = Callable[..., Result]
Tool = Callable[..., real_tools.Result]


@pytest.fixture
def moldau(bootstrap: str) -> Command:
    """`moldau("topics", "list")`: run a command in this process, against the server under test."""
    return command_for(bootstrap)


def command_for(bootstrap: str) -> Command:
    """A function that runs a `moldau` command in this process, against the brokers at `bootstrap`."""
    runner = CliRunner()

    def run(*arguments: str, **options: object) -> Result:
        return runner.invoke(
            app,
            arguments,
            prog_name="moldau",
            env={"MOLDAU_BOOTSTRAP_SERVERS": bootstrap},
            **options,  # type: ignore[arg-type]
        )

    return run


@pytest.fixture(scope="session")
def our_tool() -> Tool:
    """`our_tool("kafka-topics", "--list")`: run our tool with this name in this process."""

    def run(*arguments: str) -> real_tools.Result:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = run_tool(arguments)
            except SystemExit as ended:
                code = int(ended.code or 0)
        return real_tools.Result(code, out.getvalue(), err.getvalue())

    return run


@pytest.fixture(scope="session")
def kafkas_tools() -> Iterator[RealTools]:
    try:
        jars = fetch_jars()
    except JarsUnavailableError as reason:
        pytest.skip(f"Apache Kafka's jars cannot be had: {reason}")
    with RealTools(jars) as tools:
        yield tools
