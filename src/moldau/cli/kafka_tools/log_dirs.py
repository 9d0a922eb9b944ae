"""Tool kafka-log-dirs: prints the data directories of brokers and the partitions in them, as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from moldau.cli.kafka_tools.tool import EXIT_ERROR, EXIT_OK, ToolParser, client, java_name
from moldau.client.admin import LogDir
from moldau.client.errors import MoldauError


def parser() -> ToolParser:
    parser = ToolParser("kafka-log-dirs", "Describe the data directories of brokers.")
    parser.add_connection()
    parser.add_argument("--describe", action="store_true", help="describe the directories")
    parser.add_argument("--topic-list", default="", metavar="TOPIC,...", help="only these topics")
    parser.add_argument("--broker-list", default="", metavar="ID,...", help="only these brokers")
    return parser


def main(arguments: Sequence[str]) -> int:
    options_parser = parser()
    options = options_parser.parse(arguments)
    if options.bootstrap_server is None or not options.describe:
        missing = "describe" if options.bootstrap_server else "bootstrap-server"
        options_parser.error(f'Missing required argument "[{missing}]"')
    topics = {name for name in options.topic_list.split(",") if name}
    wanted = {int(node) for node in options.broker_list.split(",") if node}
    try:
        with client(options) as admin:
            nodes = {node.id for node in admin.describe_cluster().brokers}
            if wanted - nodes:
                print(
                    f"ERROR: The given brokers do not exist from --broker-list: {commas(wanted - nodes)}. "
                    f"Current existent brokers: {commas(nodes)}",
                    file=sys.stderr,
                )
                return EXIT_ERROR
            print("Querying brokers for log directories information")
            found = admin.describe_log_dirs(sorted(wanted or nodes))
            print(f"Received log directory information from brokers {commas(wanted or nodes)}")
            print(json.dumps(as_json(found, topics), separators=(",", ":")))
    except MoldauError as error:
        print(error, file=sys.stderr)
        return EXIT_ERROR
    return EXIT_OK


def commas(nodes: set[int]) -> str:
    return ",".join(map(str, sorted(nodes)))


def as_json(found: Mapping[int, Sequence[LogDir]], topics: set[str]) -> dict[str, Any]:
    return {
        "brokers": [
            {
                "broker": node,
                "logDirs": [
                    {
                        "partitions": [
                            {
                                "partition": str(partition),
                                "size": replica.size,
                                "offsetLag": replica.offset_lag,
                                "isFuture": replica.is_future,
                            }
                            for partition, replica in sorted(one.replicas.items())
                            if not topics or partition.topic in topics
                        ],
                        "error": None if one.error is None else java_name(one.error),
                        "logDir": one.path,
                    }
                    for one in dirs
                ],
            }
            for node, dirs in sorted(found.items())
        ],
        "version": 1,
    }
