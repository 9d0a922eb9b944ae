"""`moldau topics ...`: create, list, describe, alter and delete topics."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.cli.connect import DEFAULT_BOOTSTRAP, BootstrapOption, CommandConfigOption, OutputOption, connected
from moldau.cli.output import Output, fail, print_json, print_table, show, usage_error
from moldau.cli.partition_filters import Filters

if TYPE_CHECKING:
    from moldau.client.admin import TopicDescription
    from moldau.client.blocking.admin import Admin

app = typer.Typer(help="Create, list, describe, alter and delete topics.", no_args_is_help=True)

OFFSETS_TIMEOUT_S = 5.0
"""A broker that has died is still told to lead for a while: its offsets are not waited for any longer than this."""

NamesArgument = Annotated[list[str] | None, typer.Argument(metavar="TOPIC", help="Names of topics.")]
TopicOption = Annotated[
    list[str] | None, typer.Option("--topic", metavar="TOPIC", help="A topic, as Kafka's tools want it written.")
]
ConfigOption = Annotated[
    list[str] | None, typer.Option("--config", metavar="NAME=VALUE", help="A setting of the topic; may be given often.")
]


def names_of(arguments: list[str] | None, options: list[str] | None, *, needed: bool = True) -> list[str]:
    names = list(dict.fromkeys([*(arguments or ()), *(options or ())]))
    if needed and not names:
        usage_error("name a topic")
    return names


def assignments(texts: list[str] | None) -> dict[str, str]:
    """`name=value` each, as --config takes them."""
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
        int | None, typer.Option(min=1, help="How many partitions (default: the broker's num.partitions).")
    ] = None,
    replication_factor: Annotated[
        int | None, typer.Option(min=1, help="How many brokers hold a copy (default: default.replication.factor).")
    ] = None,
    config: ConfigOption = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="A topic that is there is no error.")] = False,
    validate_only: Annotated[bool, typer.Option("--validate-only", help="Check, and create nothing.")] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Create topics.

    Example: moldau topics create orders --partitions 3 --config retention.ms=86400000
    """
    wanted, configs = names_of(names, topic), assignments(config)
    with connected(bootstrap, command_config) as admin:
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
                print(f"{one['topic']} is there already")
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
    long: Annotated[bool, typer.Option("--long", "-l", help="With ids and numbers of partitions, as a table.")] = False,
    internal: Annotated[bool, typer.Option("--internal", help="Show Kafka's own topics, too.")] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """List the names of all topics, one a line.

    Example: moldau topics list --output json
    """
    with connected(bootstrap, command_config) as admin:
        from moldau.client.admin.topics import topic_id_text

        found = [
            {
                "topic": one.name,
                "id": topic_id_text(one.id),
                "partitions": one.partitions,
                "internal": one.internal,
            }
            for one in admin.list_topics(include_internal=internal)
        ]
    if long or output is Output.JSON:
        show(found, ("topic", "id", "partitions", "internal"), output)
    else:
        for one in found:
            print(one["topic"])


@app.command()
def describe(
    names: NamesArgument = None,
    topic: TopicOption = None,
    internal: Annotated[bool, typer.Option("--internal", help="With no name given: Kafka's own topics, too.")] = False,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated-partitions", help="Only partitions with replicas that are not in sync.")
    ] = False,
    unavailable: Annotated[
        bool, typer.Option("--unavailable-partitions", help="Only partitions without a leader.")
    ] = False,
    under_min_isr: Annotated[
        bool, typer.Option("--under-min-isr-partitions", help="Only partitions that acks=all cannot be written to.")
    ] = False,
    at_min_isr: Annotated[
        bool, typer.Option("--at-min-isr-partitions", help="Only partitions that may not lose one more replica.")
    ] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show topics with their partitions, replicas, offsets, and the settings that were made for them.

    Of each partition: its leader, its replicas, those in sync (isr), those that may lead besides (elr: eligible leader
    replicas), those whose broker is away (offline). With filters, partitions that any of them names.

    Example: moldau topics describe orders; or: moldau topics describe --under-replicated-partitions
    """
    wanted = names_of(names, topic, needed=False)
    filters = Filters(under_replicated, unavailable, under_min_isr, at_min_isr)
    with connected(bootstrap, command_config) as admin:
        if not wanted:
            wanted = [one.name for one in admin.list_topics(include_internal=internal)]
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
    from moldau.client.model import TopicPartition

    topics = admin.describe_topics(names)
    configs = admin.describe_configs([ConfigResource.topic(name) for name in topics])
    moving = admin.list_partition_reassignments() if filters.under_replicated else {}
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
    """Where each partition begins and ends; partitions without a leader that answers cannot tell."""
    from moldau.client.admin import OffsetSpec, SomeFailed
    from moldau.client.errors import MoldauError
    from moldau.client.model import TopicPartition

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
    """None where the broker does not tell."""
    return None if nodes is None else list(nodes)


def _print_topic(one: dict[str, Any]) -> None:
    configs = "".join(f"  {name}={value}" for name, value in one["configs"].items())
    title = f"{one['topic']}  id {one['id']}  replication factor {one['replication_factor']}{configs}"
    # Columns that are empty nearly always are there when they are not.
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
    partitions: Annotated[int | None, typer.Option(min=1, help="Let the topic grow to so many partitions.")] = None,
    config: ConfigOption = None,
    delete_config: Annotated[
        list[str] | None, typer.Option("--delete-config", metavar="NAME", help="A setting to take back to its default.")
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    command_config: CommandConfigOption = None,
) -> None:
    """Give topics more partitions or other settings. Keys go to other partitions when a topic has grown.

    Example: moldau topics alter orders --partitions 6 --config retention.ms=3600000
    """
    wanted = names_of(names, topic)
    changes: dict[str, str | None] = {**assignments(config), **dict.fromkeys(delete_config or ())}
    if partitions is None and not changes:
        usage_error("nothing to alter: give --partitions, --config or --delete-config")
    with connected(bootstrap, command_config) as admin:
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
    if_exists: Annotated[bool, typer.Option("--if-exists", help="A topic that is not there is no error.")] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    command_config: CommandConfigOption = None,
) -> None:
    """Delete topics with all their records. There is no way back, and no question.

    Example: moldau topics delete orders
    """
    wanted = names_of(names, topic)
    with connected(bootstrap, command_config) as admin:
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
