"""Hints for wrong options: names the commands that have an option which the given command does not have."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperGroup

MAX_NAMED: Final = 3

# Depending on its version, Typer has its own copy of click's exceptions or uses click's.
_NoSuchOption: Final[Any] = import_module(typer.BadParameter.__module__).NoSuchOption


class SuggestingGroup(TyperGroup):
    """The group of all commands."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except _NoSuchOption as error:
            others = [name for name, options in _options_of(self, "moldau") if error.option_name in options]
            group = _group_of(error.ctx.command_path) if error.ctx is not None else ""
            others.sort(key=lambda name: _group_of(name) != group)  # commands of the same group first
            if others:
                error.message += f"; {_named(others, error.option_name)}"
                error.possibilities = None  # replaces options of this command that are only spelled similarly
            raise


def _group_of(command: str) -> str:
    return command.rpartition(" ")[0]


def _options_of(command: Any, path: str) -> Iterator[tuple[str, set[str]]]:
    """Every command with its options, except hidden ones."""
    for name, child in getattr(command, "commands", {}).items():
        yield from _options_of(child, f"{path} {name}")
    shown = (parameter for parameter in command.params if not getattr(parameter, "hidden", False))
    yield path, {option for parameter in shown for option in parameter.opts if option.startswith("--")}


def _named(commands: list[str], option: str) -> str:
    if len(commands) == 1:
        return f"did you mean {commands[0]} {option}?"
    more = " and others" if len(commands) > MAX_NAMED else ""
    return f"these commands have it: {', '.join(commands[:MAX_NAMED])}{more}"
