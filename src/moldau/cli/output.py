"""Output of commands: tables for people, aligned text for pipes, JSON for programs, and one-line errors.

Exit codes of all commands: 0 for success, 1 for an error, 2 for wrong usage, 130 after Ctrl-C.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import IO, Any, NoReturn

import typer

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

Cell = str | int | float | bool | None


class Output(StrEnum):
    """The output format."""

    TEXT = "text"
    JSON = "json"


def cell(value: Cell) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def is_number(rows: Sequence[Sequence[Cell]], column: int) -> bool:
    """Whether a column contains only numbers and empty cells."""
    values = [row[column] for row in rows if row[column] is not None]
    return bool(values) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def aligned(headers: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    """A table as plain text: columns as wide as their widest cell, separated by two blanks, numbers aligned right."""
    texts = [[cell(value) for value in row] for row in rows]
    widths = [max(len(line[column]) for line in [list(headers), *texts]) for column in range(len(headers))]
    numbers = [is_number(rows, column) for column in range(len(headers))]

    def line(values: Sequence[str]) -> str:
        padded = [
            text.rjust(width) if number else text.ljust(width)
            for text, width, number in zip(values, widths, numbers, strict=True)
        ]
        return "  ".join(padded).rstrip()

    return [line([header.upper() for header in headers]), *(line(row) for row in texts)]


def print_table(headers: Sequence[str], rows: Sequence[Sequence[Cell]], title: str | None = None) -> None:
    """Print a table: with borders on a terminal, plain text otherwise."""
    if not sys.stdout.isatty():
        if title is not None:
            print(title)
        print("\n".join(aligned(headers, rows)))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold cyan")
    for column, header in enumerate(headers):
        table.add_column(header, justify="right" if is_number(rows, column) else "left", overflow="fold")
    for row in rows:
        # Without markup: a topic may be called [red].
        table.add_row(*(_plain(cell(value)) for value in row))
    Console().print(table)


def _plain(text: str) -> Any:
    from rich.text import Text

    return Text(text)


def show(found: Sequence[Mapping[str, Any]], headers: Sequence[str], output: Output, title: str | None = None) -> None:
    """Print objects as JSON, or as a table with the given columns."""
    if output is Output.JSON:
        print_json(found)
    else:
        print_table(headers, [tuple(one[header] for header in headers) for one in found], title)


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2 if sys.stdout.isatty() else None, ensure_ascii=False))


def fail(message: str, code: int = EXIT_ERROR) -> NoReturn:
    """End the command with one line on standard error."""
    complain(message)
    raise typer.Exit(code)


def complain(message: str, to: IO[str] | None = None) -> None:
    """Print one line on standard error, even if the message has several lines."""
    print(f"moldau: {' '.join(message.split())}", file=sys.stderr if to is None else to)


def usage_error(message: str) -> NoReturn:
    """End the command because of wrong usage: exit code 2, as for errors of the option parser."""
    fail(f"{message} (see --help)", EXIT_USAGE)


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """End the command with one line and no traceback after an error of the client or of a file, or after Ctrl-C."""
    from moldau.client.errors import MoldauError
    from moldau.settings import SettingError

    try:
        yield
    except (MoldauError, SettingError, UnicodeDecodeError) as error:
        fail(str(error))
    except BrokenPipeError:
        raise
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None
