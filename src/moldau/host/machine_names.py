"""Names of this machine in the network."""

from __future__ import annotations

import socket


def host_name() -> str:
    """The name of this machine."""
    return socket.gethostname()


def full_host_name() -> str:
    """The name of this machine with its domain, if it has one. It may ask a name server."""
    return socket.getfqdn()
