"""Connection options shared by all commands that talk to a cluster, and the admin client built from them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.cli.output import Output, complain, fail, one_line_errors

if TYPE_CHECKING:
    from moldau.client.blocking.admin import Admin
    from moldau.client.settings.client import Address

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

CONFIG_VARIABLE = "MOLDAU_COMMAND_CONFIG"
"""The environment variable that names a file with client settings, for all commands."""

INTERNAL_PREFIX = "__"

TIMEOUT_MS = {"default.api.timeout.ms": 15_000, "request.timeout.ms": 15_000}
"""Timeouts of a command's client, unless --command-config sets others: a person waits for the command."""

SILENCE_S = 10.0
"""The time that a command waits before it prints why."""

BootstrapOption = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "--bootstrap-servers",
        "-b",
        envvar="MOLDAU_BOOTSTRAP_SERVERS",
        metavar="HOST:PORT,...",
        help="Addresses of brokers to connect to first; one is enough.",
    ),
]
CommandConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        envvar=CONFIG_VARIABLE,
        metavar="FILE",
        help="A file with client settings, one NAME=VALUE per line: TLS, login, bootstrap.servers if -b is missing.",
    ),
]
WaitOption = Annotated[
    bool,
    typer.Option(
        "--wait",
        help="If no broker listens at --bootstrap-server, keep trying until the client's timeouts.",
    ),
]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="The output format.")]


def client_settings(bootstrap: str, command_config: Path | None, kind: str = "admin") -> dict[str, Any]:
    """The settings of a client of this kind: from the file, plus the address from the command line.

    One file works for all tools, as with Kafka's: settings of other kinds of clients are ignored. The client refuses
    settings that no kind of client has. The address in the file counts if the command line has none.
    """
    from moldau.client.settings import ADMIN, CONSUMER, PRODUCER
    from moldau.settings.sources import read_properties

    tables = {"admin": ADMIN, "consumer": CONSUMER, "producer": PRODUCER}
    own = tables[kind]
    texts: Mapping[str, str] = {} if command_config is None else read_properties(command_config.read_text())
    others = [table for name, table in tables.items() if name != kind]
    settings: dict[str, Any] = {
        name: text for name, text in texts.items() if name in own or not any(name in table for table in others)
    }
    if bootstrap != DEFAULT_BOOTSTRAP or "bootstrap.servers" not in settings:
        settings["bootstrap.servers"] = bootstrap
    if kind == "admin" and not settings.keys() & TIMEOUT_MS.keys():
        settings |= TIMEOUT_MS
    return settings


@contextlib.contextmanager
def connected(bootstrap: str, command_config: Path | None = None, *, wait: bool = False) -> Iterator[Admin]:
    """An admin client for the duration of a command. An error inside ends the command with a one-line message."""
    with one_line_errors():
        from moldau.client.blocking.admin import Admin

        settings = client_settings(bootstrap, command_config)
        with Admin(settings) as admin:
            require_listener(settings["bootstrap.servers"], wait=wait)
            yield admin


def require_listener(bootstrap: str, *, wait: bool) -> None:
    """End the command at once if every bootstrap address refuses the connection; with `wait`, only print a message.

    The client would retry until its timeouts, because a broker may come back. A user who typed a wrong port should not
    have to wait for that. A broker that is slow, or behind a firewall that drops packets, does not refuse the
    connection, so the client handles it.
    """
    from moldau.cli.reachability import all_refuse

    found = bootstrap_addresses(bootstrap)
    if not found or not all_refuse(found):
        return
    trouble = f"nothing listens at {', '.join(map(str, found))} (connection refused)"
    if wait:
        complain(f"{trouble}; still trying")
    else:
        fail(f"{trouble}; start a broker with moldau up, give another address with -b, or keep trying with --wait")


def bootstrap_addresses(bootstrap: str) -> Sequence[Address]:
    from moldau.client.settings.client import addresses

    plain = "PLAINTEXT"  # only the address counts here
    return addresses([text.strip().rpartition("://")[2] for text in bootstrap.split(",") if text.strip()], plain)


def is_internal(topic: str) -> bool:
    """Whether a topic is internal to Kafka or to our Spark sink. Brokers flag only Kafka's."""
    return topic.startswith(INTERNAL_PREFIX)


@contextlib.contextmanager
def hint_while_waiting() -> Iterator[None]:
    """Print a message, once, if the first request to a cluster takes long."""
    word = threading.Timer(
        SILENCE_S,
        complain,
        [f"no answer for {SILENCE_S:g} s, still trying; is a broker running at the address of --bootstrap-server?"],
    )
    word.daemon = True
    word.start()
    try:
        yield
    finally:
        word.cancel()
