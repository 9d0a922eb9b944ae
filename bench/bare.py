"""The least that a Python process can do to move the same bytes: the yardstick for the broker's processor time.

`receive`: recv into one 64 KB buffer, write to a file. `send`: sendfile from a page-cached file to a socket. No
protocol, no checksum, no answer. Each runs in a process of its own, fed or drained by another one over loopback, and
reports its own processor time only; the machine and its noise are then in both numbers of a ratio.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

RECEIVE_BUFFER_BYTES = 64 * 1024
PEER_BUFFER_BYTES = 1024 * 1024
TIMEOUT_S = 120


def receive_seconds(size: int, directory: Path) -> float:
    """Processor seconds for `size` bytes from a socket into a file."""
    path = directory / "bare"
    try:
        return _with_peer("receive", path, size, peer="feed")
    finally:
        path.unlink(missing_ok=True)


def send_seconds(size: int, directory: Path) -> float:
    """Processor seconds for `size` bytes from a file that is in the page cache into a socket."""
    path = directory / "bare"
    block = bytes(PEER_BUFFER_BYTES)
    try:
        with path.open("wb") as file:
            for start in range(0, size, len(block)):
                file.write(block[: size - start])
        return _with_peer("send", path, size, peer="drain")
    finally:
        path.unlink(missing_ok=True)


def _with_peer(role: str, path: Path, size: int, peer: str) -> float:
    program = [sys.executable, "-m", "bench.bare"]
    measured = subprocess.Popen([*program, role, str(path), str(size)], stdout=subprocess.PIPE, text=True)
    assert measured.stdout is not None
    with measured:
        port = measured.stdout.readline().strip()
        subprocess.run([*program, peer, port, str(size)], check=True, timeout=TIMEOUT_S)
        return float(measured.stdout.readline())


def _accept() -> socket.socket:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        connection, _ = listener.accept()
        return connection


def _receive(path: str, size: int) -> None:
    buffer = bytearray(RECEIVE_BUFFER_BYTES)
    view = memoryview(buffer)
    file = os.open(path, os.O_CREAT | os.O_WRONLY)
    with _accept() as connection:
        began = time.process_time()
        while count := connection.recv_into(buffer):
            os.write(file, view[:count])
            size -= count
        print(time.process_time() - began)
    assert size == 0, "not all bytes came"


def _send(path: str, size: int) -> None:
    file = os.open(path, os.O_RDONLY)
    with _accept() as connection:
        began = time.process_time()
        sent = 0
        while sent < size:
            sent += os.sendfile(connection.fileno(), file, sent, size - sent)
        print(time.process_time() - began)


def _feed(port: str, size: int) -> None:
    block = bytes(PEER_BUFFER_BYTES)
    with socket.create_connection(("127.0.0.1", int(port))) as connection:
        for start in range(0, size, len(block)):
            connection.sendall(block[: size - start])


def _drain(port: str, size: int) -> None:
    buffer = bytearray(PEER_BUFFER_BYTES)
    with socket.create_connection(("127.0.0.1", int(port))) as connection:
        while count := connection.recv_into(buffer):
            size -= count
    assert size == 0, "not all bytes came"


if __name__ == "__main__":
    {"receive": _receive, "send": _send, "feed": _feed, "drain": _drain}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
