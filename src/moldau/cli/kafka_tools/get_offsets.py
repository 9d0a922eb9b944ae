"""Tool kafka-get-offsets: prints a line TOPIC:PARTITION:OFFSET for each matching partition."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence

from moldau.cli.kafka_tools.tool import EXIT_ERROR, EXIT_OK, ToolError, ToolParser, client, java_message, topic_filter
from moldau.client.admin import OffsetSpec, SomeFailed
from moldau.client.data_types import NO_OFFSET, TopicPartition
from moldau.client.errors import MoldauError

TIMES = {
    "latest": OffsetSpec.LATEST,
    "earliest": OffsetSpec.EARLIEST,
    "max-timestamp": OffsetSpec.MAX_TIMESTAMP,
    "earliest-local": OffsetSpec.EARLIEST_LOCAL,
    "latest-tiered": OffsetSpec.LATEST_TIERED,
    "earliest-pending-upload": OffsetSpec.EARLIEST_PENDING_UPLOAD,
}
Filter = Callable[[TopicPartition], bool]

_RULE = re.compile(r"(?P<topic>[^:,]*)(?::(?P<one>\d*)(?:(?P<to>-)(?P<end>\d*))?)?")


def parser() -> ToolParser:
    parser = ToolParser("kafka-get-offsets", "Print offsets of partitions.")
    parser.add_connection()
    parser.add_argument("--topic", help="a regular expression for topic names")
    parser.add_argument("--partitions", help="partition ids, separated by commas")
    parser.add_argument("--topic-partitions", metavar="TOPIC:FROM-TO,...", help="patterns of topics and partitions")
    parser.add_argument("--time", default="latest", help=f"{', '.join(TIMES)}, or milliseconds since 1970")
    parser.add_argument("--exclude-internal-topics", action="store_true", help="leave out internal topics")
    return parser


def main(arguments: Sequence[str]) -> int:
    options_parser = parser()
    options = options_parser.parse(arguments)
    if options.bootstrap_server is None:
        options_parser.error('Missing required argument "[bootstrap-server]"')
    try:
        run(options)
    except (ToolError, MoldauError) as error:
        print(f"Error occurred: {java_message(error)}", file=sys.stderr)
        return EXIT_ERROR
    return EXIT_OK


def run(options: argparse.Namespace) -> None:
    wanted = wanted_by(options)
    spec = parse_time(options.time)
    with client(options) as admin:
        partitions = [
            TopicPartition(topic.name, index)
            for topic in admin.list_topics(include_internal=not options.exclude_internal_topics)
            for index in range(topic.partitions)
        ]
        chosen = [one for one in partitions if wanted(one)]
        if not chosen:
            raise ToolError("Could not match any topic-partitions with the specified filters")
        try:
            offsets = dict(admin.list_offsets(dict.fromkeys(chosen, spec)))
        except SomeFailed as some:
            offsets = dict(some.results)
            for one, error in some.errors.items():
                print(f"Skip getting offsets for topic-partition {one} due to: {java_message(error)}", file=sys.stderr)
    for one in sorted(offsets, key=lambda one: (one.topic, one.partition)):
        if offsets[one].offset != NO_OFFSET:
            print(f"{one.topic}:{one.partition}:{offsets[one].offset}")


def parse_time(text: str) -> int:
    if text in TIMES:
        return TIMES[text]
    try:
        number = int(text)
    except ValueError:
        number = None
    if number is None or number < min(TIMES.values()):
        names = " / ".join(f"{spec.value} or {name}" for name, spec in TIMES.items())
        raise ToolError(f"Malformed time argument {text}. Please use {names}, or a specified long format timestamp")
    return number


def wanted_by(options: argparse.Namespace) -> Filter:
    if options.topic_partitions is not None:
        if options.topic is not None or options.partitions is not None:
            raise ToolError("--topic-partitions cannot be used with --topic or --partitions")
        rules = [parse_rule(text) for text in options.topic_partitions.split(",")]
        return lambda one: any(rule(one) for rule in rules)
    pattern = None if options.topic is None else topic_filter(options.topic)
    ids = None if not options.partitions else parse_ids(options.partitions)
    return lambda one: (
        (pattern is None or pattern.fullmatch(one.topic) is not None) and (ids is None or one.partition in ids)
    )


def parse_ids(text: str) -> set[int]:
    try:
        return {int(one) for one in text.split(",")}
    except ValueError:
        raise ToolError(
            f"--partitions expects a comma separated list of numeric partition ids, but received: {text}"
        ) from None


def parse_rule(text: str) -> Filter:
    """Parse `orders`, `orders:0`, `orders:0-2` (without 2), `orders:1-` or `orders:-2`; the topic is a pattern."""
    found = _RULE.fullmatch(text)
    if found is None:
        raise ToolError(f"Invalid rule specification: {text}")
    pattern = topic_filter(found["topic"] or ".*")
    start, end = found["one"], found["end"]
    if found["to"] is None:
        low, high = (int(start), int(start) + 1) if start else (0, None)
    else:
        low, high = int(start or 0), int(end) if end else None
    return lambda one: (
        pattern.fullmatch(one.topic) is not None and one.partition >= low and (high is None or one.partition < high)
    )
