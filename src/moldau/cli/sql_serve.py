"""Command `moldau sql serve`: a server that runs continuous queries and answers statements."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from moldau.cli.connection_options import DEFAULT_BOOTSTRAP, require_listener
from moldau.cli.output import fail, one_line_errors, usage_error
from moldau.settings.listeners import MAX_PORT
from moldau.settings.setting import SettingError


def serve(
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            "--bootstrap-servers",
            "-b",
            envvar="MOLDAU_BOOTSTRAP_SERVERS",
            metavar="HOST:PORT,...",
            help=f"Addresses of brokers (default: those in --config, or {DEFAULT_BOOTSTRAP}).",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=MAX_PORT, help="The port of the REST API on 127.0.0.1 (default: 8088; 0: any free port)."
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Instead of --port: the address of the REST API. Beyond this machine it needs a login.",
        ),
    ] = None,
    state_dir: Annotated[
        Path | None,
        typer.Option(help="Checkpoints and indexes of queries; the same directory for all servers of a group."),
    ] = None,
    service_id: Annotated[
        str | None, typer.Option(help="Servers with the same id stand by for each other (default: default).")
    ] = None,
    master: Annotated[
        str | None, typer.Option("--master", help="Where Spark runs: local[N], spark://HOST:PORT … (spark.master).")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A file of settings, in the format of Java properties.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting. Can be repeated.")
    ] = None,
    log_level: Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")] = "warning",
    log_json: Annotated[bool, typer.Option("--log-json", help="Print log lines as JSON objects.")] = False,
) -> None:
    """Run a server of streaming SQL with a REST API on 127.0.0.1. It runs the queries of CREATE … AS and INSERT INTO …
    SELECT. Several servers with the same --service-id stand by for each other. Settings come from --config, the
    environment (MOLDAU_SQL_STATE_DIR=...) and --set; later ones override earlier ones.

    Exit code: 0 after a clean stop, 1 after an error, 130 after a second Ctrl-C.

    Example: moldau sql serve -b 127.0.0.1:9092 --state-dir /var/lib/moldau-sql; then: curl 127.0.0.1:8088/queries
    """
    from moldau.cli.logs import configure_logging, quieten_libraries
    from moldau.cli.serve import describe
    from moldau.client.errors import MoldauError

    if port is not None and listen is not None:
        usage_error("--listen includes the port: remove --port")
    try:
        configure_logging(log_level, as_json=log_json)
        quieten_libraries()
    except ValueError as error:
        fail(f"--log-level: {error}")
    try:
        from moldau.sql.server import command
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("moldau"):
            raise
        fail(f"the package {error.name} is missing; install it with: pip install 'moldau[sql]'")
    with one_line_errors():
        properties = "" if config is None else config.read_text()
        try:
            settings = command.serve_settings(
                properties=f"bootstrap.servers={DEFAULT_BOOTSTRAP}\n{properties}",
                environment=os.environ,
                bootstrap=bootstrap,
                port=port,
                listen=listen,
                state_dir=None if state_dir is None else str(state_dir),
                service_id=service_id,
                master=master,
                assignments=set_ or [],
            )
        except SettingError as error:
            fail(str(error))
    require_listener(",".join(settings.values["bootstrap.servers"]), wait=True)
    try:
        raise typer.Exit(command.serve(settings, lambda line: print(line, flush=True)))
    except (MoldauError, SettingError) as error:
        fail(str(error))
    except OSError as error:
        fail(describe(error))
