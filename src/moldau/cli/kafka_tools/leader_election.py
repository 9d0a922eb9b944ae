"""Tool kafka-leader-election: elects preferred leaders, or any live replica."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from moldau.cli.election_results import elected
from moldau.cli.kafka_tools.tool import EXIT_ERROR, EXIT_OK, ToolError, ToolParser, client, java_text
from moldau.client.admin import ElectionType
from moldau.client.data_types import TopicPartition
from moldau.client.errors import MoldauError


def parser() -> ToolParser:
    parser = ToolParser("kafka-leader-election", "Elect leaders of partitions.")
    parser.add_connection()
    parser.add_argument("--admin.config", dest="command_config", help=argparse.SUPPRESS)
    parser.add_argument("--election-type", metavar="preferred|unclean", help="the type of the election")
    parser.add_argument("--topic", help="the topic of --partition")
    parser.add_argument("--partition", type=int, help="one partition")
    parser.add_argument("--all-topic-partitions", action="store_true", help="all partitions")
    parser.add_argument(
        "--path-to-json-file", metavar="FILE", help='{"partitions": [{"topic": "orders", "partition": 0}]}'
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    options = parser().parse(arguments)
    try:
        kind = checked(options)
        wanted = partitions(options)
        if wanted is not None and not wanted:
            return EXIT_OK
        with client(options) as admin:
            results, errors = elected(admin, kind, wanted)
        tell(kind, results, errors)
    except (ToolError, MoldauError) as error:
        print(error, file=sys.stderr)
        return EXIT_ERROR
    return EXIT_OK


def checked(options: argparse.Namespace) -> ElectionType:
    """The election type. Conflicting options raise ToolError with the messages of Kafka's tool."""
    missing = [name for name in ("bootstrap_server", "election_type") if getattr(options, name) is None]
    if missing:
        raise ToolError(f"Missing required option(s): {', '.join(name.replace('_', '-') for name in missing)}")
    ways = [options.topic is not None, options.all_topic_partitions, options.path_to_json_file is not None]
    if sum(ways) != 1:
        raise ToolError(
            "One and only one of the following options is required: topic, all-topic-partitions, path-to-json-file"
        )
    if options.topic is not None and options.partition is None:
        raise ToolError("Missing required option(s): partition")
    if options.topic is None and options.partition is not None:
        raise ToolError("Option partition is only allowed if topic is used")
    try:
        return ElectionType[options.election_type.upper()]
    except KeyError:
        raise ToolError(f"Cannot parse argument '{options.election_type}' of option election-type") from None


def partitions(options: argparse.Namespace) -> list[TopicPartition] | None:
    """The partitions to elect leaders for; None for all."""
    if options.all_topic_partitions:
        return None
    if options.topic is not None:
        return [TopicPartition(options.topic, options.partition)]
    try:
        text = Path(options.path_to_json_file).read_text()
    except OSError:
        raise ToolError(f"java.io.IOException: Unable to read file {options.path_to_json_file}") from None
    try:
        found = [TopicPartition(str(one["topic"]), int(one["partition"])) for one in json.loads(text)["partitions"]]
    except (ValueError, KeyError, TypeError):
        raise ToolError("Replica election data is empty") from None
    twice = [one for one in dict.fromkeys(found) if found.count(one) > 1]
    if twice:
        raise ToolError(f"Replica election data contains duplicate partitions: {', '.join(map(str, twice))}")
    return found


def tell(kind: ElectionType, results: dict[TopicPartition, bool], errors: dict[TopicPartition, MoldauError]) -> None:
    elected = [str(one) for one in sorted(results) if results[one]]
    not_needed = [str(one) for one in sorted(results) if not results[one]]
    if elected:
        print(f"Successfully completed leader election ({kind.name}) for partitions {', '.join(elected)}")
    if not_needed:
        print(f"Valid replica already elected for partitions {', '.join(not_needed)}")
    for partition in sorted(errors):
        text = java_text(errors[partition])
        print(f"Error completing leader election ({kind.name}) for partition: {partition}: {text}")
    if errors:
        raise ToolError(f"{len(errors)} replica(s) could not be elected")
