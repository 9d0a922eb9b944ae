"""What `moldau up` says when it is ready: where it listens, where the data is, what to try."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.broker.broker import Broker


def print_banner(broker: Broker) -> None:
    endpoint = broker.listeners[0].endpoint()
    address = f"{endpoint.host}:{endpoint.port}"
    directories = ", ".join(directory.path for directory in broker.log_dirs.all)
    print(f"Moldau is ready on {address}   data: {directories}")
    print(f"  write   echo hello | kcat -P -b {address} -t greetings")
    print(f"  read    kcat -C -b {address} -t greetings -e")
    print("  stop    Ctrl-C", flush=True)


ANNOUNCEMENT = "moldau-broker-ready "


def print_address(broker: Broker) -> None:
    """For a program that started the broker and wants to know when it serves, and where."""
    endpoint = broker.listeners[0].endpoint()
    print(f"{ANNOUNCEMENT}{endpoint.host}:{endpoint.port}", flush=True)
