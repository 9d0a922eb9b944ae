"""Command `moldau examples`: the case studies, run and copied from the installed package."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Annotated

import typer

from moldau.cli.connection_options import CommandConfigOption, WaitOption
from moldau.cli.output import EXIT_ERROR, EXIT_INTERRUPTED, complain, fail, one_line_errors, print_table
from moldau.cli.suggestions import SuggestingGroup

if TYPE_CHECKING:
    from moldau.examples.study import Study

app = typer.Typer(cls=SuggestingGroup, invoke_without_command=True, pretty_exceptions_enable=False)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The example; or ./DIR, the directory of a copy.")]


@app.callback()
def examples(context: typer.Context) -> None:
    """List the case studies: small projects with a data generator, a Spark pipeline, a live view and a check of the
    numbers.

    Example: moldau examples; then: moldau examples run taxi
    """
    if context.invoked_subcommand is None:
        list_examples()


@app.command("list")
def list_examples() -> None:
    """List the case studies, as `moldau examples` does.

    Example: moldau examples list
    """
    from moldau.examples.study import find, names

    print_table(["name", "shows"], [(name, find(name).title) for name in names()])


@app.command()
def run(
    name: NameArgument,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            "--bootstrap-servers",
            "-b",
            metavar="HOST:PORT,...",
            help="Addresses of brokers. Without it, a broker is started for the run, and its data is deleted.",
        ),
    ] = None,
    command_config: CommandConfigOption = None,
    wait: WaitOption = False,
    rate: Annotated[float, typer.Option(min=1, help="Records per second, on average.")] = 200,
    seconds: Annotated[float | None, typer.Option(min=1, help="Stop after this time (default: at Ctrl-C).")] = None,
    check: Annotated[bool, typer.Option(help="At the end, compare the results with reference.py.")] = True,
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete topics of an earlier run first.")] = False,
) -> None:
    """Run a case study: its generator, its Spark pipeline and its live view, until Ctrl-C. Then the results are
    compared with a computation in plain Python.

    Exit code: 0 if they are equal, 1 if they differ or after an error, 130 after a second Ctrl-C.

    Example: moldau examples run taxi --seconds 60
    """
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        fail("PySpark is not installed; pip install 'moldau[sql]'")
    if which("java") is None:
        fail("Java is not installed; Spark needs version 17 or later")
    from moldau.examples.study import StudyError, find

    with one_line_errors():
        client = _client(bootstrap, command_config, wait=wait)
        try:
            code = _run(find(name), client, rate, seconds, check=check, fresh=fresh)
        except StudyError as error:
            fail(str(error))
    raise typer.Exit(code)


def _client(bootstrap: str | None, command_config: Path | None, *, wait: bool) -> dict[str, str] | None:
    """The settings that all kinds of clients have: a study has producers, consumers and Spark queries."""
    from moldau.cli.connection_options import client_settings, require_listener
    from moldau.client.settings import ADMIN, PRODUCER

    if bootstrap is None:
        return None
    settings = client_settings(bootstrap, command_config, "consumer")
    require_listener(bootstrap, wait=wait)
    return {name: str(value) for name, value in settings.items() if name in ADMIN and name in PRODUCER}


def _run(
    study: Study, client: dict[str, str] | None, rate: float, seconds: float | None, *, check: bool, fresh: bool
) -> int:
    from rich.console import Console

    from moldau.cli.interrupt import CtrlC
    from moldau.examples.results import check as compared
    from moldau.examples.run import StudyRun, prepared

    console = Console(highlight=False)
    try:
        with prepared(study, client, fresh=fresh) as place:
            console.print(f"[bold]{study.title}.[/] Spark starts; that takes a few seconds.")
            one = StudyRun(study, place, rate)
            with CtrlC(one.stop):
                one.run(console, seconds)
            checks = compared(study, place) if check else []
    except KeyboardInterrupt:
        complain("stopped before the comparison")
        return EXIT_INTERRUPTED
    for result in checks:
        console.print(str(result), style="red" if result.differences else "green", markup=False)
    return EXIT_ERROR if any(result.differences for result in checks) else 0


@app.command()
def copy(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The example.")],
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The new directory; a name for a Python package.")],
) -> None:
    """Copy a case study, to change it and to run the copy.

    Example: moldau examples copy taxi my_taxi && moldau examples run ./my_taxi
    """
    from moldau.examples import study

    with one_line_errors():
        try:
            study.copy(name, directory)
        except study.StudyError as error:
            fail(str(error))
    print(f"{directory} has a copy of {name}; run it with: moldau examples run ./{directory}")
