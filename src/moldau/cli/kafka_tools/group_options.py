"""Options of kafka-consumer-groups, and the rules for combining them."""

from __future__ import annotations

import argparse
from pathlib import Path

from moldau.cli.group_reset import parse_offsets
from moldau.cli.kafka_tools.tool import ToolError, ToolParser
from moldau.cli.times import parse_datetime_ms, parse_duration_ms
from moldau.client import admin
from moldau.client.admin import Reset

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
RULES = (
    "by-duration",
    "to-datetime",
    "from-file",
    "shift-by",
    "to-offset",
    "to-earliest",
    "to-current",
    "to-latest",
)
STATES = ("PreparingRebalance", "Reconciling", "Assigning", "CompletingRebalance", "Stable", "Dead", "Empty")
LIVING_STATES = frozenset(STATES) - {"Dead", "Empty"}


def parser() -> ToolParser:
    parser = ToolParser("kafka-consumer-groups", "List, describe and delete groups; reset and delete their offsets.")
    parser.add_connection()
    for action in ACTIONS[:-1]:
        parser.add_argument(f"--{action}", action="store_true", help=f"{action.replace('-', ' ')}")
    parser.add_argument("--validate-regex", metavar="PATTERN", help="check whether brokers accept this pattern")
    parser.add_argument("--group", action="append", help="a group; can be repeated")
    parser.add_argument("--all-groups", action="store_true", help="all groups")
    parser.add_argument("--topic", action="append", metavar="TOPIC[:0,1]", help="a topic, or some of its partitions")
    parser.add_argument(
        "--all-topics", action="store_true", help=("all topics that the group has committed offsets for")
    )
    parser.add_argument("--members", action="store_true", help="with --describe: the members")
    parser.add_argument("--offsets", action="store_true", help="with --describe: the offsets (the default)")
    parser.add_argument("--state", nargs="?", const="", help="with --describe and --list: the state")
    parser.add_argument("--type", nargs="?", const="", help="with --list: the type")
    parser.add_argument("--verbose", action="store_true", help="more columns")
    parser.add_argument("--timeout", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--dry-run", action="store_true", help="only show the changes")
    parser.add_argument("--execute", action="store_true", help="make the changes")
    parser.add_argument("--export", action="store_true", help="show the changes as CSV")
    for flag in ("to-earliest", "to-latest", "to-current"):
        parser.add_argument(f"--{flag}", action="store_true", help="the position to reset to")
    parser.add_argument("--to-offset", type=int, help="the offset to reset to")
    parser.add_argument("--shift-by", type=int, help="the number of records to move forward, or backward if negative")
    parser.add_argument(
        "--to-datetime", metavar="YYYY-MM-DDThh:mm:ss.sss", help=("to the first record at or after this time")
    )
    parser.add_argument(
        "--by-duration", metavar="PnDTnHnMnS", help=("to the first record after now minus this duration")
    )
    parser.add_argument("--from-file", metavar="FILE", help="to the offsets in a file that --export wrote")
    return parser


def given(options: argparse.Namespace, names: tuple[str, ...]) -> list[str]:
    values = {name: getattr(options, name.replace("-", "_")) for name in names}
    return [name for name, value in values.items() if value is not None and value is not False]


def check(parser: ToolParser, options: argparse.Namespace) -> None:
    actions = given(options, ACTIONS)
    if len(actions) != 1:
        parser.error(f"Command must include exactly one action: {', '.join(f'--{action}' for action in ACTIONS)}")
    action = actions[0]
    if action != "validate-regex" and options.bootstrap_server is None:
        parser.error('Missing required argument "[bootstrap-server]"')
    if action in ("describe", "delete", "reset-offsets") and not (options.group or options.all_groups):
        parser.error(f"Option [{action}] takes one of these options: [all-groups], [group]")
    if action == "describe":
        if len(given(options, ("members", "offsets", "state"))) > 1:
            parser.error("Option [describe] takes at most one of these options: [members], [offsets], [state]")
    elif action == "list":
        if options.state:
            try:
                names_of_states(options.state)
            except ToolError as error:
                parser.error(str(error))
    elif action == "delete-offsets":
        if not options.group or not options.topic:
            parser.error("Option [delete-offsets] takes the following options: [topic], [group]")
    elif action == "reset-offsets":
        check_reset(parser, options)


def check_reset(parser: ToolParser, options: argparse.Namespace) -> None:
    rules = given(options, RULES)
    if options.dry_run and options.execute:
        parser.error("Option [reset-offsets] only accepts one of [execute], [dry-run]")
    if not rules:
        wanted = ", ".join(f"[{name}]" for name in RULES)
        parser.error(f"Option '[reset-offsets]' requires one of the following scenarios: [{wanted}]")
    if len(rules) > 1:
        parser.error(f'Option "[{rules[0]}]" can\'t be used with option "[{rules[1]}]"')
    if not options.topic and not options.all_topics and options.from_file is None:
        parser.error("One of the reset scopes should be defined: --all-topics, --topic.")
    if options.from_file is not None and options.topic is None:
        options.topic = []


def names_of_states(text: str) -> list[str]:
    """The exact names of states, from a comma-separated list in any case."""
    known = {state.lower(): state for state in STATES}
    wanted = [one.strip().lower() for one in text.split(",")]
    if any(one not in known for one in wanted):
        raise ToolError(f"Invalid state list '{text}'. Valid states are: {', '.join(STATES)}")
    return [known[one] for one in wanted]


def reset_rule(options: argparse.Namespace) -> Reset:
    (name,) = given(options, RULES)
    value = getattr(options, name.replace("-", "_"))
    match name:
        case "to-earliest":
            return admin.ToEarliest()
        case "to-latest":
            return admin.ToLatest()
        case "to-current":
            return admin.ToCurrent()
        case "to-offset":
            return admin.ToOffset(value)
        case "shift-by":
            return admin.ShiftBy(value)
        case "to-datetime":
            return admin.ToTimestamp(parse_datetime_ms(value))
        case "by-duration":
            return admin.ByDuration(parse_duration_ms(value))
    try:
        with Path(value).open(newline="") as lines:
            return admin.ToOffsets(parse_offsets(lines))
    except OSError:
        raise ToolError(f"java.io.IOException: Unable to read file {value}") from None
