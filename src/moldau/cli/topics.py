"""Command `moldau topics ...`: creates, lists, describes, alters and deletes topics."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.cli.completion import topic_names
from moldau.cli.connection_options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    CommandConfigOption,
    OutputOption,
    WaitOption,
    connected,
    is_internal,
)
from moldau.cli.output import Output, fail, print_json, print_table, show, usage_error
from moldau.cli.partition_filters import Filters

if TYPE_CHECKING:
    from moldau.client.admin import TopicDescription, TopicListing
    from moldau.client.blocking.admin import Admin

app = typer.Typer(help="Create, list, describe, alter and delete topics.", no_args_is_help=True)

OFFSETS_TIMEOUT_S = 5.0
"""The longest wait for offsets: for a while, a dead broker is still reported as leader."""

NamesArgument = Annotated[
    list[str] | None, typer.Argument(metavar="TOPIC", help="Names of topics.", autocompletion=topic_names)
]
TopicOption = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", metavar="TOPIC", help="A topic, as in Kafka's tools. Can be repeated.", autocompletion=topic_names
    ),
]
ConfigOption = Annotated[
    list[str] | None, typer.Option("--config", metavar="NAME=VALUE", help="A setting of the topic. Can be repeated.")
]


def names_of(arguments: list[str] | None, options: list[str] | None, *, needed: bool = True) -> list[str]:
    names = list(dict.fromkeys([*(arguments or ()), *(options or ())]))
    if needed and not names:
        usage_error("give the name of a topic")
    return names


def assignments(texts: list[str] | None) -> dict[str, str]:
    """Parse `name=value` texts."""
    pairs = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            usage_error(f"{text!r} is not of the form NAME=VALUE")
        pairs[name.strip()] = value.strip()
    return pairs


@app.command()
def create(
    names: NamesArgument = None,
    topic: TopicOption = None,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="The number of partitions (default: the broker's num.partitions).")
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(min=1, help=("The number of replicas (default: the broker's default.replication.factor).")),
    ] = None,
    config: ConfigOption = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Do not fail if a topic already exists.")
    ] = False,
    validate_only: Annotated[
        bool, typer.Option("--validate-only", help="Check the request, but create nothing.")
    ] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Create topics.

    Example: moldau topics create orders --partitions 3 --config retention.ms=86400000
    """
    wanted, configs = names_of(names, topic), assignments(config)
    with connected(bootstrap, command_config, wait=wait) as admin:
        from moldau.client.admin import NewTopic
        from moldau.client.admin.topics import BROKERS_CHOICE

        new = [
            NewTopic(name, partitions or BROKERS_CHOICE, replication_factor or BROKERS_CHOICE, configs)
            for name in wanted
        ]
        created = _create(admin, new, if_not_exists, validate_only)
        if output is Output.JSON:
            print_json(created)
            return
        for one in created:
            if not one["created"]:
                print(f"{one['topic']} already exists")
            else:
                verb = "can be created" if validate_only else "created"
                size = f"{one['partitions']} partition{'s' if one['partitions'] != 1 else ''}"
                print(f"{one['topic']} {verb}: {size}, replication factor {one['replication_factor']}")


def _create(admin: Admin, new: list[Any], if_not_exists: bool, validate_only: bool) -> list[dict[str, Any]]:
    from moldau.client.admin import SomeFailed
    from moldau.client.admin.topics import topic_id_text
    from moldau.client.errors import MoldauError, TopicAlreadyExists

    errors: dict[str, MoldauError] = {}
    results = {}
    try:
        results = admin.create_topics(new, validate_only=validate_only)
    except SomeFailed as some:
        errors, results = dict(some.errors), dict(some.results)
    except TopicAlreadyExists as error:
        errors = {new[0].name: error}
    there = {name for name, error in errors.items() if if_not_exists and isinstance(error, TopicAlreadyExists)}
    created: list[dict[str, Any]] = [
        {
            "topic": one.name,
            "created": True,
            "id": topic_id_text(one.id),
            "partitions": one.partitions,
            "replication_factor": one.replication_factor,
        }
        for one in results.values()
    ]
    created += [{"topic": name, "created": False} for name in sorted(there)]
    failed = {name: error for name, error in errors.items() if name not in there}
    if failed:
        raise next(iter(failed.values())) if len(failed) == 1 else SomeFailed(failed, results)
    return created


@app.command("list")
def list_(
    long: Annotated[
        bool, typer.Option("--long", "-l", help="Show a table with ids and numbers of partitions.")
    ] = False,
    internal: Annotated[bool, typer.Option("--internal", help="Include internal topics (__NAME).")] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """List the names of all topics, one per line.

    Example: moldau topics list --output json
    """
    with connected(bootstrap, command_config, wait=wait) as admin:
        from moldau.client.admin.topics import topic_id_text

        found = [
            {
                "topic": one.name,
                "id": topic_id_text(one.id),
                "partitions": one.partitions,
                "internal": one.internal,
            }
            for one in _listed(admin, internal)
        ]
    if long or output is Output.JSON:
        show(found, ("topic", "id", "partitions", "internal"), output)
    else:
        for one in found:
            print(one["topic"])


def _listed(admin: Admin, internal: bool) -> list[TopicListing]:
    return [one for one in admin.list_topics(include_internal=internal) if internal or not is_internal(one.name)]


@app.command()
def describe(
    names: NamesArgument = None,
    topic: TopicOption = None,
    internal: Annotated[bool, typer.Option("--internal", help="Without topic names: include internal topics.")] = False,
    under_replicated: Annotated[
        bool,
        typer.Option("--under-replicated-partitions", help=("Only partitions with replicas that are not in sync.")),
    ] = False,
    unavailable: Annotated[
        bool, typer.Option("--unavailable-partitions", help="Only partitions without a leader.")
    ] = False,
    under_min_isr: Annotated[
        bool, typer.Option("--under-min-isr-partitions", help="Only partitions that refuse acks=all.")
    ] = False,
    at_min_isr: Annotated[
        bool,
        typer.Option(
            "--at-min-isr-partitions",
            help=("Only partitions that would refuse acks=all after the loss of one replica."),
        ),
    ] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show topics with their partitions, replicas, offsets, and settings that differ from the defaults.

    For each partition: its leader, its replicas, the in-sync replicas (isr), the eligible leader replicas outside the
    isr (elr), and the replicas on brokers that are not running (offline). With several filters, partitions that match
    any of them.

    Example: moldau topics describe orders; or: moldau topics describe --under-replicated-partitions
    """
    wanted = names_of(names, topic, needed=False)
    filters = Filters(under_replicated, unavailable, under_min_isr, at_min_isr)
    with connected(bootstrap, command_config, wait=wait) as admin:
        if not wanted:
            wanted = [one.name for one in _listed(admin, internal)]
        described = _described(admin, wanted, filters)
        if output is Output.JSON:
            print_json(described)
            return
        for number, one in enumerate(described):
            if number:
                print()
            _print_topic(one)


def _described(admin: Admin, names: list[str], filters: Filters) -> list[dict[str, Any]]:
    from moldau.client.admin import ConfigResource, ConfigSource
    from moldau.client.data_types import TopicPartition

    topics = admin.describe_topics(names)
    configs = admin.describe_configs([ConfigResource.topic(name) for name in topics])
    moving = admin.list_partition_reassignments() if any(filters) else {}
    adding = {partition: each.adding for partition, each in moving.items()}
    chosen: list[TopicDescription] = []
    for name, one in topics.items():
        least = configs[ConfigResource.topic(name)].get("min.insync.replicas")
        min_isr = int(least.value or 1) if least is not None else 1
        partitions = tuple(
            each
            for each in one.partitions
            if filters.choose(each, min_isr, adding.get(TopicPartition(name, each.index), ()))
        )
        if partitions:
            chosen.append(replace(one, partitions=partitions))
    ends = _ends(admin, chosen)
    return [
        _as_json(
            one,
            {
                entry.name: entry.value
                for entry in configs[ConfigResource.topic(one.name)].values()
                if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
            },
            ends,
        )
        for one in chosen
    ]


def _ends(admin: Admin, topics: list[TopicDescription]) -> dict[Any, tuple[int | None, int | None]]:
    """The first and the end offset of each partition; partitions without a leader that answers are left out."""
    from moldau.client.admin import OffsetSpec, SomeFailed
    from moldau.client.data_types import TopicPartition
    from moldau.client.errors import MoldauError

    led = [
        TopicPartition(one.name, partition.index)
        for one in topics
        for partition in one.partitions
        if partition.leader is not None
    ]

    def offsets(spec: OffsetSpec) -> dict[TopicPartition, int]:
        try:
            found = admin.list_offsets(dict.fromkeys(led, spec), timeout=OFFSETS_TIMEOUT_S)
        except SomeFailed as some:
            found = dict(some.results)
        except MoldauError:
            found = {}
        return {partition: one.offset for partition, one in found.items()}

    first, last = offsets(OffsetSpec.EARLIEST), offsets(OffsetSpec.LATEST)
    return {partition: (first.get(partition), last.get(partition)) for partition in led}


def _as_json(
    one: TopicDescription, configs: dict[str, str | None], ends: dict[Any, tuple[int | None, int | None]]
) -> dict[str, Any]:
    from moldau.client.admin.topics import topic_id_text

    partitions = []
    for partition in one.partitions:
        first, end = ends.get((one.name, partition.index), (None, None))
        partitions.append(
            {
                "partition": partition.index,
                "leader": partition.leader,
                "replicas": list(partition.replicas),
                "isr": list(partition.isr),
                "elr": _ids(partition.eligible_leader_replicas),
                "last_known_elr": _ids(partition.last_known_elr),
                "offline": list(partition.offline_replicas),
                "first_offset": first,
                "end_offset": end,
            }
        )
    return {
        "topic": one.name,
        "id": topic_id_text(one.id),
        "internal": one.internal,
        "replication_factor": one.replication_factor,
        "configs": configs,
        "partitions": partitions,
    }


def _ids(nodes: tuple[int, ...] | None) -> list[int] | None:
    """None if the broker does not report them."""
    return None if nodes is None else list(nodes)


def _print_topic(one: dict[str, Any]) -> None:
    configs = "".join(f"  {name}={value}" for name, value in one["configs"].items())
    title = f"{one['topic']}  id {one['id']}  replication factor {one['replication_factor']}{configs}"
    # Columns that are usually empty are shown only when they are not.
    unusual = [name for name in ("elr", "last_known_elr", "offline") if any(each[name] for each in one["partitions"])]
    columns = ("partition", "leader", "replicas", "isr", *unusual, "first_offset", "end_offset")
    headers = [name.replace("_", " ") for name in columns]
    rows = [tuple(_cell(partition[name]) for name in columns) for partition in one["partitions"]]
    print_table(headers, rows, title)


def _cell(value: Any) -> Any:
    return ",".join(map(str, value)) if isinstance(value, list) else value


@app.command()
def alter(
    names: NamesArgument = None,
    topic: TopicOption = None,
    partitions: Annotated[int | None, typer.Option(min=1, help="Increase the number of partitions to this.")] = None,
    config: ConfigOption = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option("--delete-config", metavar="NAME", help=("Reset a setting to its default. Can be repeated.")),
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
) -> None:
    """Add partitions to topics, or change their settings. With more partitions, keys map to other partitions.

    Example: moldau topics alter orders --partitions 6 --config retention.ms=3600000
    """
    wanted = names_of(names, topic)
    changes: dict[str, str | None] = {**assignments(config), **dict.fromkeys(delete_config or ())}
    if partitions is None and not changes:
        usage_error("nothing to alter: give --partitions, --config or --delete-config")
    with connected(bootstrap, command_config, wait=wait) as admin:
        from moldau.client.admin import ConfigResource

        if partitions is not None:
            admin.create_partitions(dict.fromkeys(wanted, partitions))
        if changes:
            admin.alter_configs({ConfigResource.topic(name): changes for name in wanted})
        for name in wanted:
            print(f"{name} altered")


@app.command()
def delete(
    names: NamesArgument = None,
    topic: TopicOption = None,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Do not fail if a topic does not exist.")] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
) -> None:
    """Delete topics with all their records, without confirmation. This cannot be undone.

    Example: moldau topics delete orders
    """
    wanted = names_of(names, topic)
    with connected(bootstrap, command_config, wait=wait) as admin:
        from moldau.client.admin import SomeFailed
        from moldau.client.errors import MoldauError, UnknownTopicOrPartition

        errors: dict[str, MoldauError] = {}
        try:
            admin.delete_topics(wanted)
        except SomeFailed as some:
            errors = dict(some.errors)
        except UnknownTopicOrPartition as error:
            errors = {wanted[0]: error}
        for name in wanted:
            if name not in errors:
                print(f"{name} deleted")
        failed = [error for error in errors.values() if not (if_exists and isinstance(error, UnknownTopicOrPartition))]
        if failed:
            fail("; ".join(map(str, failed)))
