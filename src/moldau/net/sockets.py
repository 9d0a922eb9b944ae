"""Creation of sockets, by the operating system or by a simulated event loop.

A simulated event loop has no real sockets. It creates objects that accept the few calls that prepare a socket, and
recognises them in `sock_connect`, `create_connection` and `create_server`. Everything else is asyncio's.
"""

from __future__ import annotations

import asyncio
import socket


def make_socket(loop: asyncio.AbstractEventLoop, family: int, kind: int, protocol: int) -> socket.socket:
    """A new socket for this event loop."""
    own = getattr(loop, "make_socket", None)
    made: socket.socket = socket.socket(family, kind, protocol) if own is None else own(family, kind, protocol)
    return made
