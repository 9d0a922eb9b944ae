"""Suggestions for an option given to the wrong command."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from moldau.cli.main import app


def told(*arguments: str) -> str:
    ended = CliRunner().invoke(app, arguments, prog_name="moldau", env={"COLUMNS": "200"})
    assert ended.exit_code == 2
    (line,) = (line for line in ended.stderr.splitlines() if "No such option" in line)
    return line.strip("│ ")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["up", "--config", "f"],
            "these commands have it: moldau broker, moldau rest, moldau connect and others",
        ),
        (["broker", "--quick"], "No such option: --quick; did you mean moldau demo --quick?"),
        (["broker", "--port", "9092"], "these commands have it: moldau up, moldau zookeeper, moldau rest and others"),
        (["groups", "list", "--to-earliest"], "did you mean moldau groups reset --to-earliest?"),
        (
            ["topics", "list", "--topic", "t"],
            "these commands have it: moldau topics create, moldau topics describe, moldau topics alter and others",
        ),
    ],
)
def test_the_commands_that_have_the_option_are_named(arguments: list[str], says: str) -> None:
    assert says in told(*arguments)


def test_an_option_that_no_command_has_is_compared_with_those_of_this_one() -> None:
    assert told("up", "--brokes", "3") == "No such option: --brokes (Possible options: --brokers)"
    assert told("up", "--announce") == "No such option: --announce", "hidden options must not be suggested"
