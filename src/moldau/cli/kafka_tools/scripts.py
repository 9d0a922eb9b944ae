"""Scripts of the tools: the list of tools, the content of a script, and the start of a tool by its name."""

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
    "kafka-acls": "acls",
    "kafka-delegation-tokens": "delegation_tokens",
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
"""The module of each tool in this package."""

MODE = 0o755


def script(tool: str) -> str:
    command = f"{shlex.quote(sys.executable)} -m moldau.cli.kafka_tools {tool}"
    about = f"Written by `moldau kafka-tools`: {tool} with Kafka's options, implemented by Moldau."
    return f'#!/bin/sh\n# {about}\nexec {command} "$@"\n'


def write_scripts(directory: Path) -> list[Path]:
    """Write two files per tool, with and without the suffix `.sh`. Existing files are overwritten."""
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
    """Run the tool that the first argument names, and return the exit code."""
    name = arguments[0].removesuffix(".sh") if arguments else ""
    if name not in TOOLS:
        print(f"moldau: there is no tool {name!r}; the tools are {', '.join(TOOLS)}", file=sys.stderr)
        return 1
    module = import_module(f"moldau.cli.kafka_tools.{TOOLS[name]}")
    try:
        code: int = module.main(arguments[1:])
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:  # an unreadable file or an invalid number
        print(error, file=sys.stderr)
        return 1
    return code
