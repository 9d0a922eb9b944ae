"""Command `moldau connect`: a Connect worker, a standalone worker, and its connectors by the REST API."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.cli.connect_client import (
    DEFAULT_URL,
    CaOption,
    ConnectClient,
    PasswordEnvironmentOption,
    PasswordFileOption,
    UrlOption,
    UserOption,
    connector_path,
)
from moldau.cli.connection_options import DEFAULT_BOOTSTRAP, OutputOption, require_listener
from moldau.cli.output import Output, fail, one_line_errors, print_json, print_table, usage_error
from moldau.cli.suggestions import SuggestingGroup
from moldau.settings.listeners import MAX_PORT
from moldau.settings.setting import SettingError

if TYPE_CHECKING:
    from moldau.connect.worker_settings import WorkerSettings

app = typer.Typer(
    cls=SuggestingGroup,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
)

BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        "--bootstrap-servers",
        "-b",
        envvar="MOLDAU_BOOTSTRAP_SERVERS",
        metavar="HOST:PORT,...",
        help=f"Addresses of brokers (default: those in --config, or {DEFAULT_BOOTSTRAP}).",
    ),
]
PortOption = Annotated[
    int | None,
    typer.Option(min=0, max=MAX_PORT, help="The port of the REST API on 127.0.0.1 (default: 8083; 0: any free port)."),
]
ListenOption = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Instead of --port: the address of the REST API. Beyond this machine it needs a login.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting, by its Kafka Connect name. Can be repeated."),
]
MasterOption = Annotated[
    str | None, typer.Option("--master", help="Where Spark runs: local[N], spark://HOST:PORT … (spark.master).")
]
LevelOption = Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")]
JsonOption = Annotated[bool, typer.Option("--log-json", help="Print log lines as JSON objects.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The connector.")]


@app.callback()
def connect(
    context: typer.Context,
    bootstrap: BootstrapOption = None,
    port: PortOption = None,
    listen: ListenOption = None,
    config: Annotated[
        Path | None, typer.Option(help="A file in the format of Kafka's connect-distributed.properties.")
    ] = None,
    set_: SetOption = None,
    master: MasterOption = None,
    log_level: LevelOption = "warning",
    log_json: JsonOption = False,
) -> None:
    """Run a Connect worker with Kafka Connect's REST API on 127.0.0.1. Several workers with the same group.id share
    their connectors. Settings come from --config, the environment (MOLDAU_CONNECT_GROUP_ID=...) and --set; later ones
    override earlier ones.

    Exit code: 0 after a clean stop, 1 after an error, 130 after a second Ctrl-C.

    Example: moldau connect -b 127.0.0.1:9092 --port 8083; then: moldau connect status
    """
    if context.invoked_subcommand is not None:
        return
    assignments = _assignments(port, listen, master, set_)
    settings = _settings(config, bootstrap, assignments, log_level, log_json)
    raise typer.Exit(_run(settings, None))


@app.command()
def standalone(
    worker: Annotated[Path, typer.Argument(metavar="WORKER", help="The properties of the worker.")],
    connectors: Annotated[list[Path], typer.Argument(metavar="CONNECTOR...", help="The properties of each connector.")],
    bootstrap: BootstrapOption = None,
    port: PortOption = None,
    listen: ListenOption = None,
    set_: SetOption = None,
    master: MasterOption = None,
    log_level: LevelOption = "warning",
    log_json: JsonOption = False,
) -> None:
    """Run connectors from property files (or JSON files), without a group. Their offsets are kept in a topic.

    Example: moldau connect standalone worker.properties source.properties sink.properties
    """
    settings = _settings(worker, bootstrap, _assignments(port, listen, master, set_), log_level, log_json)
    with _needed_packages(), one_line_errors():
        from moldau.connect.connector_files import parse_connector_files

        configs = parse_connector_files((str(file), file.read_text()) for file in connectors)
    raise typer.Exit(_run(settings, configs))


# -- the worker --------------------------------------------------------------------------------------------------------


def _assignments(port: int | None, listen: str | None, master: str | None, set_: list[str] | None) -> list[str]:
    if port is not None and listen is not None:
        usage_error("--listen includes the port: remove --port")
    found = []
    if port is not None:
        found.append(f"listeners=http://127.0.0.1:{port}")
    if listen is not None:
        found.append(f"listeners={listen if '://' in listen else f'http://{listen}'}")
    if master is not None:
        found.append(f"spark.master={master}")
    return [*found, *(set_ or [])]


def _settings(
    config: Path | None, bootstrap: str | None, assignments: list[str], log_level: str, log_json: bool
) -> WorkerSettings:
    """The checked settings, with logging configured. Any error ends the command."""
    from moldau.cli.logs import configure_logging, quieten_libraries

    try:
        configure_logging(log_level, as_json=log_json)
        quieten_libraries()
    except ValueError as error:
        fail(f"--log-level: {error}")
    with _needed_packages(), one_line_errors():
        from moldau.connect.worker_settings import worker_settings

        properties = "" if config is None else config.read_text()
        given = [*([f"bootstrap.servers={bootstrap}"] if bootstrap else []), *assignments]
        defaults = f"bootstrap.servers={DEFAULT_BOOTSTRAP}\n"
        try:
            return worker_settings(properties=defaults + properties, environment=os.environ, assignments=given)
        except SettingError as error:
            fail(str(error))


def _run(settings: WorkerSettings, connectors: list[dict[str, str]] | None) -> int:
    from moldau.cli.serve import describe
    from moldau.client.errors import MoldauError

    with _needed_packages():
        from moldau.connect.worker import ConnectWorker
        from moldau.service.http_settings import HttpAddress
        from moldau.service.server import banner_lines, run_process

    def ready(addresses: Any) -> None:
        shown: list[HttpAddress] = list(addresses)
        print("\n".join(banner_lines("Connect", shown, "/connectors")))
        print(f"  watch   moldau connect status --url {shown[0].url}")
        print("  stop    Ctrl-C", flush=True)

    async def main(stop: Any) -> int:
        return await ConnectWorker(settings, connectors).run(stop, ready)

    require_listener(",".join(settings.values["bootstrap.servers"]), wait=True)
    try:
        return run_process(main)
    except (MoldauError, SettingError) as error:
        fail(str(error))
    except OSError as error:
        fail(describe(error))


@contextlib.contextmanager
def _needed_packages() -> Iterator[None]:
    """Turn a missing package into an error that says how to install it."""
    try:
        yield
    except ImportError as error:
        if error.name is None or error.name.startswith("moldau"):
            raise
        fail(f"the package {error.name} is missing; install it with: pip install 'moldau[connect]'")


# -- connectors by the REST API ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def _client(
    url: str, user: str | None, password_file: Path | None, password_env: str | None, ca_file: Path | None
) -> Iterator[ConnectClient]:
    """A client for the duration of a command. An error inside ends the command with a one-line message."""
    with (
        _needed_packages(),
        one_line_errors(),
        ConnectClient.of(url, user, password_file, password_env, ca_file) as client,
    ):
        yield client


@app.command()
def status(
    url: UrlOption = DEFAULT_URL,
    once: Annotated[bool, typer.Option("--once", help="Print the table once, and exit.")] = False,
    output: OutputOption = Output.TEXT,
    user: UserOption = None,
    password_file: PasswordFileOption = None,
    password_env: PasswordEnvironmentOption = None,
    ca_file: CaOption = None,
) -> None:
    """Show connectors: state, worker, tasks, records per second, lag, last error. On a terminal the table is renewed
    until Ctrl-C.

    Example: moldau connect status --url http://127.0.0.1:8083; or for a script: moldau connect status --once -o json
    """
    from moldau.cli import connect_status

    with _client(url, user, password_file, password_env, ca_file) as client:
        if output is Output.JSON:
            print_json(connect_status.found_states(client))
        elif once or not sys.stdout.isatty():
            rows = [connect_status.row(state) for state in connect_status.found_states(client)]
            print_table(connect_status.HEADERS, rows)
        else:
            with contextlib.suppress(KeyboardInterrupt):
                connect_status.watch(client)


@app.command("list")
def list_(
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TEXT,
    user: UserOption = None,
    password_file: PasswordFileOption = None,
    password_env: PasswordEnvironmentOption = None,
    ca_file: CaOption = None,
) -> None:
    """List the connectors. Example: moldau connect list"""
    with _client(url, user, password_file, password_env, ca_file) as client:
        names = sorted(client.call("GET", "/connectors"))
    if output is Output.JSON:
        print_json(names)
    else:
        print("\n".join(names) if names else "no connectors")


@app.command()
def create(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The configuration: properties, or JSON (*.json).")],
    url: UrlOption = DEFAULT_URL,
    user: UserOption = None,
    password_file: PasswordFileOption = None,
    password_env: PasswordEnvironmentOption = None,
    ca_file: CaOption = None,
) -> None:
    """Create a connector, or replace the configuration of the one with the same name.

    Example: moldau connect create orders-sink.properties
    """
    with _needed_packages(), one_line_errors():
        from moldau.connect.connector_files import parse_connector_file

        config = parse_connector_file(str(file), file.read_text())
    with _client(url, user, password_file, password_env, ca_file) as client:
        client.call("PUT", connector_path(config["name"], "config"), config)
    print(f"connector {config['name']} is configured")


def _command(name: str, method: str, parts: tuple[str, ...], doc: str, done: str) -> None:
    """Add a command that sends one request about one connector."""

    def run(
        connector: NameArgument,
        url: UrlOption = DEFAULT_URL,
        user: UserOption = None,
        password_file: PasswordFileOption = None,
        password_env: PasswordEnvironmentOption = None,
        ca_file: CaOption = None,
    ) -> None:
        params = [("includeTasks", "true")] if name == "restart" else []
        with _client(url, user, password_file, password_env, ca_file) as client:
            client.call(method, connector_path(connector, *parts), params=params)
        print(f"connector {connector} {done}")

    run.__doc__ = f"{doc} Example: moldau connect {name} orders-sink"
    app.command(name)(run)


_command("delete", "DELETE", (), "Delete a connector. Its offsets stay.", "is deleted")
_command("pause", "PUT", ("pause",), "Pause a connector after its current batch.", "pauses")
_command("resume", "PUT", ("resume",), "Resume a paused or stopped connector.", "resumes")
_command("stop", "PUT", ("stop",), "Stop a connector; its configuration and offsets stay.", "stops")
_command("restart", "POST", ("restart",), "Restart a connector and its tasks, also after a failure.", "restarts")
