"""Tool kafka-configs: describes and alters settings of topics, brokers and groups, quotas and users.

Quotas and users are in `client_entities`.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.cli.kafka_tools.client_entities import (
    CLIENT_ENTITIES,
    Entity,
    alter_entities,
    check_entities,
    describe_entities,
    entities_of,
)
from moldau.cli.kafka_tools.tool import EXIT_ERROR, EXIT_OK, ToolError, ToolParser, client, java_text
from moldau.client.admin import ConfigEntry, ConfigKind, ConfigResource, ConfigSource
from moldau.client.errors import MoldauError, UnsupportedByBroker
from moldau.settings.sources import read_properties

if TYPE_CHECKING:
    from moldau.client.blocking.admin import Admin

ENTITIES = {"topics": ConfigKind.TOPIC, "brokers": ConfigKind.BROKER, "groups": ConfigKind.GROUP}
KINDS_OF_KAFKA = "topics, clients, users, brokers, ips, client-metrics, groups, broker-loggers"
SOURCES = {
    ConfigKind.TOPIC: ConfigSource.DYNAMIC_TOPIC_CONFIG,
    ConfigKind.BROKER: ConfigSource.DYNAMIC_BROKER_CONFIG,
    ConfigKind.GROUP: ConfigSource.DYNAMIC_GROUP_CONFIG,
}

_PAIRS = re.compile(r",(?=[^\[\]]*(?:\[|$))")
"""Commas outside brackets: `a=1,b=[2,3]` is two settings."""


def parser() -> ToolParser:
    parser = ToolParser("kafka-configs", "Describe and alter settings of topics, brokers and groups, quotas and users.")
    parser.add_connection()
    parser.add_argument("--describe", action="store_true", help="show settings")
    parser.add_argument("--alter", action="store_true", help="change settings")
    parser.add_argument("--all", action="store_true", help="with --describe: include defaults")
    parser.add_argument("--entity-type", action="append", help="topics, brokers, groups, users, clients or ips")
    parser.add_argument(
        "--entity-name", action="append", dest="entity_names", help="the name of the topic, broker, group, user …"
    )
    parser.add_argument(
        "--entity-default",
        action="append_const",
        const="",
        dest="entity_names",
        help="with brokers, users, clients and ips: for all of them, or for those without settings of their own",
    )
    parser.add_argument("--topic", help="a topic")
    parser.add_argument("--broker", help="the id of a broker")
    parser.add_argument("--broker-defaults", action="store_true", help="the settings for all brokers")
    parser.add_argument("--group", help="a group")
    parser.add_argument("--user", help="a user")
    parser.add_argument("--user-defaults", action="store_true", help="users without a quota of their own")
    parser.add_argument("--client", help="a client id")
    parser.add_argument("--client-defaults", action="store_true", help="client ids without a quota of their own")
    parser.add_argument("--ip", help="an IP address")
    parser.add_argument("--ip-defaults", action="store_true", help="addresses without a quota of their own")
    parser.add_argument("--add-config", metavar="NAME=VALUE,NAME=[VALUE,VALUE]", help="settings to set")
    parser.add_argument("--add-config-file", metavar="FILE", help="a file with settings to set")
    parser.add_argument("--delete-config", metavar="NAME,NAME", help="settings to reset to their defaults")
    return parser


def main(arguments: Sequence[str]) -> int:
    options_parser = parser()
    options = options_parser.parse(arguments)
    try:
        check_action(options_parser, options)
        entities = entities_of(options)
        if entities and entities[0][0] in CLIENT_ENTITIES:
            configure_clients(entities, options)
            return EXIT_OK
        entity = check(options)
        with client(options) as admin:
            (describe if options.describe else alter)(admin, entity, options)
    except ToolError as error:
        print(error, file=sys.stderr)
        return EXIT_ERROR
    except MoldauError as error:
        shown = " ".join("[hidden]" if "password" in one else one for one in arguments)
        print(f"Error while executing config command with args '{shown}'", file=sys.stderr)
        print(f"java.util.concurrent.ExecutionException: {java_text(error)}", file=sys.stderr)
        return EXIT_ERROR
    return EXIT_OK


def check_action(parser: ToolParser, options: argparse.Namespace) -> None:
    if options.describe == options.alter:
        parser.error("Command must include exactly one action: --describe, --alter")
    if options.bootstrap_server is None:
        raise ToolError("Either --bootstrap-server or --bootstrap-controller must be specified.")


def configure_clients(entities: Sequence[Entity], options: argparse.Namespace) -> None:
    check_entities(entities, options)
    if options.alter:
        check_changes(options)
    with client(options) as admin:
        if options.describe:
            describe_entities(admin, entities)
        else:
            alter_entities(admin, entities, added_of(options), deleted_of(options))


def check_changes(options: argparse.Namespace) -> None:
    if not (options.add_config or options.add_config_file or options.delete_config):
        raise ToolError(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )


def check(options: argparse.Namespace) -> tuple[ConfigKind, str | None]:
    """The kind and the name of the resource; the name is None for all of that kind."""
    for shortcut, kind in (("topic", "topics"), ("broker", "brokers"), ("group", "groups")):
        if getattr(options, shortcut) is not None:
            options.entity_type, options.entity_names = [kind], [getattr(options, shortcut)]
    if options.broker_defaults:
        options.entity_type, options.entity_names = ["brokers"], [""]
    if not options.entity_type:
        raise ToolError("At least one entity type must be specified")
    name = options.entity_type[0]
    if name not in KINDS_OF_KAFKA.split(", "):
        raise ToolError(
            f"Invalid entity type {name}, the entity type must be one of {KINDS_OF_KAFKA} "
            "with a --bootstrap-server or --bootstrap-controller argument"
        )
    if name not in ENTITIES:
        raise ToolError(f"Settings of {name} are not supported here; only those of {', '.join(ENTITIES)}")
    names = options.entity_names or []
    if len(names) > 1 or len(options.entity_type) > 1:
        raise ToolError("An entity name must be specified for every entity type")
    if options.alter and not names:
        raise ToolError("An entity name must be specified with --alter of " + name)
    if options.alter:
        check_changes(options)
    return ENTITIES[name], names[0] if names else None


def describe(admin: Admin, entity: tuple[ConfigKind, str | None], options: argparse.Namespace) -> None:
    kind, name = entity
    known = names_of(admin, kind)
    if name is None:
        names = [*known, *([""] if kind is ConfigKind.BROKER else [])]
    elif name and name not in known:
        print(f"The {kind.name.lower()} '{name}' doesn't exist and doesn't have dynamic config.")
        return
    else:
        names = [name]
    for one in names:
        resource = ConfigResource(kind, one)
        if one:
            print(f"{'All' if options.all else 'Dynamic'} configs for {kind.name.lower()} {one} are:")
        else:
            print(f"Default configs for {kind.name.lower()}s in the cluster are:")
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG if not one else SOURCES[kind]
        entries = admin.describe_configs(resource)[resource]
        for entry in sorted(entries.values(), key=lambda entry: entry.name):
            if options.all or entry.source is source:
                print(line(entry))


def names_of(admin: Admin, kind: ConfigKind) -> list[str]:
    if kind is ConfigKind.TOPIC:
        return [one.name for one in admin.list_topics(include_internal=True)]
    if kind is ConfigKind.BROKER:
        return [str(one.id) for one in admin.describe_cluster().brokers]
    groups = [one.id for one in admin.list_groups()]
    with contextlib.suppress(UnsupportedByBroker):  # before Kafka 4.1
        groups += [one.name for one in admin.list_config_resources(ConfigKind.GROUP)]
    return list(dict.fromkeys(groups))


def line(entry: ConfigEntry) -> str:
    def text(value: str | None) -> str:
        return "null" if value is None else value

    synonyms = ", ".join(f"{one.source.name}:{one.name}={text(one.value)}" for one in entry.synonyms)
    sensitive = str(entry.sensitive).lower()
    return f"  {entry.name}={text(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def alter(admin: Admin, entity: tuple[ConfigKind, str | None], options: argparse.Namespace) -> None:
    kind, name = entity
    changes: dict[str, str | None] = {**added_of(options), **dict.fromkeys(deleted_of(options))}
    assert name is not None
    admin.alter_configs({ConfigResource(kind, name): changes})
    if name:
        print(f"Completed updating config for {kind.name.lower()} {name}.")
    else:
        print(f"Completed updating default config for {kind.name.lower()}s in the cluster.")


def added_of(options: argparse.Namespace) -> dict[str, str]:
    added: dict[str, str] = {}
    if options.add_config_file:
        added |= read_properties(Path(options.add_config_file).read_text())
    if options.add_config:
        added |= parse_pairs(options.add_config)
    return added


def deleted_of(options: argparse.Namespace) -> list[str]:
    return [one.strip() for one in (options.delete_config or "").split(",") if one.strip()]


def parse_pairs(text: str) -> dict[str, str]:
    """Parse settings such as `a=1,b=[2,3]`; values with commas are in brackets."""
    pairs = {}
    for pair in _PAIRS.split(text):
        name, equals, value = pair.partition("=")
        if not equals:
            raise ToolError(
                'requirement failed: Invalid entity config: all configs to be added must be in the format "key=val" or '
                ' "key=[val1,val2]" to group values which contain commas.'
            )
        pairs[name.strip()] = re.sub(r"^\[(.*)\]$", r"\1", value.strip(), flags=re.DOTALL)
    return pairs
