"""Start-up messages of `moldau up`: the address, the data directory, and commands to try."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.cli.connection_options import DEFAULT_BOOTSTRAP

if TYPE_CHECKING:
    from moldau.broker.broker import Broker


def print_banner(broker: Broker, client_config: Path | None = None) -> None:
    address = broker_address(broker)
    directories = ", ".join(directory.path for directory in broker.log_dirs.all)
    print(f"Moldau is ready on {address}   data: {directories}")
    for line in things_to_try(address, client_config):
        print(line)
    print("  stop    Ctrl-C", flush=True)


def things_to_try(addresses: str, client_config: Path | None = None) -> list[str]:
    """Commands that a new user can try with brokers at these addresses; with `client_config` they need a login."""
    options = "" if addresses.split(",", 1)[0] == DEFAULT_BOOTSTRAP else f" -b {addresses}"
    also = ""
    if client_config is not None:
        options += f" --command-config {shlex.quote(str(client_config))}"
        also = f" and the settings in {client_config}"
    return [
        f"  write   echo hello | moldau produce greetings{options}",
        f"  read    moldau consume greetings --from-beginning{options}",
        f"  or use  any Kafka client: bootstrap.servers={addresses}{also}",
    ]


ANNOUNCEMENT = "moldau-broker-ready "


def print_address(broker: Broker) -> None:
    """Print the address, for a program that started the broker and waits until it is ready."""
    print(f"{ANNOUNCEMENT}{broker_address(broker)}", flush=True)


def broker_address(broker: Broker) -> str:
    endpoint = broker.listeners[0].endpoint()
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{host}:{endpoint.port}"
