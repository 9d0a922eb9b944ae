"""TCP ports of this machine: whether a port is free, and which process listens on it.

The process is found through /proc: only on Linux, and only if it belongs to the same user or this process is root.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import re
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

PROC: Final = Path("/proc")
MAX_COMMAND_CHARACTERS: Final = 160

# The columns of /proc/net/tcp: local address, state and inode of the socket.
_LOCAL, _STATE, _INODE = 1, 3, 9
_LISTENS: Final = "0A"


class ListeningProcess(NamedTuple):
    """A process that listens on a port."""

    pid: int
    command: str

    def __str__(self) -> str:
        return f"process {self.pid} ({self.command}) listens there; end it with: kill {self.pid}"


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen there now. OSError if it cannot for a reason other than another listener."""
    try:
        socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise OSError(error.errno, os.strerror(error.errno or 0), f"{host}:{port}") from None
        return False
    return True


def who_listens(host: str, port: int) -> str:
    """The process that uses the port and how to end it, for an error message."""
    found = find_listener(host, port)
    return "another program listens there" if found is None else str(found)


def find_listener(host: str, port: int) -> ListeningProcess | None:
    """The process that prevents others from listening on host:port; None if it is not visible."""
    with contextlib.suppress(OSError):  # no /proc, or a host name without an address
        wanted = {ipaddress.ip_address(one[4][0]) for one in socket.getaddrinfo(host or "0.0.0.0", port)}
        inodes = {f"socket:[{inode}]" for address, inode in _listening(port) if _overlap(address, wanted)}
        pid = _first_with(inodes) if inodes else None
        return None if pid is None else ListeningProcess(pid, _command_of(pid))
    return None


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _listening(port: int) -> Iterator[tuple[_Address, str]]:
    """The address and inode of every socket that listens on this port."""
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(FileNotFoundError):  # a machine without IPv6
            for line in (PROC / "net" / table).read_text().splitlines()[1:]:
                columns = line.split()
                address, _, number = columns[_LOCAL].partition(":")
                if columns[_STATE] == _LISTENS and int(number, 16) == port:
                    yield _address(address), columns[_INODE]


def _address(text: str) -> _Address:
    """Parse an address of the kernel: 32-bit words, each in the machine's byte order (little-endian)."""
    words = [bytes.fromhex(text[start : start + 8])[::-1] for start in range(0, len(text), 8)]
    address = ipaddress.ip_address(b"".join(words))
    return (address.ipv4_mapped or address) if isinstance(address, ipaddress.IPv6Address) else address


def _overlap(address: _Address, wanted: set[_Address]) -> bool:
    return address.is_unspecified or address in wanted or any(one.is_unspecified for one in wanted)


def _first_with(inodes: set[str]) -> int | None:
    """The process with the lowest id that has one of these sockets open."""
    for pid in sorted(int(one.name) for one in PROC.iterdir() if re.fullmatch(r"[0-9]+", one.name)):
        with contextlib.suppress(OSError):  # the process of another user, or one that has just ended
            for file in (PROC / str(pid) / "fd").iterdir():
                with contextlib.suppress(OSError):  # the file has just been closed
                    if str(file.readlink()) in inodes:
                        return pid
    return None


def _command_of(pid: int) -> str:
    parts = (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    command = shlex.join(part for part in parts if part)
    return command if len(command) <= MAX_COMMAND_CHARACTERS else f"{command[:MAX_COMMAND_CHARACTERS]}…"
