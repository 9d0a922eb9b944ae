"""Tool kafka-console-consumer: `moldau consume` with Kafka's options."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from moldau.cli.kafka_tools.tool import EXIT_ERROR, ToolParser, properties_of, run_command

PLAIN_FORMATTERS = (
    "org.apache.kafka.tools.consumer.DefaultMessageFormatter",
    "kafka.tools.DefaultMessageFormatter",
)
PLAIN_DESERIALIZERS = (
    "org.apache.kafka.common.serialization.StringDeserializer",
    "org.apache.kafka.common.serialization.ByteArrayDeserializer",
)
"""Deserializers that leave text unchanged."""

PASSED_ON = ("topic", "include", "group", "partition", "offset", "max_messages", "timeout_ms", "isolation_level")


def parser() -> ToolParser:
    parser = ToolParser("kafka-console-consumer", "Print the records of a topic.")
    parser.add_connection()
    parser.add_argument("--consumer.config", dest="command_config", metavar="FILE", help="same as --command-config")
    parser.add_argument("--topic", help="the topic")
    parser.add_argument("--include", "--whitelist", metavar="PATTERN", help="read all topics that match")
    parser.add_argument("--group", help="read as a member of this group")
    parser.add_argument("--from-beginning", action="store_true", help="start with the first record")
    parser.add_argument("--partition", help="read only this partition")
    parser.add_argument("--offset", help="start offset: a number, earliest or latest; needs --partition")
    parser.add_argument("--max-messages", help="stop after this many records")
    parser.add_argument("--timeout-ms", help="stop after this time without a record")
    parser.add_argument("--isolation-level", help="read_uncommitted or read_committed")
    parser.add_argument("--formatter", default=PLAIN_FORMATTERS[0], help=argparse.SUPPRESS)
    parser.add_argument("--formatter-config", metavar="FILE", help="a file with properties for --formatter-property")
    parser.add_argument("--key-deserializer", default=PLAIN_DESERIALIZERS[0], help=argparse.SUPPRESS)
    parser.add_argument("--value-deserializer", default=PLAIN_DESERIALIZERS[0], help=argparse.SUPPRESS)
    parser.add_argument("--skip-message-on-error", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--enable-systest-events", action="store_true", help=argparse.SUPPRESS)
    for flag in ("--property", "--formatter-property"):
        parser.add_argument(flag, dest="shown", action="append", default=[], metavar="NAME=VALUE", help="print.key …")
    for flag in ("--consumer-property", "--command-property"):
        parser.add_argument(flag, dest="settings", action="append", default=[], metavar="NAME=VALUE", help="a setting")
    return parser


def main(arguments: Sequence[str]) -> int:
    options_parser = parser()
    options = options_parser.parse(arguments)
    check(options_parser, options)
    from moldau.cli.consume import consume

    return run_command(consume, "kafka-console-consumer", translated(options)) and EXIT_ERROR


def check(parser: ToolParser, options: argparse.Namespace) -> None:
    if options.bootstrap_server is None:
        parser.error('Missing required argument "[bootstrap-server]"')
    if (options.topic is None) == (options.include is None):
        parser.error("Exactly one of --include/--topic is required. ")
    if options.formatter not in PLAIN_FORMATTERS:
        parser.error(f"--formatter {options.formatter}: Java classes are not supported here")
    for part in ("key", "value"):
        name = getattr(options, f"{part}_deserializer")
        if name not in PLAIN_DESERIALIZERS:
            parser.error(f"--{part}-deserializer {name}: Java classes are not supported here")
    if options.offset is not None and options.partition is None:
        parser.error("The partition is required when offset is specified.")


def translated(options: argparse.Namespace) -> list[str]:
    """The corresponding arguments of `moldau consume`."""
    found = ["--bootstrap-server", options.bootstrap_server, "--wait"]
    if options.command_config is not None:
        found += ["--command-config", options.command_config]
    for name in PASSED_ON:
        value = getattr(options, name)
        # In Kafka's tool, a negative number of messages or a negative timeout means "no limit".
        if value is not None and not (name in ("max_messages", "timeout_ms") and value.startswith("-")):
            found += [f"--{name.replace('_', '-')}", value]
    for pair in options.settings:
        found += ["--consumer-property", pair]
    for pair in [*properties_of(options.formatter_config), *options.shown]:
        found += ["--formatter-property", pair]
    return [*found, *(["--from-beginning"] if options.from_beginning else [])]
