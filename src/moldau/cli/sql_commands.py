"""Command `moldau sql`: the shell of streaming SQL, and statements from options, files and pipes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.cli.connection_options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    CommandConfigOption,
    WaitOption,
    client_settings,
    require_listener,
)
from moldau.cli.output import EXIT_ERROR, EXIT_INTERRUPTED, complain, fail, one_line_errors, usage_error
from moldau.cli.sql_serve import serve
from moldau.cli.suggestions import SuggestingGroup

if TYPE_CHECKING:
    from moldau.sql.shell.result_writers import ResultWriter
    from moldau.sql.shell.spark_start import SessionStart

app = typer.Typer(
    cls=SuggestingGroup,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
)
app.command()(serve)


class SqlOutput(StrEnum):
    """The output format."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


@app.callback()
def sql(
    context: typer.Context,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    execute: Annotated[
        list[str] | None,
        typer.Option(
            "--execute", "-e", metavar="STATEMENTS", help="Run these statements, and no shell. Can be repeated."
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="Run the statements of a file (-: of standard input)."),
    ] = None,
    output: Annotated[
        SqlOutput,
        typer.Option("--output", "-o", help="table, json (an object per row and line) or csv (with a header)."),
    ] = SqlOutput.TABLE,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of the session, as SET sets it. Can be repeated."),
    ] = None,
    master: Annotated[
        str | None, typer.Option("--master", help="Where Spark runs: local[N], spark://HOST:PORT … (default: here).")
    ] = None,
    command_config: CommandConfigOption = None,
    wait: WaitOption = False,
) -> None:
    """Query topics with SQL. Without -e and -f, in a terminal: a shell with history and completion.

    Statements may also come from a pipe. Results go to standard output; an error goes to standard error, with its line
    and column. Statements after the one that failed do not run.

    Exit code: 0 if all statements succeeded, 1 if one failed, 2 for wrong usage, 130 after Ctrl-C.

    Example: moldau sql; or: moldau sql -e "SELECT city, count(*) FROM orders GROUP BY city" --output csv
    """
    if context.invoked_subcommand is not None:
        return
    if execute and file is not None:
        usage_error("-e and -f: give one of them")
    assignments = [_assignment(text) for text in set_ or []]
    texts = _texts(execute, file)
    with one_line_errors():
        settings = _client_settings(bootstrap, command_config)
        require_listener(settings["bootstrap.servers"], wait=wait)
    with _needed_packages():
        code = _run(settings, master, assignments, texts, output)
    raise typer.Exit(code)


def _client_settings(bootstrap: str, command_config: Path | None) -> dict[str, Any]:
    """The settings that all kinds of clients have: a session has admin clients, consumers and producers."""
    from moldau.client.settings import ADMIN, CONSUMER, PRODUCER

    found = client_settings(bootstrap, command_config)
    of_one_kind = {name for name in found if name in ADMIN and not (name in CONSUMER and name in PRODUCER)}
    return {name: value for name, value in found.items() if name not in of_one_kind}


def _assignment(text: str) -> str:
    """The SET statement for NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        usage_error(f"--set: {text!r} is not NAME=VALUE")
    return f"SET {_literal(name.strip())} = {_literal(value.strip())};"


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _texts(execute: list[str] | None, file: Path | None) -> list[tuple[str, str]] | None:
    """The texts to run, each with the name of where it comes from. None: the shell."""
    if execute:
        return [("" if len(execute) == 1 else f"-e {number}: ", text) for number, text in enumerate(execute, 1)]
    if file is not None and str(file) != "-":
        with one_line_errors():
            return [(f"{file}: ", file.read_text(encoding="utf-8"))]
    if file is None and sys.stdin.isatty() and sys.stdout.isatty():
        return None
    with one_line_errors():
        return [("", sys.stdin.read())]


@contextlib.contextmanager
def _needed_packages() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("pyspark", "prompt_toolkit", "pygments", "pandas", "pyarrow"):
            fail(f"moldau sql needs the package {error.name}: pip install 'moldau[sql]'")
        raise


def _run(
    settings: Mapping[str, Any],
    master: str | None,
    assignments: list[str],
    texts: list[tuple[str, str]] | None,
    output: SqlOutput,
) -> int:
    from moldau.sql.shell.spark_start import started
    from moldau.sql.shell.state_files import HISTORY, SPARK_LOG, state_directory

    state = state_directory(os.environ)
    if texts is None:
        from moldau.sql.shell.terminal import run_shell  # before Spark starts: the packages may be missing

        start = started(settings, master, state / SPARK_LOG)
        try:
            return run_shell(start, assignments, state / HISTORY)
        finally:
            _close(start)
    code = _check(texts)
    if code is not None:
        return code
    start = started(settings, master, state / SPARK_LOG)
    try:
        return _run_texts(start, [*(("--set: ", text) for text in assignments), *texts], output)
    finally:
        _close(start)


def _check(texts: list[tuple[str, str]]) -> int | None:
    """The exit code of texts that cannot or need not run: Spark does not start for them."""
    from moldau.sql.errors import SqlError
    from moldau.sql.parser import parse

    variables: dict[str, str] = {}
    count = 0
    for source, text in texts:
        try:
            count += len(parse(text, variables))
        except SqlError as error:
            complain(f"{source}{error}")
            return EXIT_ERROR
    return 0 if count == 0 else None


def _run_texts(start: SessionStart, texts: list[tuple[str, str]], output: SqlOutput) -> int:
    from moldau.client.errors import MoldauError
    from moldau.sql.shell.scripts import ScriptRunner

    runner = ScriptRunner(start.wait, _writer(output))
    for source, text in texts:
        try:
            runner.run(text)
        except MoldauError as error:
            sys.stdout.flush()
            complain(f"{source}{error}")
            return EXIT_ERROR
        except KeyboardInterrupt:
            return EXIT_INTERRUPTED
        except BrokenPipeError:  # the reader of our output has exited: what is left to write goes nowhere
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
    return 0


def _writer(output: SqlOutput) -> ResultWriter:
    from moldau.sql.shell import result_writers

    if output is SqlOutput.JSON:
        return result_writers.JsonRowWriter(sys.stdout, sys.stderr)
    if output is SqlOutput.CSV:
        return result_writers.CsvRowWriter(sys.stdout, sys.stderr)
    if not sys.stdout.isatty():
        return result_writers.AlignedRowWriter(sys.stdout)
    from rich.console import Console

    from moldau.sql.shell.terminal_tables import TerminalWriter

    return TerminalWriter(Console(highlight=False))


def _close(start: SessionStart) -> None:
    """Stop Spark. A second Ctrl-C does not wait for it: the JVM ends with this process."""
    with contextlib.suppress(KeyboardInterrupt):
        start.close()
