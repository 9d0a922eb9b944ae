"""Command `moldau configs ...`: shows and changes the stored settings of topics, brokers and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from moldau.cli.completion import group_names, topic_names
from moldau.cli.connection_options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    CommandConfigOption,
    OutputOption,
    WaitOption,
    connected,
)
from moldau.cli.output import Output, print_json, print_table, usage_error
from moldau.cli.topics import assignments

if TYPE_CHECKING:
    from moldau.client.admin import ConfigChange, ConfigEntry, ConfigResource

app = typer.Typer(help="Describe and alter settings of topics, brokers and groups.", no_args_is_help=True)

TopicOption = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="TOPIC", help="A topic. Can be repeated.", autocompletion=topic_names),
]
BrokerOption = Annotated[
    list[int] | None, typer.Option("--broker", metavar="ID", help=("The id of a broker. Can be repeated."))
]
AllBrokersOption = Annotated[
    bool, typer.Option("--all-brokers", help=("The settings that are set at run time for all brokers."))
]
GroupOption = Annotated[
    list[str] | None, typer.Option("--group", metavar="GROUP", help="A group.", autocompletion=group_names)
]


def _resources(
    topics: list[str] | None, brokers: list[int] | None, all_brokers: bool, groups: list[str] | None
) -> list[ConfigResource]:
    from moldau.client.admin import ConfigResource

    resources = [
        *(ConfigResource.topic(name) for name in topics or ()),
        *(ConfigResource.broker(node) for node in brokers or ()),
        *((ConfigResource.all_brokers(),) if all_brokers else ()),
        *(ConfigResource.group(name) for name in groups or ()),
    ]
    if not resources:
        usage_error("give --topic, --broker, --all-brokers or --group")
    return resources


@app.command()
def describe(
    topic: TopicOption = None,
    broker: BrokerOption = None,
    all_brokers: AllBrokersOption = False,
    group: GroupOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Include settings that have their default value.")] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show settings, and the source of each value.

    Example: moldau configs describe --topic orders --all
    """
    resources = _resources(topic, broker, all_brokers, group)
    with connected(bootstrap, command_config, wait=wait) as admin:
        found = admin.describe_configs(resources)
        shown = {
            resource: [entry for entry in found[resource].values() if everything or is_set(resource, entry)]
            for resource in resources
        }
    if output is Output.JSON:
        print_json(
            [
                {
                    "kind": resource.kind.name.lower(),
                    "name": resource.name,
                    "configs": [_as_json(entry) for entry in entries],
                }
                for resource, entries in shown.items()
            ]
        )
        return
    for number, (resource, entries) in enumerate(shown.items()):
        if number:
            print()
        rows = [
            (entry.name, "(secret)" if entry.sensitive else entry.value, entry.source.name, entry.read_only)
            for entry in entries
        ]
        title = f"Settings of {resource}" if entries else f"Settings of {resource}: nothing is set"
        print_table(("name", "value", "source", "read only"), rows, title)


def is_set(resource: ConfigResource, entry: ConfigEntry) -> bool:
    """Whether the value is set for this resource itself."""
    from moldau.client.admin import ConfigKind, ConfigSource

    if resource.kind is ConfigKind.BROKER:
        own = (
            (ConfigSource.DYNAMIC_BROKER_CONFIG, ConfigSource.STATIC_BROKER_CONFIG)
            if resource.name
            else (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,)
        )
    elif resource.kind is ConfigKind.TOPIC:
        own = (ConfigSource.DYNAMIC_TOPIC_CONFIG,)
    else:
        own = (ConfigSource.DYNAMIC_GROUP_CONFIG,)
    return entry.source in own


def _as_json(entry: ConfigEntry) -> dict[str, object]:
    return {
        "name": entry.name,
        "value": entry.value,
        "source": entry.source.name,
        "read_only": entry.read_only,
        "sensitive": entry.sensitive,
    }


@app.command()
def alter(
    topic: TopicOption = None,
    broker: BrokerOption = None,
    all_brokers: AllBrokersOption = False,
    group: GroupOption = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help=("Set a value. Can be repeated."))
    ] = None,
    delete: Annotated[
        list[str] | None,
        typer.Option("--delete", metavar="NAME", help=("Reset a setting to its default. Can be repeated.")),
    ] = None,
    append: Annotated[
        list[str] | None, typer.Option("--append", metavar="NAME=VALUE", help="Append a value to a list setting.")
    ] = None,
    subtract: Annotated[
        list[str] | None, typer.Option("--subtract", metavar="NAME=VALUE", help="Remove a value from a list setting.")
    ] = None,
    validate_only: Annotated[
        bool, typer.Option("--validate-only", help="Check the change, but do not apply it.")
    ] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
) -> None:
    """Change settings. Other settings stay as they are.

    Example: moldau configs alter --topic orders --set retention.ms=3600000 --append cleanup.policy=compact
    """
    resources = _resources(topic, broker, all_brokers, group)
    from moldau.client.admin import Append, Subtract

    changes: dict[str, ConfigChange] = {
        **assignments(set_),
        **dict.fromkeys(delete or ()),
        **{name: Append(value) for name, value in assignments(append).items()},
        **{name: Subtract(value) for name, value in assignments(subtract).items()},
    }
    if not changes:
        usage_error("nothing to alter: give --set, --delete, --append or --subtract")
    with connected(bootstrap, command_config, wait=wait) as admin:
        admin.alter_configs(dict.fromkeys(resources, changes), validate_only=validate_only)
        for resource in resources:
            print(f"settings of {resource} {'are valid; nothing was changed' if validate_only else 'altered'}")
