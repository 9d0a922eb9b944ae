"""Tool kafka-topics: creates, lists, describes, alters and deletes topics."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from moldau.cli.kafka_tools.tool import EXIT_ERROR, EXIT_OK, ToolError, ToolParser, client, java_message, topic_filter
from moldau.cli.partition_filters import Filters
from moldau.client.admin import ConfigResource, NewPartitions, NewTopic, PartitionDescription, TopicDescription
from moldau.client.admin.topics import BROKERS_CHOICE, topic_id_text
from moldau.client.errors import MoldauError, TopicAlreadyExists
from moldau.settings import TOPIC
from moldau.wire.topic_partition import TopicPartition

if TYPE_CHECKING:
    from moldau.client.blocking.admin import Admin

ACTIONS = ("list", "describe", "create", "alter", "delete")
MAX_REPLICATION_FACTOR = 32_767
NOT_THERE = "AAAAAAAAAAAAAAAAAAAAAA"
"""The topic id that means "none"."""

COLLISION = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. "
    "To avoid issues it is best to use either, but not both."
)


def parser() -> ToolParser:
    parser = ToolParser("kafka-topics", "Create, list, describe, alter and delete topics.")
    parser.add_connection()
    for action in ACTIONS:
        parser.add_argument(f"--{action}", action="store_true", help=f"{action} topics")
    parser.add_argument("--topic", action="append", help="the topic; a regular expression, except with --create")
    parser.add_argument("--topic-id", action="append", help="with --describe: the topic with this id")
    parser.add_argument("--partitions", type=int, help="the number of partitions")
    parser.add_argument("--replication-factor", type=int, help="the number of replicas")
    parser.add_argument("--replica-assignment", metavar="1:2,2:3", help="the brokers of each partition")
    parser.add_argument("--config", action="append", metavar="NAME=VALUE", help="with --create: a setting")
    parser.add_argument("--if-exists", action="store_true", help="do not fail if the topic does not exist")
    parser.add_argument("--if-not-exists", action="store_true", help="do not fail if the topic exists")
    parser.add_argument("--exclude-internal", action="store_true", help="leave out internal topics")
    parser.add_argument("--topics-with-overrides", action="store_true", help="only topics with their own settings")
    for name in ("under-replicated", "unavailable", "under-min-isr", "at-min-isr"):
        parser.add_argument(f"--{name}-partitions", action="store_true", help="with --describe: only such partitions")
    parser.add_argument("--partition-size-limit-per-response", type=int, help=argparse.SUPPRESS)
    return parser


def main(arguments: Sequence[str]) -> int:
    options_parser = parser()
    options = options_parser.parse(arguments)
    check(options_parser, options)
    try:
        options_parser.only_one(options, "topic", "topic_id")
        with client(options) as admin:
            next(act for name, act in ACTS.items() if getattr(options, name))(admin, options)
    except (ToolError, MoldauError) as error:
        print(f"Error while executing topic command : {java_message(error)}")
        return EXIT_ERROR
    return EXIT_OK


def check(parser: ToolParser, options: argparse.Namespace) -> None:
    if options.bootstrap_server is None:
        parser.error("--bootstrap-server must be specified")
    if sum(getattr(options, action) for action in ACTIONS) != 1:
        parser.error("Command must include exactly one action: --list, --describe, --create, --alter or --delete")
    if options.topic is None and (options.create or options.delete or options.alter):
        parser.error('Missing required argument "[topic]"')
    if options.alter and options.partitions is None:
        parser.error('Missing required argument "[partitions]"')
    if options.create and options.replica_assignment is not None:
        for other in ("partitions", "replication_factor"):
            if getattr(options, other) is not None:
                name = other.replace("_", "-")
                parser.error(f'Option "[replica-assignment]" can\'t be used with option "[{name}]"')


def create(admin: Admin, options: argparse.Namespace) -> None:
    if "." in options.topic or "_" in options.topic:
        print(COLLISION)
    configs = {}
    for text in options.config or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise ToolError(
                'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".'
            )
        if name.strip() not in TOPIC:
            raise ToolError(f"Unknown topic config name: {name.strip()}")
        configs[name.strip()] = value.strip()
    if options.partitions is not None and options.partitions < 1:
        raise ToolError("The partitions must be greater than 0")
    if options.replication_factor is not None and not 1 <= options.replication_factor <= MAX_REPLICATION_FACTOR:
        raise ToolError(f"The replication factor must be between 1 and {MAX_REPLICATION_FACTOR} inclusive")
    topic = NewTopic(
        options.topic,
        options.partitions or BROKERS_CHOICE,
        options.replication_factor or BROKERS_CHOICE,
        configs,
        assignment(options.replica_assignment),
    )
    try:
        admin.create_topics(topic)
    except TopicAlreadyExists:
        if not options.if_not_exists:
            raise
        return
    print(f"Created topic {options.topic}.")


def assignment(text: str | None) -> list[list[int]]:
    """Parse `1:2,2:3`, the brokers of each partition in order."""
    if text is None:
        return []
    try:
        return [[int(node) for node in brokers.split(":")] for brokers in text.split(",")]
    except ValueError:
        raise ToolError(f"Invalid replica assignment: {text}") from None


def matching(admin: Admin, options: argparse.Namespace) -> list[str]:
    names = [one.name for one in admin.list_topics(include_internal=not options.exclude_internal)]
    if options.topic is None:
        return names
    pattern = topic_filter(options.topic)
    return [name for name in names if pattern.fullmatch(name)]


def existing(admin: Admin, options: argparse.Namespace) -> list[str]:
    names = matching(admin, options)
    if not names and options.topic is not None and not options.if_exists:
        raise ToolError(f"Topic '{options.topic}' does not exist as expected")
    return names


def list_(admin: Admin, options: argparse.Namespace) -> None:
    print("\n".join(matching(admin, options)))


def delete(admin: Admin, options: argparse.Namespace) -> None:
    admin.delete_topics(existing(admin, options))


def alter(admin: Admin, options: argparse.Namespace) -> None:
    new = assignment(options.replica_assignment)
    topics = admin.describe_topics(existing(admin, options))
    # The assignment covers all partitions; existing partitions are not moved.
    admin.create_partitions(
        {
            name: NewPartitions(options.partitions, new[len(topic.partitions) :]) if new else options.partitions
            for name, topic in topics.items()
        }
    )


def describe(admin: Admin, options: argparse.Namespace) -> None:
    if options.topic_id not in (None, NOT_THERE):
        found = {topic_id_text(one.id): one.name for one in admin.list_topics(include_internal=True)}
        if options.topic_id not in found and not options.if_exists:
            raise ToolError(f"TopicId '{options.topic_id}' does not exist as expected")
        names = [found[options.topic_id]] if options.topic_id in found else []
    else:
        names = existing(admin, options)
    topics = admin.describe_topics(names)
    configs = admin.describe_configs([ConfigResource.topic(name) for name in topics])
    filters = Filters(
        options.under_replicated_partitions,
        options.unavailable_partitions,
        options.under_min_isr_partitions,
        options.at_min_isr_partitions,
    )
    moving = admin.list_partition_reassignments() if any(filters) else {}
    adding = {partition: one.adding for partition, one in moving.items()}
    for name, topic in topics.items():
        entries = configs[ConfigResource.topic(name)]
        own = {entry.name: entry.value for entry in entries.values() if not entry.is_default}
        minimum = entries["min.insync.replicas"].value if "min.insync.replicas" in entries else None
        print_topic(topic, own, int(minimum or 1), adding, filters, options)


def print_topic(
    topic: TopicDescription,
    configs: dict[str, str | None],
    min_isr: int,
    adding: Mapping[TopicPartition, tuple[int, ...]],
    filters: Filters,
    options: argparse.Namespace,
) -> None:
    if not any(filters) and (configs or not options.topics_with_overrides):
        settings = ",".join(f"{name}={value}" for name, value in configs.items())
        print(
            f"Topic: {topic.name}\tTopicId: {topic_id_text(topic.id)}\tPartitionCount: {len(topic.partitions)}"
            f"\tReplicationFactor: {topic.replication_factor}\tConfigs: {settings}"
        )
    if options.topics_with_overrides:
        return
    for one in topic.partitions:
        if filters.choose(one, min_isr, adding.get(TopicPartition(topic.name, one.index), ())):
            print(partition_line(topic.name, one))


def partition_line(topic: str, one: PartitionDescription) -> str:
    def ids(nodes: Sequence[int] | None) -> str:
        return "N/A" if nodes is None else ",".join(map(str, nodes))

    leader = "none" if one.leader is None else one.leader
    return (
        f"\tTopic: {topic}\tPartition: {one.index}\tLeader: {leader}\tReplicas: {ids(one.replicas)}"
        f"\tIsr: {ids(one.isr)}\tElr: {ids(one.eligible_leader_replicas)}\tLastKnownElr: {ids(one.last_known_elr)}"
    )


ACTS = {"create": create, "list": list_, "describe": describe, "alter": alter, "delete": delete}
