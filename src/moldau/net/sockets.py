"""Where sockets come from: the operating system, or a loop that has a network of its own.

A simulated loop runs on no sockets. It makes objects that take the few calls with which a socket is prepared, and knows
them again in `sock_connect`, `create_connection` and `create_server`; everything else about a connection is asyncio's.
"""

from __future__ import annotations

import asyncio
import socket


def make_socket(loop: asyncio.AbstractEventLoop, family: int, kind: int, protocol: int) -> socket.socket:
    """A new socket for this loop."""
    own = getattr(loop, "make_socket", None)
    made: socket.socket = socket.socket(family, kind, protocol) if own is None else own(family, kind, protocol)
    return made
