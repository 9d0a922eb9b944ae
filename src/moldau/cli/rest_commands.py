"""Command `moldau rest`: a REST proxy for topics, records and groups."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from moldau.cli.connection_options import DEFAULT_BOOTSTRAP, require_listener
from moldau.cli.output import fail, one_line_errors, usage_error
from moldau.settings.listeners import MAX_PORT
from moldau.settings.setting import SettingError


def rest(
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
            min=0, max=MAX_PORT, help="The port of the REST API on 127.0.0.1 (default: 8082; 0: any free port)."
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Instead of --port: the address of the REST API. Beyond this machine it needs a login.",
        ),
    ] = None,
    registry: Annotated[
        str | None, typer.Option(metavar="URL", help="The schema registry, for Avro, JSON Schema and Protobuf.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A file of settings, in the format of Java properties.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting. Can be repeated.")
    ] = None,
    log_level: Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")] = "warning",
    log_json: Annotated[bool, typer.Option("--log-json", help="Print log lines as JSON objects.")] = False,
) -> None:
    """Run a REST proxy on 127.0.0.1: Confluent's API v2 and v3, server-sent events and WebSocket. Settings come from
    --config, the environment (MOLDAU_REST_AUTHENTICATION_METHOD=...) and --set; later ones override earlier ones.

    Exit code: 0 after a clean stop, 1 after an error, 130 after a second Ctrl-C.

    Example: moldau rest -b 127.0.0.1:9092 --port 8082; then: curl 127.0.0.1:8082/topics
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
        from moldau.rest import command
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("moldau"):
            raise
        fail(f"the package {error.name} is missing; install it with: pip install 'moldau[rest]'")
    with one_line_errors():
        properties = "" if config is None else config.read_text()
        try:
            settings = command.command_settings(
                properties=f"bootstrap.servers={DEFAULT_BOOTSTRAP}\n{properties}",
                environment=os.environ,
                bootstrap=bootstrap,
                port=port,
                listen=listen,
                registry=registry,
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
