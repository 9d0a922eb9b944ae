"""Tool kafka-cluster: shows the cluster's id and the addresses of its brokers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.cli.kafka_tools.tool import EXIT_ERROR, EXIT_OK, ToolParser, client, java_text
from moldau.client.admin import ClusterDescription
from moldau.client.errors import MoldauError, UnsupportedByBroker

if TYPE_CHECKING:
    from moldau.client.blocking.admin import Admin

COMMANDS = {
    "cluster-id": "show the id of the cluster",
    "unregister": "remove the registration of a broker",
    "list-endpoints": "show the addresses of the brokers",
}


def parser() -> ToolParser:
    parser = ToolParser("kafka-cluster", "Show the cluster.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, about in COMMANDS.items():
        one = commands.add_parser(name, help=about)
        one.add_argument("-b", "--bootstrap-server", metavar="HOST:PORT")
        one.add_argument("-c", "--config", "--command-config", dest="command_config", metavar="FILE")
        if name == "unregister":
            one.add_argument("-i", "--id", type=int, required=True)
        if name == "list-endpoints":
            one.add_argument("--include-fenced-brokers", action="store_true")
    return parser


def main(arguments: Sequence[str]) -> int:
    options_parser = parser()
    options = options_parser.parse(arguments)
    if options.command is None:
        options_parser.error(f"{options_parser.prog}: error: too few arguments")
    if options.bootstrap_server is None:
        options_parser.error(f"{options_parser.prog}: error: argument --bootstrap-server/-b is required")
    try:
        with client(options) as admin:
            if options.command == "cluster-id":
                found = admin.describe_cluster().cluster_id
                print(
                    "No cluster ID found. The Kafka version is probably too old."
                    if not found
                    else f"Cluster ID: {found}"
                )
            elif options.command == "unregister":
                return unregister(admin, options.id)
            else:
                print_endpoints(admin.describe_cluster(include_fenced=options.include_fenced_brokers))
    except MoldauError as error:
        print(error, file=sys.stderr)
        return EXIT_ERROR
    return EXIT_OK


def unregister(admin: Admin, broker: int) -> int:
    try:
        admin.unregister_broker(broker)
    except UnsupportedByBroker:
        print("The target cluster does not support the broker unregistration API.")
    except MoldauError as error:
        print(f"java.util.concurrent.ExecutionException: {java_text(error)}", file=sys.stderr)
        return EXIT_ERROR
    else:
        print(f"Broker {broker} is no longer registered.")
    return EXIT_OK


def print_endpoints(cluster: ClusterDescription) -> None:
    rack_width = max([10, *(len(node.rack or "null") for node in cluster.brokers)])
    host_width = max(len(node.host) for node in cluster.brokers) if cluster.brokers else 4
    lines = [("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE")]
    for node in cluster.brokers:
        state = "fenced" if node.id in cluster.fenced else "unfenced"
        lines.append((str(node.id), node.host, str(node.port), node.rack or "null", state, "broker"))
    for line in lines:
        widths = (10, host_width, 10, rack_width, 10, 15)
        print(" ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))
