"""Command `moldau cluster ...`: shows brokers, data directories, features and APIs.

Commands that change the cluster are in `cluster_moves.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.cli import cluster_moves
from moldau.cli.completion import topic_names
from moldau.cli.connection_options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    CommandConfigOption,
    OutputOption,
    WaitOption,
    connected,
)
from moldau.cli.output import Output, print_json, print_table, show
from moldau.cli.partition_filters import is_under_replicated

if TYPE_CHECKING:
    from moldau.client.admin import ClusterDescription, OngoingReassignment, TopicDescription
    from moldau.client.data_types import TopicPartition

app = typer.Typer(help="Show the cluster, and move replicas and leaders between brokers.", no_args_is_help=True)
app.command()(cluster_moves.drain)
app.command()(cluster_moves.elect)
app.command()(cluster_moves.reassign)


@app.command()
def describe(
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show the cluster's id, its brokers with their leaders and replicas, and the partitions with problems.

    A broker that is not running but still has replicas is shown without an address. The column `behind` counts the
    replicas of a broker that are not in sync.

    Example: moldau cluster describe --bootstrap-server localhost:9092
    """
    with connected(bootstrap, command_config, wait=wait) as admin:
        from moldau.cli.reassignment_plans import still_there

        cluster = admin.describe_cluster()
        topics = still_there(admin, [one.name for one in admin.list_topics(include_internal=True)])
        moving = admin.list_partition_reassignments()
    brokers = brokers_shown(cluster, topics.values())
    health = health_shown(topics.values(), moving)
    if output is Output.JSON:
        about = {"cluster_id": cluster.cluster_id, "controller": cluster.controller}
        print_json({**about, "brokers": brokers, **health})
        return
    columns = ("id", "host", "port", "rack", "controller", "leaders", "replicas", "behind")
    show(brokers, columns, output, f"Cluster {cluster.cluster_id}")
    print()
    print(health_line(health))


def brokers_shown(cluster: ClusterDescription, topics: Iterable[TopicDescription]) -> list[dict[str, Any]]:
    """One row per broker: the live ones, and the dead ones that still have replicas."""
    leads: Counter[int] = Counter()
    holds: Counter[int] = Counter()
    behind: Counter[int] = Counter()
    for topic in topics:
        for one in topic.partitions:
            holds.update(one.replicas)
            behind.update(node for node in one.replicas if node not in one.isr)
            if one.leader is not None:
                leads[one.leader] += 1
    live = {node.id: node for node in cluster.brokers}
    return [
        {
            "id": node,
            "host": live[node].host if node in live else None,
            "port": live[node].port if node in live else None,
            "rack": live[node].rack if node in live else None,
            "alive": node in live,
            "controller": node == cluster.controller,
            "leaders": leads[node],
            "replicas": holds[node],
            "behind": behind[node],
        }
        for node in sorted({*live, *holds})
    ]


def health_shown(
    topics: Iterable[TopicDescription], moving: Mapping[TopicPartition, OngoingReassignment]
) -> dict[str, int]:
    adding = {(name, index): one.adding for (name, index), one in moving.items()}
    placed = [((topic.name, one.index), one) for topic in topics for one in topic.partitions]
    partitions = [one for _, one in placed]
    return {
        "partitions": len(partitions),
        "under_replicated": sum(is_under_replicated(one, adding.get(name, ())) for name, one in placed),
        "offline": sum(one.leader is None for one in partitions),
        "not_preferred": sum(one.leader is not None and one.leader != one.replicas[0] for one in partitions),
        "moving": len(moving),
    }


def health_line(health: Mapping[str, int]) -> str:
    names = {
        "under_replicated": "under-replicated",
        "offline": "without a leader",
        "not_preferred": "not led by their preferred replica",
        "moving": "moving",
    }
    wrong = [f"{health[name]} {text}" for name, text in names.items() if health[name]]
    noun = "partition" if health["partitions"] == 1 else "partitions"
    return f"{health['partitions']} {noun}: {', '.join(wrong) or 'all well'}"


@app.command("log-dirs")
def log_dirs(
    broker: Annotated[list[int] | None, typer.Option(metavar="ID", help="Only this broker. Can be repeated.")] = None,
    topic: Annotated[
        list[str] | None, typer.Option(help="Only this topic. Can be repeated.", autocompletion=topic_names)
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show the data directories of brokers, and the size of each partition in them.

    Example: moldau cluster log-dirs --topic orders
    """
    with connected(bootstrap, command_config, wait=wait) as admin:
        from moldau.client.data_types import TopicPartition

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
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show the features of the cluster: the supported versions, and the finalized version.

    Example: moldau cluster features --output json
    """
    with connected(bootstrap, command_config, wait=wait) as admin:
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
    broker: Annotated[
        int | None, typer.Option(metavar="ID", help="The broker to ask (default: the first one).")
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show the APIs that a broker supports, with their versions.

    Example: moldau cluster apis --broker 1
    """
    with connected(bootstrap, command_config, wait=wait) as admin:
        node = admin.describe_cluster().brokers[0].id if broker is None else broker
        versions = admin.api_versions(node)
    from moldau.wire.api import APIS, ApiKey

    names = {int(key): APIS[key].name for key in ApiKey}
    shown = [
        {"key": key, "api": names.get(key, f"API {key}"), "from": low, "to": high}
        for key, (low, high) in sorted(versions.items())
    ]
    show(shown, ("key", "api", "from", "to"), output, f"Broker {node}")
