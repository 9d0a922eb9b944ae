"""Start-up messages of `moldau up`: the address, the data directory, and commands to try."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.cli.connection_options import DEFAULT_BOOTSTRAP

if TYPE_CHECKING:
    from moldau.broker.broker import Broker


def print_banner(broker: Broker) -> None:
    address = _address(broker)
    directories = ", ".join(directory.path for directory in broker.log_dirs.all)
    print(f"Moldau is ready on {address}   data: {directories}")
    for line in things_to_try(address):
        print(line)
    print("  stop    Ctrl-C", flush=True)


def things_to_try(addresses: str) -> list[str]:
    """Commands that a new user can try with brokers at these addresses."""
    bootstrap = "" if addresses.split(",", 1)[0] == DEFAULT_BOOTSTRAP else f" -b {addresses}"
    return [
        f"  write   echo hello | moldau produce greetings{bootstrap}",
        f"  read    moldau consume greetings --from-beginning{bootstrap}",
        f"  or use  any Kafka client: bootstrap.servers={addresses}",
    ]


ANNOUNCEMENT = "moldau-broker-ready "


def print_address(broker: Broker) -> None:
    """Print the address, for a program that started the broker and waits until it is ready."""
    print(f"{ANNOUNCEMENT}{_address(broker)}", flush=True)


def _address(broker: Broker) -> str:
    endpoint = broker.listeners[0].endpoint()
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{host}:{endpoint.port}"
