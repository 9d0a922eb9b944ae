"""`moldau cluster ...`: brokers, data directories, features and APIs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from moldau.cli.connect import DEFAULT_BOOTSTRAP, BootstrapOption, CommandConfigOption, OutputOption, connected
from moldau.cli.output import Output, print_json, print_table, show

app = typer.Typer(help="Look at the cluster: brokers, data directories, features, APIs.", no_args_is_help=True)


@app.command()
def describe(
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show the cluster's id and its brokers.

    Example: moldau cluster describe --bootstrap-server localhost:9092
    """
    with connected(bootstrap, command_config) as admin:
        cluster = admin.describe_cluster()
    brokers = [
        {"id": one.id, "host": one.host, "port": one.port, "rack": one.rack, "controller": one.id == cluster.controller}
        for one in cluster.brokers
    ]
    if output is Output.JSON:
        print_json({"cluster_id": cluster.cluster_id, "controller": cluster.controller, "brokers": brokers})
        return
    show(brokers, ("id", "host", "port", "rack", "controller"), output, f"Cluster {cluster.cluster_id}")


@app.command("log-dirs")
def log_dirs(
    broker: Annotated[
        list[int] | None, typer.Option(metavar="ID", help="Only this broker; may be given often.")
    ] = None,
    topic: Annotated[list[str] | None, typer.Option(help="Only this topic; may be given often.")] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show the data directories of brokers, and how large each partition in them is.

    Example: moldau cluster log-dirs --topic orders
    """
    with connected(bootstrap, command_config) as admin:
        from moldau.client.model import TopicPartition

        partitions = None
        if topic:
            partitions = [
                TopicPartition(one.name, index)
                for one in admin.describe_topics(topic).values()
                for index in range(len(one.partitions))
            ]
        found = admin.describe_log_dirs(broker or None, partitions)
    shown: list[dict[str, Any]] = [
        {
            "broker": node,
            "path": one.path,
            "error": None if one.error is None else str(one.error),
            "total_bytes": one.total_bytes,
            "usable_bytes": one.usable_bytes,
            "partitions": [
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "size": replica.size,
                    "offset_lag": replica.offset_lag,
                    "is_future": replica.is_future,
                }
                for partition, replica in sorted(one.replicas.items())
            ],
        }
        for node, dirs in sorted(found.items())
        for one in dirs
    ]
    if output is Output.JSON:
        print_json(shown)
        return
    headers = ("topic", "partition", "size", "offset_lag", "is_future")
    for number, one in enumerate(shown):
        if number:
            print()
        title = f"Broker {one['broker']}, {one['path']}" + (f": {one['error']}" if one["error"] else "")
        print_table(headers, [tuple(replica[header] for header in headers) for replica in one["partitions"]], title)


@app.command()
def features(
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show the features of the cluster: what the brokers could do, and what is in force.

    Example: moldau cluster features --output json
    """
    with connected(bootstrap, command_config) as admin:
        found = admin.describe_features()
    shown = [
        {
            "feature": name,
            "supported_from": supported.low,
            "supported_to": supported.high,
            "finalized": found.finalized[name].high if name in found.finalized else None,
        }
        for name, supported in sorted(found.supported.items())
    ]
    show(shown, ("feature", "supported_from", "supported_to", "finalized"), output)


@app.command()
def apis(
    broker: Annotated[int | None, typer.Option(metavar="ID", help="Which broker (default: the first).")] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show the APIs that a broker serves, and in which versions.

    Example: moldau cluster apis --broker 1
    """
    with connected(bootstrap, command_config) as admin:
        node = admin.describe_cluster().brokers[0].id if broker is None else broker
        versions = admin.api_versions(node)
    from moldau.wire.api import APIS, ApiKey

    names = {int(key): APIS[key].name for key in ApiKey}
    shown = [
        {"key": key, "api": names.get(key, f"API {key}"), "from": low, "to": high}
        for key, (low, high) in sorted(versions.items())
    ]
    show(shown, ("key", "api", "from", "to"), output, f"Broker {node}")
