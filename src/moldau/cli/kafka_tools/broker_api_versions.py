"""Tool kafka-broker-api-versions: shows the APIs of brokers, and the versions that a client would use."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from moldau.cli.kafka_tools.tool import EXIT_ERROR, EXIT_OK, ToolParser, client
from moldau.client.admin import VersionRange
from moldau.client.errors import MoldauError
from moldau.wire.api import APIS

BETWEEN_BROKERS = {
    80: "AddRaftVoter",
    81: "RemoveRaftVoter",
    83: "InitializeShareGroupState",
    84: "ReadShareGroupState",
    85: "WriteShareGroupState",
    86: "DeleteShareGroupState",
    87: "ReadShareGroupStateSummary",
}
"""APIs that Kafka's tool names and that Moldau has no messages of."""


def parser() -> ToolParser:
    parser = ToolParser("kafka-broker-api-versions", "Show the APIs of brokers and their versions.")
    parser.add_connection()
    return parser


def main(arguments: Sequence[str]) -> int:
    options_parser = parser()
    options = options_parser.parse(arguments)
    if options.bootstrap_server is None:
        options_parser.error('Missing required argument "[bootstrap-server]"')
    try:
        with client(options) as admin:
            for node in admin.describe_cluster().brokers:
                print(f"{node.host}:{node.port} (id: {node.id} rack: {node.rack or 'null'} isFenced: false) -> (")
                print(",\n".join(f"\t{line}" for line in lines(admin.api_versions(node.id))))
                print(")")
    except MoldauError as error:
        print(error, file=sys.stderr)
        return EXIT_ERROR
    return EXIT_OK


def lines(versions: Mapping[int, VersionRange]) -> list[str]:
    names = BETWEEN_BROKERS | {int(key): api.name for key, api in APIS.items()}
    shown = []
    for key in sorted({*names, *versions}):
        name = f"{names.get(key, 'UNKNOWN')}({key})"
        if key not in versions:
            shown.append(f"{name}: UNSUPPORTED")
            continue
        low, high = versions[key]
        span = str(low) if low == high else f"{low} to {high}"
        api = next((api for known, api in APIS.items() if int(known) == key), None)
        if api is None:
            shown.append(f"{name}: {span} [usable: {high}]" if key in BETWEEN_BROKERS else f"{name}: {span}")
        elif low > api.max_version or high < api.min_version:
            shown.append(f"{name}: {span} [unusable: node too {'new' if low > api.max_version else 'old'}]")
        else:
            shown.append(f"{name}: {span} [usable: {min(high, api.max_version)}]")
    return shown
