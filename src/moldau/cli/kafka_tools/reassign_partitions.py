"""Tool kafka-reassign-partitions: generates, executes, verifies and cancels reassignment plans."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.cli.kafka_tools.tool import EXIT_ERROR, EXIT_OK, ToolError, ToolParser, client, java_message, java_text
from moldau.cli.reassignment_plans import (
    BadPlanError,
    Plan,
    as_brokers,
    clear_throttle,
    commas,
    current,
    generated,
    parse_plan,
    parse_topics,
    plan_json,
    progress_of,
    set_throttle,
    still_there,
)
from moldau.client.admin import SomeFailed
from moldau.client.errors import ErrorCode, MoldauError, error_for
from moldau.cluster.relocation import NoRoomError

if TYPE_CHECKING:
    from moldau.client.admin import TopicDescription
    from moldau.client.blocking.admin import Admin

UNSET = -1

ACTIONS = {
    "generate": ("broker_list", "topics_to_move_json_file"),
    "execute": ("reassignment_json_file",),
    "verify": ("reassignment_json_file",),
    "cancel": ("reassignment_json_file",),
    "list": (),
}
"""The required options of each action."""

ALLOWED = {
    "generate": {"disable_rack_aware"},
    "execute": {"additional", "disallow_replication_factor_change", "replica_alter_log_dirs_throttle", "throttle"},
    "verify": {"preserve_throttles"},
    "cancel": {"preserve_throttles"},
    "list": set[str](),
}
"""The additional options of each action; a few options are allowed with all of them."""

UNDER_WAY = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create a "
    "new partition assignment in addition to the existing one. The --additional flag can also be used to change the "
    "throttle by resubmitting the current reassignment."
)


def parser() -> ToolParser:
    parser = ToolParser("kafka-reassign-partitions", "Move partitions to other brokers.")
    parser.add_connection()
    for action in ACTIONS:
        parser.add_argument(f"--{action}", action="store_true", help=f"{action} reassignments")
    parser.add_argument("--reassignment-json-file", metavar="FILE", help="the plan")
    parser.add_argument("--topics-to-move-json-file", metavar="FILE", help="with --generate: the topics")
    parser.add_argument("--broker-list", metavar="0,1,2", help="with --generate: the brokers to use")
    parser.add_argument("--throttle", type=int, default=UNSET, metavar="BYTES", help="limit in bytes per second")
    parser.add_argument("--replica-alter-log-dirs-throttle", type=int, default=UNSET, help=argparse.SUPPRESS)
    parser.add_argument("--timeout", type=int, default=UNSET, help=argparse.SUPPRESS)
    parser.add_argument("--additional", action="store_true", help="allow other reassignments in progress")
    parser.add_argument("--preserve-throttles", action="store_true", help="do not remove throttles")
    parser.add_argument("--disable-rack-aware", action="store_true", help="ignore racks")
    parser.add_argument("--disallow-replication-factor-change", action="store_true", help="keep the number of replicas")
    return parser


def main(arguments: Sequence[str]) -> int:
    options_parser = parser()
    options = options_parser.parse(arguments)
    act = ACTS[chosen(options_parser, options)]
    try:
        with client(options) as admin:
            act(admin, options)
    except (ToolError, BadPlanError, MoldauError) as error:
        # Kafka's tool prints errors on standard output.
        print(f"Error: {java_message(error)}")
        return EXIT_ERROR
    return EXIT_OK


def chosen(parser: ToolParser, options: argparse.Namespace) -> str:
    """The action. Checks that the other options are allowed with it."""
    actions = [action for action in ACTIONS if getattr(options, action)]
    if len(actions) != 1:
        parser.error(f"Command must include exactly one action: --{', --'.join(ACTIONS)}")
    if options.bootstrap_server is None:
        parser.error("Please specify either --bootstrap-server or --bootstrap-controller")
    (action,) = actions
    for name in ACTIONS[action]:
        if getattr(options, name) is None:
            parser.error(f'Missing required argument "[{dashed(name)}]"')
    taken = {*ACTIONS[action], *ALLOWED[action]}
    for name in sorted({*set().union(*ACTIONS.values()), *set().union(*ALLOWED.values())} - taken):
        if getattr(options, name) not in (None, False, UNSET):
            parser.error(f'Option "[{dashed(name)}]" can\'t be used with action "[{action}]"')
    return action


def dashed(name: str) -> str:
    return name.replace("_", "-")


def read(file: str) -> str:
    try:
        return Path(file).read_text()
    except OSError:
        raise ToolError(f"Unable to read file {file}") from None


def read_plan(options: argparse.Namespace) -> Plan:
    return parse_plan(read(options.reassignment_json_file))


def joined(partitions: Iterable[object]) -> str:
    return ",".join(map(str, partitions))


# Actions --------------------------------------------------------------------------------------------------------------


def list_(admin: Admin, options: argparse.Namespace) -> None:
    found = admin.list_partition_reassignments()
    if not found:
        print("No partition reassignments found.")
        return
    print("Current partition reassignments:")
    for partition, one in found.items():
        changes = [
            f"{word}: {commas(nodes)}." for word, nodes in (("adding", one.adding), ("removing", one.removing)) if nodes
        ]
        print(" ".join([f"{partition}: replicas: {commas(one.replicas)}.", *changes]))


def generate(admin: Admin, options: argparse.Namespace) -> None:
    names = parse_topics(read(options.topics_to_move_json_file))
    try:
        ids = [int(node) for node in options.broker_list.split(",")]
    except ValueError:
        raise ToolError(f"{options.broker_list} is not a list of broker ids") from None
    if len(set(ids)) < len(ids):
        raise ToolError("Broker list contains duplicate entries")
    topics = described(admin, names)
    nodes = [node for node in admin.describe_cluster().brokers if node.id in ids]
    racks = not options.disable_rack_aware
    if racks and len({node.rack is None for node in nodes}) > 1:
        raise ToolError(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
            "assignment without rack information."
        )
    try:
        plan = generated(topics.values(), as_brokers(nodes, racks=racks))
    except NoRoomError:
        factor = max(topic.replication_factor for topic in topics.values())
        raise ToolError(
            f"The target replication factor of {factor} cannot be reached because only {len(nodes)} broker(s) are "
            "registered or some brokers have all their log directories cordoned."
        ) from None
    print(f"Current partition replica assignment\n{plan_json(current(topics.values()))}\n")
    print(f"Proposed partition reassignment configuration\n{plan_json(plan)}")


def execute(admin: Admin, options: argparse.Namespace) -> None:
    plan = read_plan(options)
    if admin.list_partition_reassignments() and not options.additional:
        raise ToolError(UNDER_WAY)
    nodes = [node.id for node in admin.describe_cluster().brokers]
    unknown = sorted({node for replicas in plan.values() for node in replicas} - set(nodes))
    if unknown:
        raise ToolError(f"Unknown broker id {unknown[0]}")
    topics = described(admin, sorted({one.topic for one in plan}))
    before = {one: replicas for one, replicas in current(topics.values()).items() if one in plan}
    print(f"Current partition replica assignment\n\n{plan_json(before)}\n")
    print("Save this to use as the --reassignment-json-file option during rollback")
    if options.throttle >= 0:
        print(
            "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is "
            "removed."
        )
        set_throttle(admin, options.throttle, nodes, before, plan)
        print(f"The inter-broker throttle limit was set to {options.throttle} B/s")
    try:
        admin.alter_partition_reassignments(
            plan, allow_replication_factor_change=not options.disallow_replication_factor_change
        )
    except SomeFailed as some:
        failures = "\n".join(f"{one}: {java_message(some.errors[one])}" for one in sorted(some.errors))
        raise ToolError(f"Error reassigning partition(s):\n{failures}") from None
    print(f"Successfully started partition reassignment{'s' if len(plan) > 1 else ''} for {joined(sorted(plan))}")


def verify(admin: Admin, options: argparse.Namespace) -> None:
    plan = read_plan(options)
    names = sorted({one.topic for one in plan})
    found = progress_of(plan, still_there(admin, names), admin.list_partition_reassignments(list(plan)))
    print("Status of partition reassignment:")
    for partition, far in sorted(found.items()):
        if far.done:
            print(f"Reassignment of partition {partition} is completed.")
        elif far.moving:
            print(f"Reassignment of partition {partition} is still in progress.")
        else:
            print(
                f"There is no active reassignment of partition {partition}, but replica set is "
                f"{commas(far.replicas or ())} rather than {commas(far.wanted)}."
            )
    print()
    if not options.preserve_throttles and not any(far.moving for far in found.values()):
        clear(admin, names)


def cancel(admin: Admin, options: argparse.Namespace) -> None:
    plan = read_plan(options)
    moving = admin.list_partition_reassignments(list(plan))
    if moving:
        admin.alter_partition_reassignments(dict.fromkeys(moving))
        print(f"Successfully cancelled partition reassignments for: {joined(moving)}")
    else:
        print("None of the specified partition reassignments are active.")
    print("None of the specified partition moves are active.", end="")
    if not options.preserve_throttles:
        clear(admin, sorted({one.topic for one in plan}))


def clear(admin: Admin, topics: list[str]) -> None:
    nodes = sorted(node.id for node in admin.describe_cluster().brokers)
    print(f"Clearing broker-level throttles on broker{'s' if len(nodes) > 1 else ''} {commas(nodes)}")
    print(f"Clearing topic-level throttles on topic{'s' if len(topics) > 1 else ''} {','.join(topics)}")
    try:
        clear_throttle(admin, nodes, topics)
    except MoldauError as error:
        failed = next(iter(error.errors.values())) if isinstance(error, SomeFailed) else error
        raise ToolError(java_text(failed)) from None


def described(admin: Admin, names: list[str]) -> dict[str, TopicDescription]:
    found = still_there(admin, names)
    for name in names:
        if name not in found:
            missing = error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "describing", f"Topic {name} not found.")
            raise ToolError(java_text(missing))
    return found


ACTS = {"generate": generate, "execute": execute, "verify": verify, "cancel": cancel, "list": list_}
