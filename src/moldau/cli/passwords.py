"""Passwords for commands: from a prompt, a file or an environment variable, never from the arguments.

The arguments of a process can be read by all users of a machine, and shells keep them in their history.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from moldau.cli.output import usage_error

PasswordFileOption = Annotated[
    Path | None,
    typer.Option(
        "--password-file", metavar="FILE", help="A file with the password in its first line; - is standard input."
    ),
]
PasswordEnvironmentOption = Annotated[
    str | None,
    typer.Option("--password-env", metavar="NAME", help="The name of an environment variable with the password."),
]

STANDARD_INPUT = Path("-")


def read_password(user: str, file: Path | None, variable: str | None) -> str:
    """The password of a user. Asks for it, twice, if neither a file nor a variable is given."""
    if file is not None and variable is not None:
        usage_error("give --password-file or --password-env, not both")
    if file is not None:
        password = first_line(file)
        where = "standard input" if file == STANDARD_INPUT else str(file)
    elif variable is not None:
        password = os.environ.get(variable, "")
        where = f"environment variable {variable}"
    elif not has_terminal():
        usage_error("there is no terminal to ask for a password; give --password-file or --password-env")
    else:
        password = typer.prompt(f"Password of {user}", hide_input=True, confirmation_prompt=True)
        where = "the prompt"
    if not password:
        usage_error(f"the password in {where} is empty")
    return password


def has_terminal() -> bool:
    return sys.stdin.isatty()


def first_line(file: Path) -> str:
    if file == STANDARD_INPUT:
        return sys.stdin.readline().rstrip("\r\n")
    with file.open(encoding="utf-8") as text:
        return text.readline().rstrip("\r\n")
