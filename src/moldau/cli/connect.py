"""What commands that talk to a cluster share: the options that say where it is, and the admin client made of them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.cli.output import Output, complain, one_line_errors

if TYPE_CHECKING:
    from moldau.client.blocking.admin import Admin

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

TIMEOUT_MS = {"default.api.timeout.ms": 15_000, "request.timeout.ms": 15_000}
"""How long a command tries, unless --command-config says otherwise: whoever typed it is waiting."""

SILENCE_S = 10.0
"""For so long a command waits without a word."""

BootstrapOption = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "--bootstrap-servers",
        "-b",
        envvar="MOLDAU_BOOTSTRAP_SERVERS",
        metavar="HOST:PORT,...",
        help="Brokers to ask first; one is enough.",
    ),
]
CommandConfigOption = Annotated[
    Path | None,
    typer.Option("--command-config", metavar="FILE", help="A file with settings of the client, one NAME=VALUE a line."),
]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="How to print what was found.")]


def client_settings(bootstrap: str, command_config: Path | None, kind: str = "admin") -> dict[str, Any]:
    """The settings of a client of this kind: of the file, and the address from the command line.

    One file serves all tools, as with Kafka's: what belongs to another kind of client is passed over. What belongs to
    none is an error of the client.
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
    settings["bootstrap.servers"] = bootstrap
    if kind == "admin" and not settings.keys() & TIMEOUT_MS.keys():
        settings |= TIMEOUT_MS
    return settings


@contextlib.contextmanager
def connected(bootstrap: str, command_config: Path | None = None) -> Iterator[Admin]:
    """An admin client for the length of a command; what goes wrong inside ends the command with one line."""
    with one_line_errors():
        from moldau.client.blocking.admin import Admin

        with Admin(client_settings(bootstrap, command_config)) as admin:
            yield admin


@contextlib.contextmanager
def told_to_wait() -> Iterator[None]:
    """For the first question to a cluster: whoever waits for the answer as well is told why, once, after a while."""
    word = threading.Timer(
        SILENCE_S,
        complain,
        [f"no answer for {SILENCE_S:g} s, trying on; is a broker running at what --bootstrap-server names?"],
    )
    word.daemon = True
    word.start()
    try:
        yield
    finally:
        word.cancel()
