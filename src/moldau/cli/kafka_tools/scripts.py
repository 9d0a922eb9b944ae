"""The scripts themselves: which tools there are, the few lines in each file, and the way from a name to its module."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

TOOLS = {
    "kafka-topics": "topics",
    "kafka-console-producer": "console_producer",
    "kafka-console-consumer": "console_consumer",
    "kafka-configs": "configs",
    "kafka-consumer-groups": "consumer_groups",
    "kafka-get-offsets": "get_offsets",
    "kafka-delete-records": "delete_records",
    "kafka-log-dirs": "log_dirs",
    "kafka-transactions": "transactions",
    "kafka-reassign-partitions": "reassign_partitions",
    "kafka-leader-election": "leader_election",
    "kafka-cluster": "cluster",
    "kafka-broker-api-versions": "broker_api_versions",
}
"""Each tool and its module in this package."""

MODE = 0o755


def script(tool: str) -> str:
    command = f"{shlex.quote(sys.executable)} -m moldau.cli.kafka_tools {tool}"
    return f'#!/bin/sh\n# Written by `moldau kafka-tools`: {tool}, as Kafka has it, by Moldau.\nexec {command} "$@"\n'


def write_scripts(directory: Path) -> list[Path]:
    """A file for each tool, with and without `.sh` behind its name; those that are there are written anew."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for tool in TOOLS:
        for name in (tool, f"{tool}.sh"):
            file = directory / name
            file.write_text(script(tool))
            file.chmod(MODE)
            written.append(file)
    return written


def run(arguments: Sequence[str]) -> int:
    """Run the tool that the first argument names; the exit code."""
    name = arguments[0].removesuffix(".sh") if arguments else ""
    if name not in TOOLS:
        print(f"moldau: no tool is called {name!r}; there are {', '.join(TOOLS)}", file=sys.stderr)
        return 1
    module = import_module(f"moldau.cli.kafka_tools.{TOOLS[name]}")
    try:
        code: int = module.main(arguments[1:])
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:  # a file that cannot be read, a number that is none
        print(error, file=sys.stderr)
        return 1
    return code
