"""Tool kafka-transactions: lists and describes transactions, finds hanging ones, and ends them."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from moldau.cli.kafka_tools.tool import EXIT_ERROR, EXIT_OK, ToolError, ToolParser, client, java_message
from moldau.cli.transactions import DEFAULT_MAX_TIMEOUT_MIN, producer_at
from moldau.client.admin import AbortSpec
from moldau.client.data_types import TopicPartition
from moldau.client.errors import MoldauError, TransactionalIdNotFound

if TYPE_CHECKING:
    from moldau.client.blocking.admin import Admin

MORE_THAN_ANY_MIN = 5
DEBUG = "Enable debug logging for additional detail."


def parser() -> ToolParser:
    parser = ToolParser("kafka-transactions.sh", "List, describe and end transactions.")
    parser.add_connection()
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    one = commands.add_parser("list", help="list transactional ids and their states")
    one.add_argument(
        "--duration-filter", type=int, help=("only transactions open for longer than this, in milliseconds")
    )
    one.add_argument("--transactional-id-pattern", help="only ids that match this regular expression")
    one = commands.add_parser("describe", help="show the state of a transactional id")
    one.add_argument("--transactional-id", required=True)
    one = commands.add_parser("describe-producers", help="show the producers of a partition")
    one.add_argument("--topic", required=True)
    one.add_argument("--partition", type=int, required=True)
    one.add_argument("--broker-id", type=int)
    one = commands.add_parser("abort", help="abort a hanging transaction of a partition")
    one.add_argument("--topic", required=True)
    one.add_argument("--partition", type=int, required=True)
    one.add_argument("--start-offset", type=int)
    one.add_argument("--producer-id", type=int)
    one.add_argument("--producer-epoch", type=int)
    one.add_argument("--coordinator-epoch", type=int)
    one = commands.add_parser("find-hanging", help="find transactions that no coordinator will end")
    one.add_argument("--broker-id", type=int)
    one.add_argument("--max-transaction-timeout", type=int, default=DEFAULT_MAX_TIMEOUT_MIN, help="minutes")
    one.add_argument("--topic")
    one.add_argument("--partition", type=int)
    one = commands.add_parser("forceTerminateTransaction", help="abort the open transaction of a transactional id")
    one.add_argument("--transactionalId", dest="transactional_id", required=True)
    return parser


def main(arguments: Sequence[str]) -> int:
    options_parser = parser()
    options = options_parser.parse(arguments)
    if options.bootstrap_server is None:
        options_parser.error(f"{options_parser.prog}: error: argument --bootstrap-server is required")
    if options.command is None:
        options_parser.error(f"{options_parser.prog}: error: too few arguments")
    try:
        with client(options) as admin:
            COMMANDS[options.command](admin, options)
    except (ToolError, MoldauError) as error:
        print(error, file=sys.stderr)
        return EXIT_ERROR
    return EXIT_OK


def print_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print columns as wide as their widest cell, each followed by a tab."""
    lines = [list(headers), *([str(value) for value in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headers))]
    for line in lines:
        print("".join(f"{cell.ljust(width)}\t" for cell, width in zip(line, widths, strict=True)))


def list_(admin: Admin, options: argparse.Namespace) -> None:
    longer = options.duration_filter
    found = admin.list_transactions(
        longer_than_ms=longer if longer is not None and longer >= 0 else None,
        id_pattern=options.transactional_id_pattern,
    )
    print_table(
        ("TransactionalId", "Coordinator", "ProducerId", "TransactionState"),
        [(one.id, one.coordinator, one.producer_id, one.state) for one in found],
    )


def describe(admin: Admin, options: argparse.Namespace) -> None:
    name = options.transactional_id
    try:
        one = admin.describe_transactions(name)[name]
    except TransactionalIdNotFound:
        raise ToolError(
            f"Failed to describe transaction state of transactional-id `{name}`: DescribeTransactions request for "
            f"transactionalId `{name}` failed because the ID could not be found. {DEBUG}"
        ) from None
    start: object = "None" if one.start_time_ms is None else one.start_time_ms
    duration: object = "None" if one.start_time_ms is None else int(time.time() * 1000) - one.start_time_ms
    print_table(
        (
            *("CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState"),
            *("TransactionTimeoutMs", "CurrentTransactionStartTimeMs", "TransactionDurationMs", "TopicPartitions"),
        ),
        [
            (
                *(one.coordinator, name, one.producer_id, one.producer_epoch, one.state),
                *(one.timeout_ms, start, duration, ",".join(map(str, one.partitions))),
            )
        ],
    )


def describe_producers(admin: Admin, options: argparse.Namespace) -> None:
    where = TopicPartition(options.topic, options.partition)
    try:
        producers = admin.describe_producers(where, broker=options.broker_id)[where]
    except MoldauError as error:
        place = "leader" if options.broker_id is None else f"broker {options.broker_id}"
        raise ToolError(
            f"Failed to describe producers for partition {where} on {place}: {java_message(error)}. {DEBUG}"
        ) from None
    print_table(
        (
            *("ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp"),
            "CurrentTransactionStartOffset",
        ),
        [
            (
                *(one.producer_id, one.producer_epoch, number(one.coordinator_epoch), one.last_sequence),
                *(one.last_timestamp, "None" if one.transaction_start_offset is None else one.transaction_start_offset),
            )
            for one in producers
        ],
    )


def number(value: int | None) -> int:
    return -1 if value is None else value


def find_hanging(admin: Admin, options: argparse.Namespace) -> None:
    if options.topic is None and options.broker_id is None:
        raise ToolError(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"
        )
    if options.partition is not None and options.topic is None:
        raise ToolError("The --partition argument requires --topic to be provided")
    names = [options.topic] if options.topic else [one.name for one in admin.list_topics(include_internal=True)]
    partitions = [
        TopicPartition(name, one.index)
        for name, topic in admin.describe_topics(names).items()
        for one in topic.partitions
        if (options.partition is None or one.index == options.partition)
        and (options.broker_id is None or options.broker_id in one.replicas)
    ]
    found = admin.find_hanging_transactions(
        partitions,
        longer_than_ms=(options.max_transaction_timeout + MORE_THAN_ANY_MIN) * 60_000,
        broker=options.broker_id,
    )
    now_ms = time.time() * 1000
    print_table(
        (
            *("Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset"),
            *("LastTimestamp", "Duration(min)"),
        ),
        [
            (
                *(one.partition.topic, one.partition.partition, one.producer.producer_id, one.producer.producer_epoch),
                *(number(one.producer.coordinator_epoch), one.producer.transaction_start_offset),
                *(one.producer.last_timestamp, int((now_ms - one.producer.last_timestamp) / 60_000)),
            )
            for one in found
        ],
    )


def abort(admin: Admin, options: argparse.Namespace) -> None:
    where = TopicPartition(options.topic, options.partition)
    if options.start_offset is not None:
        found = producer_at(admin.describe_producers(where)[where], options.start_offset)
        if found is None:
            raise ToolError(
                f"Could not find any open transactions starting at offset {options.start_offset} on partition {where}"
            )
        # A transaction that hangs because its coordinator never wrote a marker has no coordinator epoch.
        spec = AbortSpec(where, found.producer_id, found.producer_epoch, max(0, number(found.coordinator_epoch)))
    else:
        for name in ("producer_id", "producer_epoch", "coordinator_epoch"):
            if getattr(options, name) is None:
                raise ToolError(
                    "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or "
                    "above) or with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
                )
        spec = AbortSpec(where, options.producer_id, options.producer_epoch, options.coordinator_epoch)
    admin.abort_transaction(spec)


def terminate(admin: Admin, options: argparse.Namespace) -> None:
    admin.terminate_transaction(options.transactional_id)


COMMANDS = {
    "list": list_,
    "describe": describe,
    "describe-producers": describe_producers,
    "find-hanging": find_hanging,
    "abort": abort,
    "forceTerminateTransaction": terminate,
}
