"""Command `moldau pipeline`: creates, runs, shows and stops declarative pipelines."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.cli.connection_options import (
    CONFIG_VARIABLE,
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    CommandConfigOption,
    OutputOption,
    WaitOption,
    client_settings,
    require_listener,
)
from moldau.cli.output import Output, fail, one_line_errors, print_json, print_table
from moldau.cli.suggestions import SuggestingGroup

if TYPE_CHECKING:
    from moldau.pipelines.project import PipelineProject
    from moldau.pipelines.run_status import RunStatus

app = typer.Typer(
    cls=SuggestingGroup,
    help="Create, run and show declarative pipelines (Spark Declarative Pipelines).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

BOOTSTRAP_VARIABLE = "MOLDAU_BOOTSTRAP_SERVERS"
PACKAGES = ("pyspark", "pyarrow", "yaml", "grpc")
STOP_TIMEOUT_S = 120.0
HEADERS = ("dataset", "kind", "state", "rows", "rows/s", "lag", "error")

ProjectOption = Annotated[
    Path, typer.Option("--project", "-p", metavar="DIRECTORY", help="The project (default: the current directory).")
]
OnceOption = Annotated[bool, typer.Option("--once", help="Process what is there now, then end.")]
FullRefreshOption = Annotated[
    bool,
    typer.Option(
        "--full-refresh",
        help="First compute all datasets again from the beginning. Sinks write all their rows again.",
    ),
]
DatasetOption = Annotated[
    list[str] | None, typer.Option("--dataset", metavar="NAME", help="Update only this dataset. Can be repeated.")
]
MasterOption = Annotated[
    str | None, typer.Option("--master", help="Where Spark runs: local[N], spark://HOST:PORT … (default: local[*]).")
]
RemoteOption = Annotated[
    str | None, typer.Option("--remote", metavar="sc://HOST:PORT", help="A Spark Connect server that runs already.")
]


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="The name of the pipeline, and of its directory.")],
    run_it: Annotated[bool, typer.Option("--run", help="Run the pipeline at once, with demonstration data.")] = False,
    once: OnceOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    command_config: CommandConfigOption = None,
    wait: WaitOption = False,
    master: MasterOption = None,
) -> None:
    """Create a project that works at once: transformations in Python and SQL, demonstration data, a test, a README.

    Example: moldau pipeline new shop --run; or: moldau pipeline new shop && cd shop && moldau pipeline run
    """
    with one_line_errors():
        from moldau.pipelines.new_project import create_project

        directory = create_project(Path.cwd(), name)
    print(f"created {directory}")
    if run_it:
        run(directory, once, False, None, bootstrap, command_config, wait, master, None)
    else:
        print(f"next: cd {name} && moldau pipeline run")


@app.command()
def run(
    project: ProjectOption = Path(),
    once: OnceOption = False,
    full_refresh: FullRefreshOption = False,
    dataset: DatasetOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    command_config: CommandConfigOption = None,
    wait: WaitOption = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
) -> None:
    """Run the pipeline: continuously until Ctrl-C or moldau pipeline stop, or --once. A run that was ended, in any way,
    continues with the next one; topics are written exactly once.

    The code of the pipeline gets the brokers from MOLDAU_BOOTSTRAP_SERVERS and MOLDAU_COMMAND_CONFIG, which this
    command sets.

    Exit code: 0 when complete or stopped, 1 after an error, 130 after a second Ctrl-C, which does not wait for the end
    of the current update.

    Example: moldau pipeline run -b 127.0.0.1:9092 --once
    """
    if master is not None and remote is not None:
        fail("--remote is a Spark that runs already: remove --master", 2)
    _require_packages()
    with one_line_errors():
        found = _project(project)
        settings = client_settings(bootstrap, command_config)
        require_listener(settings["bootstrap.servers"], wait=wait)
        os.environ[BOOTSTRAP_VARIABLE] = settings["bootstrap.servers"]
        if command_config is not None:
            os.environ[CONFIG_VARIABLE] = str(command_config.absolute())
        from moldau.pipelines.runner import PipelineRunner, RunOptions

        options = RunOptions(once, full_refresh, tuple(dataset or ()), master, remote)
        display = _LiveTable() if sys.stdout.isatty() else _Lines()
        runner = PipelineRunner(found, options, display.show, display.say)
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:  # a shell's background job ignores Ctrl-C
                signal.signal(number, lambda _number, _frame: runner.stop())
        display.say(f"{found.name}: starting Spark; its log is {found.state / 'spark.log'}")
        try:
            runner.run()
        finally:
            display.close()
    _print_status(runner.status.to_json())


@app.command()
def status(project: ProjectOption = Path(), output: OutputOption = Output.TEXT) -> None:
    """Show the running pipeline, or the last run: state, rows, rows per second, lag and last error of each dataset.

    Exit code: 0 if it runs or ended well, 1 if it failed, was killed, or never ran.

    Example: moldau pipeline status -o json
    """
    with one_line_errors():
        found = _status(_project(project))
    if output is Output.JSON:
        print_json(found)
    else:
        _print_status(found)
    if found["error"] or found["state"].startswith("not running"):
        raise typer.Exit(1)


@app.command()
def stop(
    project: ProjectOption = Path(),
    now: Annotated[bool, typer.Option("--now", help="Do not wait for the end of the current update.")] = False,
    timeout: Annotated[float, typer.Option(help="How many seconds to wait for the end.")] = STOP_TIMEOUT_S,
) -> None:
    """Stop the running pipeline, and wait until it has ended.

    Example: moldau pipeline stop
    """
    with one_line_errors():
        from moldau.pipelines.state_files import ProjectState

        found = _project(project)
        stopped = ProjectState(found.state).stop(now=now, timeout_s=timeout)
    if not stopped:
        fail(f"{found.name} does not run")
    print(f"{found.name} has stopped")


@app.command()
def graph(
    project: ProjectOption = Path(),
    file: Annotated[Path, typer.Option("--file", "-f", help="The SVG file to write; - for standard output.")] = Path(
        "graph.svg"
    ),
) -> None:
    """Draw topics, datasets and sinks as an SVG picture, with the rates of the running pipeline or of the last run.

    Example: moldau pipeline graph --file shop.svg
    """
    with one_line_errors():
        from moldau.pipelines.picture import draw

        picture = draw(_status(_project(project)))
        if str(file) == "-":
            print(picture)
            return
        file.write_text(picture, encoding="utf-8")
    print(f"written to {file}")


def _require_packages() -> None:
    from importlib.util import find_spec

    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        fail(f"pipelines need {', '.join(missing)}: pip install 'moldau[pipelines]'")


def _project(directory: Path) -> PipelineProject:
    from importlib.util import find_spec

    if find_spec("yaml") is None:
        _require_packages()
    from moldau.pipelines.project import find_project

    return find_project(directory)


def _status(project: PipelineProject) -> dict[str, Any]:
    from moldau.pipelines.state_files import ProjectState

    found = ProjectState(project.state).read_status()
    if found is None:
        fail(f"{project.name} has not run yet; start it with moldau pipeline run")
    return found


def _print_status(found: dict[str, Any]) -> None:
    updates = "1 update" if found["updates"] == 1 else f"{found['updates']} updates"
    print_table(HEADERS, _rows(found), f"{found['pipeline']}: {found['state']} ({found['mode']}, {updates})")


def _rows(found: dict[str, Any]) -> list[tuple[Any, ...]]:
    from moldau.pipelines.picture import short_number

    return [
        (
            one["name"],
            one["kind"],
            one["state"],
            one["rows"],
            short_number(one["rate"]),
            "-" if one["lag"] is None else one["lag"],
            one["error"] or "",
        )
        for one in found["datasets"]
    ]


class _Lines:
    """Progress in a pipe: a line per dataset when an update has changed it."""

    def __init__(self) -> None:
        self._shown: dict[str, tuple[Any, ...]] = {}

    def say(self, text: str) -> None:
        print(text, flush=True)

    def show(self, status: RunStatus) -> None:
        for one in status.datasets.values():
            seen = (one.state, one.rows)
            if one.kind == "materialized view" and one.state != "failed" and status.state == "running":
                continue  # its rows are counted after the update
            if one.state in ("up to date", "failed", "skipped") and self._shown.get(one.name) != seen:
                self._shown[one.name] = seen
                self.say(f"{one.name}: {one.state}, {one.rows} rows{', ' + one.error if one.error else ''}")

    def close(self) -> None: ...


class _LiveTable:
    """Progress in a terminal: a table that is renewed."""

    def __init__(self) -> None:
        from rich.live import Live

        self._live = Live(refresh_per_second=4, transient=True)
        self._live.start()

    def say(self, text: str) -> None:
        self._live.console.print(text, markup=False, highlight=False)

    def show(self, status: RunStatus) -> None:
        from rich.table import Table
        from rich.text import Text

        found = status.to_json()
        table = Table(title=Text(f"{status.pipeline}: {status.state}"), title_justify="left", header_style="bold cyan")
        for header in HEADERS:
            table.add_column(header, justify="right" if header in ("rows", "rows/s", "lag") else "left")
        for row in _rows(found):
            table.add_row(*(Text(str(value)) for value in row))
        self._live.update(table)

    def close(self) -> None:
        self._live.stop()
