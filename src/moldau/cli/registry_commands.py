"""Command `moldau registry`: a schema registry, and its subjects by the REST API."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.cli.connection_options import DEFAULT_BOOTSTRAP, OutputOption, require_listener
from moldau.cli.output import EXIT_ERROR, Output, fail, one_line_errors, print_json, print_table, usage_error
from moldau.cli.registry_child import ANNOUNCEMENT
from moldau.cli.registry_options import (
    DEFAULT_URL,
    CaOption,
    PasswordEnvironmentOption,
    PasswordFileOption,
    TypeOption,
    UrlOption,
    UserOption,
    needed_packages,
    registry_client,
    schema_of_file,
)
from moldau.cli.suggestions import SuggestingGroup
from moldau.settings.listeners import MAX_PORT
from moldau.settings.setting import SettingError

if TYPE_CHECKING:
    from moldau.registry.settings import RegistryProcessSettings
    from moldau.schemas.registry_client import RegistryClient
    from moldau.schemas.schema import RegisteredSchema

app = typer.Typer(cls=SuggestingGroup, invoke_without_command=True, pretty_exceptions_enable=False)

SubjectArgument = Annotated[str, typer.Argument(metavar="SUBJECT", help="The subject, such as orders-value.")]
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The schema: *.avsc, *.json or *.proto.")]


@app.callback()
def registry(
    context: typer.Context,
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
            min=0, max=MAX_PORT, help="The port of the REST API on 127.0.0.1 (default: 8081; 0: any free port)."
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Instead of --port: the address of the REST API. Beyond this machine it needs a login.",
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="A file in the format of Confluent's schema-registry.properties.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting. Can be repeated.")
    ] = None,
    log_level: Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")] = "warning",
    log_json: Annotated[bool, typer.Option("--log-json", help="Print log lines as JSON objects.")] = False,
    announce: Annotated[bool, typer.Option("--announce", hidden=True)] = False,
) -> None:
    """Run a schema registry with Confluent's REST API on 127.0.0.1. Schemas are in the topic _schemas. Several
    registries with the same schema.registry.group.id elect a leader, which carries out the writes of all. Settings come
    from --config, the environment (MOLDAU_REGISTRY_KAFKASTORE_TOPIC=...) and --set; later ones override earlier ones.

    Exit code: 0 after a clean stop, 1 after an error, 130 after a second Ctrl-C.

    Example: moldau registry -b 127.0.0.1:9092; then: moldau registry subjects
    """
    if context.invoked_subcommand is not None:
        return
    if port is not None and listen is not None:
        usage_error("--listen includes the port: remove --port")
    given = [f"bootstrap.servers={bootstrap}"] if bootstrap else []
    if port is not None:
        given.append(f"listeners=http://127.0.0.1:{port}")
    if listen is not None:
        given.append(f"listeners={listen if '://' in listen else f'http://{listen}'}")
    raise typer.Exit(_run(_settings(config, [*given, *(set_ or [])], log_level, log_json), announce))


def _settings(config: Path | None, assignments: list[str], log_level: str, log_json: bool) -> RegistryProcessSettings:
    """The checked settings, with logging configured. Any error ends the command."""
    from moldau.cli.logs import configure_logging, quieten_libraries

    try:
        configure_logging(log_level, as_json=log_json)
        quieten_libraries()
    except ValueError as error:
        fail(f"--log-level: {error}")
    with needed_packages(), one_line_errors():
        from moldau.registry.settings import process_settings

        properties = "" if config is None else config.read_text()
        try:
            return process_settings(
                properties=f"bootstrap.servers={DEFAULT_BOOTSTRAP}\n{properties}",
                environment=os.environ,
                assignments=assignments,
            )
        except SettingError as error:
            fail(str(error))


def _run(settings: RegistryProcessSettings, announce: bool) -> int:
    from moldau.cli.serve import describe
    from moldau.client.errors import MoldauError

    with needed_packages():
        from moldau.registry.process import RegistryProcess
        from moldau.service.server import banner_lines, run_process

    def ready(addresses: Any) -> None:
        if announce:
            print(f"{ANNOUNCEMENT}{addresses[0].url}", flush=True)
            return
        print("\n".join(banner_lines("Schema Registry", addresses, "/subjects")))
        print(f"  read    {addresses[0].url}/docs")
        print("  stop    Ctrl-C", flush=True)

    async def main(stop: Any) -> int:
        return await RegistryProcess(settings).run(stop, ready)

    require_listener(",".join(settings.values["bootstrap.servers"]), wait=True)
    try:
        return run_process(main)
    except (MoldauError, SettingError) as error:
        fail(str(error))
    except OSError as error:
        fail(describe(error))


# -- subjects by the REST API ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _client(
    url: str, user: str | None, password_file: Path | None, password_env: str | None, ca_file: Path | None
) -> Iterator[RegistryClient]:
    """A client for the duration of a command. An error inside ends the command with a one-line message."""
    with (
        needed_packages(),
        one_line_errors(),
        registry_client(url, user, password_file, password_env, ca_file) as client,
    ):
        from moldau.schemas.errors import SchemaError

        try:
            yield client
        except SchemaError as error:
            fail(str(error))


@app.command()
def subjects(
    prefix: Annotated[str, typer.Option(help="Only subjects that begin with it.")] = "",
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TEXT,
    user: UserOption = None,
    password_file: PasswordFileOption = None,
    password_env: PasswordEnvironmentOption = None,
    ca_file: CaOption = None,
) -> None:
    """List the subjects with their newest version. Example: moldau registry subjects --url http://127.0.0.1:8081"""
    with _client(url, user, password_file, password_env, ca_file) as client:
        found = [client.latest(subject) for subject in client.subjects(prefix=prefix)]
    if output is Output.JSON:
        print_json([_summary(one) for one in found])
    elif not found:
        print("no subjects")
    else:
        print_table(
            ("SUBJECT", "VERSION", "ID", "TYPE"),
            [(one.subject, one.version, one.id, one.schema.type.value) for one in found],
        )


@app.command()
def show(
    subject: SubjectArgument,
    version: Annotated[int | None, typer.Option(min=1, help="The version (default: the newest).")] = None,
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TEXT,
    user: UserOption = None,
    password_file: PasswordFileOption = None,
    password_env: PasswordEnvironmentOption = None,
    ca_file: CaOption = None,
) -> None:
    """Show a schema of a subject. Example: moldau registry show orders-value --version 2"""
    with _client(url, user, password_file, password_env, ca_file) as client:
        found = client.latest(subject) if version is None else client.version(subject, version)
    if output is Output.JSON:
        print_json({**_summary(found), "schema": found.schema.text})
        return
    with contextlib.suppress(ValueError):
        print(json.dumps(json.loads(found.schema.text), indent=2, ensure_ascii=False))
        return
    print(found.schema.text)


@app.command()
def check(
    subject: SubjectArgument,
    file: FileArgument,
    type_: TypeOption = None,
    url: UrlOption = DEFAULT_URL,
    user: UserOption = None,
    password_file: PasswordFileOption = None,
    password_env: PasswordEnvironmentOption = None,
    ca_file: CaOption = None,
) -> None:
    """Check whether a schema may be registered for a subject, and print why not. Nothing is registered.

    Exit code: 0 if it may, 1 otherwise. Example: moldau registry check orders-value order.avsc
    """
    with _client(url, user, password_file, password_env, ca_file) as client:
        reasons = client.check_compatibility(subject, schema_of_file(file, type_), None)
    if not reasons:
        print(f"{file} may be registered for {subject}")
        return
    for reason in reasons:
        print(reason)
    raise typer.Exit(EXIT_ERROR)


@app.command()
def register(
    subject: SubjectArgument,
    file: FileArgument,
    type_: TypeOption = None,
    normalize: Annotated[bool, typer.Option("--normalize", help="Register the normal form of the schema.")] = False,
    url: UrlOption = DEFAULT_URL,
    user: UserOption = None,
    password_file: PasswordFileOption = None,
    password_env: PasswordEnvironmentOption = None,
    ca_file: CaOption = None,
) -> None:
    """Register a schema for a subject. Example: moldau registry register orders-value order.avsc"""
    with _client(url, user, password_file, password_env, ca_file) as client:
        done = client.register(subject, schema_of_file(file, type_), normalize=normalize)
    print(f"{subject} has the schema with id {done.id}" + (f" as version {done.version}" if done.version else ""))


def _summary(one: RegisteredSchema) -> dict[str, Any]:
    return {"subject": one.subject, "version": one.version, "id": one.id, "type": one.schema.type.value}
