"""`moldau` commands in the documents: each can be typed as shown."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from moldau.cli.main import app

ROOT = Path(__file__).parents[3]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
ENDS_A_COMMAND = {"|", "&&", ">", ";"}


def documented() -> list[Any]:
    """The words after `moldau` of each command in an indented block."""
    return [
        pytest.param(words, id=f"{document.name}:{' '.join(words)}")
        for document in DOCUMENTS
        for line in document.read_text().replace("\\\n", " ").split("\n")
        if line.startswith("    ") and (line.split()[:1] == ["moldau"] or "| moldau " in line)
        for words in _commands(shlex.split(line, comments=True))
    ]


def _commands(words: list[str]) -> list[list[str]]:
    starts = [index for index, word in enumerate(words) if word == "moldau" and words[index - 1 : index] in ([], ["|"])]
    return [_until_the_end(words[start + 1 :]) for start in starts]


def _until_the_end(words: list[str]) -> list[str]:
    return words[: next((index for index, word in enumerate(words) if word in ENDS_A_COMMAND), len(words))]


@pytest.mark.parametrize("words", documented())
def test_a_command_of_the_documents_parses(words: list[str]) -> None:
    command: Any = typer.main.get_command(app)
    rest = list(words)
    while hasattr(command, "commands") and not (command.invoke_without_command and rest[:1] not in _names(command)):
        command = command.commands[rest.pop(0)]
    command.make_context("moldau", rest)


def _names(group: Any) -> list[list[str]]:
    return [[name] for name in group.commands]


def test_the_documents_show_commands() -> None:
    assert len(documented()) > 60
