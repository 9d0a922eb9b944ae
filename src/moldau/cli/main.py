"""Entry point of the command line: the options and commands of `moldau`."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moldau.cli import (
    acls,
    cluster,
    cluster_import,
    completion,
    configs,
    connect_commands,
    consume,
    examples_commands,
    groups,
    log_commands,
    perf,
    pipeline_commands,
    produce,
    quotas,
    registry_commands,
    registry_generate,
    rest_commands,
    security_commands,
    sql_commands,
    topics,
    transactions,
    users,
)
from moldau.cli.output import EXIT_ERROR, complain, usage_error
from moldau.cli.suggestions import SuggestingGroup
from moldau.settings.listeners import MAX_PORT, ListenerAddress, parse_address
from moldau.settings.setting import SettingError

if TYPE_CHECKING:
    from moldau.broker.broker import Broker
    from moldau.cli.registry_child import RegistryChild

app = typer.Typer(
    name="moldau",
    cls=SuggestingGroup,
    help="Kafka-compatible event streaming that you can pip install.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(topics.app, name="topics")
app.add_typer(groups.app, name="groups")
app.add_typer(configs.app, name="configs")
app.add_typer(acls.app, name="acls")
app.add_typer(users.app, name="users")
app.add_typer(quotas.app, name="quotas")
app.add_typer(transactions.app, name="transactions")
cluster.app.command("import")(cluster_import.import_broker)
app.add_typer(cluster.app, name="cluster")
app.add_typer(log_commands.app, name="log")
app.add_typer(security_commands.app, name="security")
app.add_typer(perf.app, name="perf")
app.add_typer(connect_commands.app, name="connect")
registry_commands.app.add_typer(registry_generate.app, name="generate")
app.add_typer(registry_commands.app, name="registry")
app.add_typer(sql_commands.app, name="sql")
app.add_typer(pipeline_commands.app, name="pipeline")
app.add_typer(examples_commands.app, name="examples")
app.command()(produce.produce)
app.command()(consume.consume)

DEFAULT_PORT = 9092
DEFAULT_DATA = Path("moldau-data")
DEFAULT_ZOOKEEPER = Path("moldau-zookeeper")
MAX_BROKERS = 20

DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help=(f"The directory for records and metadata; created if missing (default: {DEFAULT_DATA}, or log.dirs)."),
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting, by its Kafka name. Can be repeated."),
]
ZookeeperOption = Annotated[
    str | None,
    typer.Option(
        "--zookeeper",
        metavar="HOST:PORT,.../CHROOT",
        help="The ZooKeeper ensemble of the broker's cluster (zookeeper.connect).",
    ),
]
LevelOption = Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")]
JsonOption = Annotated[bool, typer.Option("--log-json", help="Print log lines as JSON objects.")]
MetricsOption = Annotated[
    int | None,
    typer.Option(
        "--metrics-port", min=0, max=MAX_PORT, help="Serve Prometheus metrics on this port (0: any free port)."
    ),
]


def _print_version(wanted: bool) -> None:
    if wanted:
        from moldau import __version__

        print(f"moldau {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Options of `moldau` itself, before the name of a command."""


@app.command()
def up(
    data: DataOption = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=MAX_PORT,
            help=f"The port for clients (default: {DEFAULT_PORT}; 0: any free port).",
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help=(
                "Instead of --port: the address to listen on. If other machines can reach it, use --secure: otherwise "
                "nothing is encrypted."
            ),
        ),
    ] = None,
    brokers: Annotated[
        int,
        typer.Option(
            min=1,
            max=MAX_BROKERS,
            help=(
                "The number of brokers. Each gets the next port and its own directory; ZooKeeper gets the next free "
                "port."
            ),
        ),
    ] = 1,
    secure: Annotated[
        bool,
        typer.Option(
            "--secure",
            help=(
                "Encrypt with TLS, require a login (SCRAM), deny what no rule allows. Certificates, users and client "
                "settings are in DATA/security; created if missing."
            ),
        ),
    ] = False,
    registry: Annotated[
        bool, typer.Option("--registry", help="Also start a schema registry on 127.0.0.1:8081.")
    ] = False,
    registry_port: Annotated[
        int | None,
        typer.Option(min=0, max=MAX_PORT, help="With --registry: its port (0: any free port)."),
    ] = None,
    zookeeper: ZookeeperOption = None,
    set_: SetOption = None,
    metrics_port: MetricsOption = None,
    log_level: LevelOption = "warning",
    log_json: JsonOption = False,
) -> None:
    """Start one broker on 127.0.0.1, or several with a ZooKeeper. Nothing else is needed. Stop with Ctrl-C.

    Exit code: 0 after a clean stop, 1 after an error, 130 after a second Ctrl-C.

    Example: moldau up --data ./events --port 9092; or, for clients on other machines: moldau up --listen 10.0.0.1:9092;
    or a cluster: moldau up --brokers 3 --data ./cluster; or with TLS, login and access control: moldau up --secure;
    or with a schema registry: moldau up --registry
    """
    from moldau.cli import local_cluster
    from moldau.cli.banner import print_banner
    from moldau.cli.security_files import ADMIN, broker_settings, client_settings

    connect = _connect_text(zookeeper)
    address = _listen_address(port, listen)
    options = ["--log-level", log_level, *(["--log-json"] if log_json else [])]
    child = _registry_child(registry, registry_port, secure, options)
    security = _security_directory((data or DEFAULT_DATA).absolute(), secure, brokers, address.host)
    settings = [*(child.broker_settings if child is not None else ()), *(set_ or ())]
    if brokers > 1:
        wanted = local_cluster.LocalClusterOptions(
            (data or DEFAULT_DATA).absolute(),
            brokers,
            address.port,
            zookeeper,
            tuple(settings),
            metrics_port,
            tuple(options),
            address.host,
            security,
            child,
        )
        raise typer.Exit(local_cluster.run(wanted))
    if local_cluster.is_cluster(data or DEFAULT_DATA):
        usage_error(f"--data: {data or DEFAULT_DATA} has the data of several brokers; give their number with --brokers")
    if security is not None:
        address = address._replace(name=local_cluster.SECURE_LISTENER)
    texts = [f"listeners={address}", *connect, *settings]
    defaults = "\n".join(f"{name}={value}" for name, value in local_cluster.FOR_DEVELOPMENT.items())
    config = None if security is None else broker_settings(security, 0)
    banner = partial(print_banner, client_config=None if security is None else client_settings(security, ADMIN))
    if child is not None:
        banner = partial(_banner_and_registry, child)
    _serve(data, config, texts, metrics_port, log_level, log_json, banner=banner, defaults=defaults, registry=child)


@app.command()
def broker(
    data: DataOption = None,
    listen: Annotated[str, typer.Option(help="The HOST:PORT to listen on, without encryption.")] = "",
    config: Annotated[Path | None, typer.Option(help="A file in the format of Kafka's server.properties.")] = None,
    zookeeper: ZookeeperOption = None,
    set_: SetOption = None,
    metrics_port: MetricsOption = None,
    log_level: LevelOption = "info",
    log_json: JsonOption = False,
    announce: Annotated[bool, typer.Option("--announce", hidden=True)] = False,
) -> None:
    """Run a broker with settings from a file, the environment (MOLDAU_LOG_DIRS=...) and --set; later ones override
    earlier ones.

    Exit code: 0 after a clean stop, 1 after an error, 130 after a second Ctrl-C.

    Example: moldau broker --data /var/lib/moldau --listen 127.0.0.1:9092 --set num.partitions=6

    In a cluster: moldau broker --data /var/lib/moldau --listen 10.0.0.1:9092 --zookeeper zk1:2181,zk2:2181/moldau --set
    node.id=1
    """
    texts = [f"listeners=PLAINTEXT://{listen}"] if listen else []
    from moldau.cli.banner import print_address

    assignments = [*texts, *_connect_text(zookeeper), *(set_ or [])]
    _serve(data, config, assignments, metrics_port, log_level, log_json, banner=print_address if announce else None)


@app.command()
def zookeeper(
    data: Annotated[
        Path, typer.Option(help="The directory for the servers' data; created if missing.")
    ] = DEFAULT_ZOOKEEPER,
    port: Annotated[
        int, typer.Option(min=0, max=MAX_PORT, help="The port of the first server. The others get the next ports.")
    ] = 2181,
    servers: Annotated[int, typer.Option(help="The number of servers: 1, or an ensemble of 3 or 5.")] = 1,
) -> None:
    """Run ZooKeeper on 127.0.0.1, for development. It uses the server in the PySpark package and needs Java.

    Example: moldau zookeeper --data ./zookeeper --port 2181; or an ensemble: moldau zookeeper --servers 3
    """
    from moldau.cli.zookeeper.command import run_zookeeper

    raise typer.Exit(run_zookeeper(data.absolute(), port, servers))


def _listen_address(port: int | None, listen: str | None) -> ListenerAddress:
    """The address that `moldau up` listens on: only this machine, unless --listen is given."""
    if listen is not None and port is not None:
        usage_error("--listen includes the port: remove --port")
    text = f"127.0.0.1:{DEFAULT_PORT if port is None else port}" if listen is None else listen
    try:
        return parse_address(f"PLAINTEXT://{text}", {"PLAINTEXT": "PLAINTEXT"}, "--listen")
    except SettingError:
        usage_error(f"--listen: {text!r} is not HOST:PORT, such as 10.0.0.1:9092 or [::1]:9092")


def _registry_child(wanted: bool, port: int | None, secure: bool, options: list[str]) -> RegistryChild | None:
    """The registry of `moldau up --registry`, which is not started yet. None without the option."""
    from moldau.cli import registry_child

    if not wanted:
        if port is not None:
            usage_error("--registry-port needs --registry")
        return None
    if secure:
        usage_error(
            "--registry and --secure do not go together: everyone on this machine could use the registry with the "
            "rights of the administrator. Start it with a login of its own: see docs/registry.md, Security"
        )
    chosen = registry_child.DEFAULT_PORT if port is None else port
    registry_child.require_port(chosen)
    return registry_child.RegistryChild(chosen, options)


def _banner_and_registry(child: RegistryChild, broker: Broker) -> None:
    from moldau.cli.banner import broker_address, print_banner

    print_banner(broker)
    child.start(broker_address(broker))


def _security_directory(data: Path, secure: bool, brokers: int, host: str) -> Path | None:
    """The security files of `moldau up --secure`, made if there are none. None without --secure."""
    from datetime import UTC, datetime

    from moldau.cli import security_files
    from moldau.security.certificates import MissingExtra

    directory = data / "security"
    if not secure:
        if directory.exists():
            usage_error(
                f"{directory} exists: this data was secured. Start it with --secure; to open it to everyone, remove "
                "that directory first"
            )
        return None
    hosts = list(dict.fromkeys([host, *security_files.local_hosts()]))
    try:
        security_files.provide(directory, [hosts] * brokers, datetime.now(UTC))
    except (security_files.SecurityFilesError, MissingExtra, OSError) as error:
        complain(str(error))
        raise typer.Exit(EXIT_ERROR) from None
    return directory


def _connect_text(zookeeper: str | None) -> list[str]:
    if zookeeper is None:
        return []
    if not zookeeper.strip():  # an unset shell variable; the broker would start as a single broker
        usage_error("--zookeeper: no server is given; write HOST:PORT,HOST:PORT/CHROOT")
    return [f"zookeeper.connect={zookeeper}"]


def _serve(
    data: Path | None,
    config: Path | None,
    assignments: list[str],
    metrics_port: int | None,
    log_level: str,
    log_json: bool,
    banner: object = None,
    defaults: str = "",
    registry: RegistryChild | None = None,
) -> None:
    """Run a broker. `defaults` are properties that all other settings override."""
    from moldau.cli.logs import configure_logging
    from moldau.cli.serve import fail, serve
    from moldau.settings import BROKER, gather

    try:
        configure_logging(log_level, as_json=log_json)
        if metrics_port is not None:
            assignments = [*assignments, f"moldau.metrics.port={metrics_port}"]
        texts = gather(
            BROKER,
            properties=defaults if config is None else f"{defaults}\n{config.read_text()}",
            environment=os.environ,
            assignments=assignments,
        )
        if data is not None or not texts.keys() & {"log.dirs", "log.dir"}:
            texts["log.dirs"] = str((data or DEFAULT_DATA).absolute())
    except SettingError as error:
        raise typer.Exit(fail(str(error))) from None
    except ValueError as error:
        raise typer.Exit(fail(f"--log-level: {error}")) from None
    except OSError as error:
        raise typer.Exit(fail(f"--config: {error}")) from None
    raise typer.Exit(serve(texts, banner, None if registry is None else registry.stop))  # type: ignore[arg-type]


@app.command()
def demo(
    quick: Annotated[bool, typer.Option("--quick", help="Only send and receive records, without Spark.")] = False,
    records: Annotated[int, typer.Option(help="With --quick: the number of records.")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="The seed of the random data.")] = 1,
) -> None:
    """Run a bank's transactions through a broker and a Spark pipeline that is killed midway. Every alert arrives
    exactly once.

    It takes about a minute and cleans up after itself. Example: moldau demo; or, without Spark: moldau demo --quick
    """
    from moldau.cli.demonstration import start

    raise typer.Exit(start(quick=quick, records=records, seed=seed))


@app.command("kafka-tools")
def kafka_tools(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help=("The directory for the scripts; created if missing."))
    ],
) -> None:
    """Write scripts with the names, options and output of Kafka's tools (kafka-topics, kafka-consumer-groups …).

    Example: moldau kafka-tools ~/bin && ~/bin/kafka-topics.sh --bootstrap-server localhost:9092 --list
    """
    from moldau.cli.kafka_tools.scripts import TOOLS, write_scripts
    from moldau.cli.output import one_line_errors

    with one_line_errors():
        write_scripts(directory)
    print(f"{', '.join(TOOLS)}, each with and without .sh, are in {directory}")


app.command()(rest_commands.rest)


def main() -> None:
    if "_MOLDAU_COMPLETE" in os.environ:
        completion.join_addresses(os.environ)
    try:
        # With the name, because completion must be for `moldau` even when it runs as `python -m moldau`.
        app(prog_name="moldau")
    except BrokenPipeError:  # the reader of our output has exited
        sys.stderr.close()
        sys.exit(0)
