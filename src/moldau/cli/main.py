"""The `moldau` command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from moldau.cli import (
    cluster,
    cluster_import,
    configs,
    consume,
    groups,
    log_commands,
    perf,
    produce,
    topics,
    transactions,
)
from moldau.cli.output import usage_error
from moldau.settings.listeners import MAX_PORT

app = typer.Typer(
    name="moldau",
    help="Kafka-compatible event streaming that you can pip install.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(topics.app, name="topics")
app.add_typer(groups.app, name="groups")
app.add_typer(configs.app, name="configs")
app.add_typer(transactions.app, name="transactions")
cluster.app.command("import")(cluster_import.import_broker)
app.add_typer(cluster.app, name="cluster")
app.add_typer(log_commands.app, name="log")
app.add_typer(perf.app, name="perf")
app.command()(produce.produce)
app.command()(consume.consume)

DEFAULT_DATA = Path("moldau-data")
DEFAULT_ZOOKEEPER = Path("moldau-zookeeper")
MAX_BROKERS = 20

DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data", help=f"Where records and metadata are kept; made if missing (default: {DEFAULT_DATA}, or log.dirs)."
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting by its Kafka name; may be given often."),
]
ZookeeperOption = Annotated[
    str | None,
    typer.Option(
        "--zookeeper",
        metavar="HOST:PORT,.../CHROOT",
        help="The ZooKeeper ensemble of the cluster that the broker belongs to (zookeeper.connect).",
    ),
]
LevelOption = Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")]
JsonOption = Annotated[bool, typer.Option("--log-json", help="Log lines as JSON objects.")]
MetricsOption = Annotated[
    int | None,
    typer.Option(
        "--metrics-port", min=0, max=MAX_PORT, help="Serve Prometheus metrics on this port (0: any free one)."
    ),
]


@app.command()
def up(
    data: DataOption = None,
    port: Annotated[
        int, typer.Option(min=0, max=MAX_PORT, help="The port that clients connect to (0: any free one).")
    ] = 9092,
    brokers: Annotated[
        int, typer.Option(min=1, max=MAX_BROKERS, help="How many brokers; each has the next port, and a directory.")
    ] = 1,
    zookeeper: ZookeeperOption = None,
    set_: SetOption = None,
    metrics_port: MetricsOption = None,
    log_level: LevelOption = "warning",
    log_json: JsonOption = False,
) -> None:
    """Start one broker on 127.0.0.1, or several and a ZooKeeper for them; nothing else is needed. Stops with Ctrl-C.

    Example: moldau up --data ./events --port 9092; or a cluster: moldau up --brokers 3 --data ./cluster
    """
    from moldau.cli import local_cluster
    from moldau.cli.banner import print_banner

    connect = _connect_text(zookeeper)
    if brokers > 1:
        options = ["--log-level", log_level, *(["--log-json"] if log_json else [])]
        wanted = local_cluster.Wanted(
            (data or DEFAULT_DATA).absolute(), brokers, port, zookeeper, tuple(set_ or ()), metrics_port, tuple(options)
        )
        raise typer.Exit(local_cluster.run(wanted))
    if local_cluster.is_cluster(data or DEFAULT_DATA):
        usage_error(f"--data: {data or DEFAULT_DATA} has the data of several brokers; say how many with --brokers")
    texts = [f"listeners=PLAINTEXT://127.0.0.1:{port}", *connect, *(set_ or [])]
    _serve(data, None, texts, metrics_port, log_level, log_json, banner=print_banner)


@app.command()
def broker(
    data: DataOption = None,
    listen: Annotated[str, typer.Option(help="HOST:PORT to listen on, in plain text.")] = "",
    config: Annotated[Path | None, typer.Option(help="A file in the form of Kafka's server.properties.")] = None,
    zookeeper: ZookeeperOption = None,
    set_: SetOption = None,
    metrics_port: MetricsOption = None,
    log_level: LevelOption = "info",
    log_json: JsonOption = False,
    announce: Annotated[bool, typer.Option("--announce", hidden=True)] = False,
) -> None:
    """Run a broker with settings from a file, the environment (MOLDAU_LOG_DIRS=...) and --set, each overriding the one
    before.

    Example: moldau broker --data /var/lib/moldau --listen 127.0.0.1:9092 --set num.partitions=6

    One of a cluster: moldau broker --data /var/lib/moldau --listen 10.0.0.1:9092 --zookeeper zk1:2181,zk2:2181/moldau
    --set node.id=1
    """
    texts = [f"listeners=PLAINTEXT://{listen}"] if listen else []
    from moldau.cli.banner import print_address

    assignments = [*texts, *_connect_text(zookeeper), *(set_ or [])]
    _serve(data, config, assignments, metrics_port, log_level, log_json, banner=print_address if announce else None)


@app.command()
def zookeeper(
    data: Annotated[Path, typer.Option(help="Where the servers keep their data; made if missing.")] = DEFAULT_ZOOKEEPER,
    port: Annotated[
        int, typer.Option(min=0, max=MAX_PORT, help="The port of the first server; the others have those after it.")
    ] = 2181,
    servers: Annotated[int, typer.Option(help="How many servers: one alone, or three or five that agree.")] = 1,
) -> None:
    """Run ZooKeeper on 127.0.0.1, for development: the server that is inside of PySpark's package. Needs Java.

    Example: moldau zookeeper --data ./zookeeper --port 2181; or an ensemble: moldau zookeeper --servers 3
    """
    from moldau.cli.zookeeper.command import run_zookeeper

    raise typer.Exit(run_zookeeper(data.absolute(), port, servers))


def _connect_text(zookeeper: str | None) -> list[str]:
    if zookeeper is None:
        return []
    if not zookeeper.strip():  # of a variable that is not set; the broker would start alone
        usage_error("--zookeeper: names no server; write HOST:PORT,HOST:PORT/CHROOT")
    return [f"zookeeper.connect={zookeeper}"]


def _serve(
    data: Path | None,
    config: Path | None,
    assignments: list[str],
    metrics_port: int | None,
    log_level: str,
    log_json: bool,
    banner: object = None,
) -> None:
    import os

    from moldau.cli.logs import configure_logging
    from moldau.cli.serve import fail, serve
    from moldau.settings import BROKER, SettingError, gather

    try:
        configure_logging(log_level, as_json=log_json)
        if metrics_port is not None:
            assignments = [*assignments, f"moldau.metrics.port={metrics_port}"]
        texts = gather(
            BROKER,
            properties="" if config is None else config.read_text(),
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
    raise typer.Exit(serve(texts, banner))  # type: ignore[arg-type]


@app.command()
def demo(
    quick: Annotated[bool, typer.Option("--quick", help="Records there and back, without Spark.")] = False,
    records: Annotated[int, typer.Option(help="With --quick: how many records.")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="Another seed is another day at the bank.")] = 1,
) -> None:
    """A bank's transactions through a broker and a Spark pipeline that is killed midway: every alert exactly once.

    Takes about a minute and leaves nothing behind. Example: moldau demo; or, without Spark: moldau demo --quick
    """
    from moldau.cli.demonstration import start

    raise typer.Exit(start(quick=quick, records=records, seed=seed))


@app.command("kafka-tools")
def kafka_tools(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write the scripts; made if missing.")],
) -> None:
    """Write scripts with the names, flags and output of Kafka's own tools (kafka-topics, kafka-consumer-groups …).

    Example: moldau kafka-tools ~/bin && ~/bin/kafka-topics.sh --bootstrap-server localhost:9092 --list
    """
    from moldau.cli.kafka_tools.scripts import TOOLS, write_scripts
    from moldau.cli.output import one_line_errors

    with one_line_errors():
        write_scripts(directory)
    print(f"{', '.join(TOOLS)}, each with and without .sh, are in {directory}")


def main() -> None:
    try:
        # By name: completion has to be for `moldau` also where it was started as `python -m moldau`.
        app(prog_name="moldau")
    except BrokenPipeError:  # the reader of our output has had enough
        sys.stderr.close()
        sys.exit(0)
