"""Tool kafka-console-producer: `moldau produce` with Kafka's options."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from moldau.cli.kafka_tools.tool import EXIT_ERROR, ToolParser, properties_of, run_command

SETTINGS = {
    "batch_size": "batch.size",
    "max_memory_bytes": "buffer.memory",
    "max_block_ms": "max.block.ms",
    "message_send_max_retries": "retries",
    "metadata_expiry_ms": "metadata.max.age.ms",
    "request_required_acks": "acks",
    "request_timeout_ms": "request.timeout.ms",
    "retry_backoff_ms": "retry.backoff.ms",
    "socket_buffer_size": "send.buffer.bytes",
    "timeout": "linger.ms",
}
"""Options that set one producer setting."""

PLAIN_READER = "org.apache.kafka.tools.LineMessageReader"


def parser() -> ToolParser:
    parser = ToolParser("kafka-console-producer", "Write the lines of standard input to a topic.")
    parser.add_connection()
    parser.add_argument("--producer.config", dest="command_config", metavar="FILE", help="same as --command-config")
    parser.add_argument("--topic", help="the topic")
    parser.add_argument("--sync", action="store_true", help="wait until each line is written")
    parser.add_argument("--compression-codec", nargs="?", const="gzip", help="none, gzip, snappy, lz4 or zstd")
    for flag, setting in SETTINGS.items():
        parser.add_argument(f"--{flag.replace('_', '-')}", help=f"{setting} of the producer")
    parser.add_argument("--max-partition-memory-bytes", help="same as --batch-size")
    parser.add_argument("--line-reader", default=PLAIN_READER, help=argparse.SUPPRESS)
    parser.add_argument("--reader-config", metavar="FILE", help="a file with properties for --reader-property")
    for flag in ("--property", "--reader-property"):
        parser.add_argument(flag, dest="reader", action="append", default=[], metavar="NAME=VALUE", help="parse.key …")
    for flag in ("--producer-property", "--command-property"):
        parser.add_argument(flag, dest="settings", action="append", default=[], metavar="NAME=VALUE", help="a setting")
    return parser


def main(arguments: Sequence[str]) -> int:
    options_parser = parser()
    options = options_parser.parse(arguments)
    if options.line_reader not in (PLAIN_READER, "kafka.tools.ConsoleProducer$LineMessageReader"):
        options_parser.error(f"--line-reader {options.line_reader}: Java classes are not supported here")
    for name in ("bootstrap_server", "topic"):
        if getattr(options, name) is None:
            options_parser.error(f'Missing required argument "[{name.replace("_", "-")}]"')
    from moldau.cli.produce import produce

    return run_command(produce, "kafka-console-producer", translated(options)) and EXIT_ERROR


def translated(options: argparse.Namespace) -> list[str]:
    """The corresponding arguments of `moldau produce`."""
    found = ["--topic", options.topic, "--bootstrap-server", options.bootstrap_server, "--wait"]
    if options.command_config is not None:
        found += ["--command-config", options.command_config]
    settings = {name: getattr(options, flag) for flag, name in SETTINGS.items()}
    settings["compression.type"] = options.compression_codec
    settings["batch.size"] = options.batch_size or options.max_partition_memory_bytes
    for name, value in settings.items():
        if value is not None:
            found += ["--producer-property", f"{name}={value}"]
    for pair in options.settings:
        found += ["--producer-property", pair]
    for pair in [*properties_of(options.reader_config), *options.reader]:
        found += ["--reader-property", pair]
    return [*found, *(["--sync"] if options.sync else [])]
