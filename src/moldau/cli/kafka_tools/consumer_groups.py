"""Tool kafka-consumer-groups: lists, describes and deletes groups, resets and deletes their offsets."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from moldau.cli.kafka_tools import group_tables
from moldau.cli.kafka_tools.group_options import LIVING_STATES, check, names_of_states, parser, reset_rule
from moldau.cli.kafka_tools.tool import (
    EXIT_OK,
    ToolError,
    client,
    errors_of,
    java_message,
    java_text,
)
from moldau.client.admin import GroupDescription, GroupListing
from moldau.client.admin.resets import NothingToShift
from moldau.client.data_types import TopicPartition
from moldau.client.errors import (
    BrokerError,
    ErrorCode,
    GroupIdNotFound,
    MoldauError,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from moldau.client.blocking.admin import Admin

CONSUMERS = ("consumer", "")
"""Protocol types of consumer groups. Groups that only have offsets have the empty one."""


OF_THE_GROUP = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_GROUP_ID, ErrorCode.NON_EMPTY_GROUP})
"""Errors about the group, not about a partition."""


def main(arguments: Sequence[str]) -> int:
    options_parser = parser()
    options = options_parser.parse(arguments)
    check(options_parser, options)
    try:
        if options.validate_regex is not None:
            return validate_regex(options.validate_regex)
        with client(options) as admin:
            next(act for name, act in ACTS.items() if getattr(options, name))(admin, options)
    except NothingToShift as error:
        options_parser.error(
            f"Cannot shift offset for partition {error.partition} since there is no current committed offset"
        )
    except (ToolError, MoldauError, ValueError) as error:
        # Kafka's tool prints this on standard output and exits with 0.
        reason = java_text(error) if isinstance(error, GroupIdNotFound) else java_message(error)
        print(f"\nError: Executing consumer group command failed due to {reason}")
    return EXIT_OK


def validate_regex(text: str) -> int:
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(text, options)
    except re2.error as problem:
        reason = problem.args[0] if problem.args else ""
        reason = reason.decode() if isinstance(reason, bytes) else str(reason)
        print(f"The regular expression `{text}` is invalid: {reason}.")
    else:
        print(f"The regular expression `{text}` is valid.")
    return EXIT_OK


def list_(admin: Admin, options: argparse.Namespace) -> None:
    groups = admin.list_groups(
        states=names_of_states(options.state) if options.state else (),
        types=[one.strip().capitalize() for one in options.type.split(",")] if options.type else (),
        protocol_types=CONSUMERS,
    )
    columns: list[tuple[str, Callable[[GroupListing], str]]] = [("GROUP", lambda one: one.id)]
    if options.type is not None:
        columns.append(("TYPE", lambda one: one.type))
    if options.state is not None:
        columns.append(("STATE", lambda one: one.state))
    if len(columns) == 1:
        for one in groups:
            print(one.id)
        return
    width = max([15, *(len(one.id) for one in groups)]) + 10
    for values in [[name for name, _ in columns], *([of(one) for _, of in columns] for one in groups)]:
        print(" ".join([values[0].ljust(width), *(value.ljust(20) for value in values[1:])]))


def chosen(admin: Admin, options: argparse.Namespace) -> list[str]:
    if options.all_groups:
        return [one.id for one in admin.list_groups(protocol_types=CONSUMERS)]
    return sorted(set(options.group))


def describe(admin: Admin, options: argparse.Namespace) -> None:
    from moldau.cli.group_rows import offset_rows

    names = chosen(admin, options)
    groups = admin.describe_groups(names)
    nodes = {node.id: f"{node.host}:{node.port}" for node in admin.describe_cluster().brokers}
    for name in names:
        group = groups[name]
        if options.members:
            say_state(group)
            group_tables.print_members(group, options.verbose)
        elif options.state is not None:
            say_state(group)
            coordinator = -1 if group.coordinator is None else group.coordinator
            group_tables.print_state(group, f"{nodes.get(coordinator, '')}  ({coordinator})", options.verbose)
        else:
            rows = offset_rows(admin, group)
            say_state(group)
            if rows:
                group_tables.print_offsets(group.id, rows, options.verbose)


def say_state(group: GroupDescription) -> None:
    if group.state == "Empty":
        print(f"\nConsumer group '{group.id}' has no active members.", file=sys.stderr)
    elif group.state in ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"):
        print(f"\nWarning: Consumer group '{group.id}' is rebalancing.", file=sys.stderr)


def delete(admin: Admin, options: argparse.Namespace) -> None:
    names = chosen(admin, options)
    failed = errors_of(lambda: admin.delete_groups(names), names)
    done = ", ".join(f"'{name}'" for name in names if name not in failed)
    if not failed:
        print(f"Deletion of requested consumer groups ({done}) was successful.")
        return
    print("\nError: Deletion of some consumer groups failed:")
    for name, error in failed.items():
        print(f"* Group '{name}' could not be deleted due to: {java_text(error)}")
    if done:
        print(f"\nThese consumer groups were deleted successfully: {done}")


def delete_offsets(admin: Admin, options: argparse.Namespace) -> None:
    if len(options.group) != 1:
        raise ToolError("Found multiple arguments for option group, but you asked for only one")
    group = options.group[0]
    results: dict[tuple[str, str], str] = {}
    partitions: list[TopicPartition] = []
    for text in options.topic:
        try:
            partitions += partitions_of(admin, text)
        except UnknownTopicOrPartition as error:
            results[text.partition(":")[0], "-"] = f"Error: {java_text(error)}"
    errors = errors_of(lambda: admin.delete_group_offsets(group, partitions), partitions) if partitions else {}
    for one in partitions:
        failed = errors.get(one)
        results[one.topic, str(one.partition)] = "Successful" if failed is None else f"Error: {java_text(failed)}"
    of_group = [error for error in errors.values() if isinstance(error, BrokerError) and error.code in OF_THE_GROUP]
    if of_group:
        print(f"\nError: {java_message(of_group[0])}")
    elif errors:
        print("\nError: Encountered some partition-level error, see the follow-up details.")
    else:
        print(f"Request succeeded for deleting offsets from group {group}.")
    print(f"\n{'TOPIC':<15} {'PARTITION':<10} {'STATUS':<15}")
    for (topic, partition), status in sorted(results.items()):
        print(f"{topic:<15} {partition:<10} {status:<15}")


def partitions_of(admin: Admin, text: str) -> list[TopicPartition]:
    """`orders` with all its partitions, or the partitions of `orders:0,1`."""
    topic, colon, indexes = text.partition(":")
    if colon:
        return [TopicPartition(topic, int(index)) for index in indexes.split(",")]
    described = admin.describe_topics(topic)[topic]
    return [TopicPartition(topic, one.index) for one in described.partitions]


def reset_offsets(admin: Admin, options: argparse.Namespace) -> None:
    rule = reset_rule(options)
    if not options.dry_run and not options.execute:
        print(
            "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will "
            "require either --dry-run or --execute to be specified. You should add the --dry-run option explicitly if "
            "you are scripting this command and want to keep the current default behavior without prompting.",
            file=sys.stderr,
        )
    planned: dict[str, dict[TopicPartition, int]] = {}
    for name in chosen(admin, options):
        state = state_of(admin, name)
        if state in LIVING_STATES:
            print(
                f"\nError: Assignments can only be reset if the group '{name}' is inactive, "
                f"but the current state is {state}."
            )
            continue
        partitions = None if options.all_topics else [one for text in options.topic for one in existing(admin, text)]
        plan = admin.reset_group_offsets(name, rule, partitions, dry_run=not options.execute)
        for one, new in plan.items():
            if new.asked is not None:
                side = "higher than latest" if new.asked > new.after else "lower than earliest"
                print(
                    f"New offset ({new.asked}) is {side} offset for topic partition {one}. "
                    f"Value will be set to {new.after}",
                    file=sys.stderr,
                )
        planned[name] = {one: new.after for one, new in plan.items()}
    if options.export:
        group_tables.print_export(planned, several=len(chosen(admin, options)) > 1)
    else:
        group_tables.print_reset(planned)


def state_of(admin: Admin, group: str) -> str:
    try:
        return admin.describe_groups(group)[group].state
    except GroupIdNotFound:
        return "Dead"


def existing(admin: Admin, text: str) -> list[TopicPartition]:
    wanted = partitions_of(admin, text)
    topic = text.partition(":")[0]
    known = {TopicPartition(topic, one.index) for one in admin.describe_topics(topic)[topic].partitions}
    missing = [str(one) for one in wanted if one not in known]
    if missing:
        raise ToolError(f'The partitions "{",".join(missing)}" do not exist')
    return wanted


ACTS = {
    "list": list_,
    "describe": describe,
    "delete": delete,
    "delete_offsets": delete_offsets,
    "reset_offsets": reset_offsets,
}
