"""Bare loops: the minimal Python code that moves the same bytes, as a baseline for the broker's CPU time.

`receive`: recv into one 64 KB buffer, write to a file. `send`: sendfile from page-cached files to a socket. No
protocol, no checksum, no response. Each runs in its own process, with another process as peer over loopback, and
reports only its own CPU time. So the machine and its noise are in both numbers of a ratio.

The two processes run on one core each, as broker and client do under load. On a single core the kernel lets the reader
do most of the writer's work, and a bare send would seem to cost half as much, depending on chance.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

RECEIVE_BUFFER_BYTES = 64 * 1024
SEND_BYTES = 1024 * 1024  # size of a usual fetch response: max.partition.fetch.bytes of most clients
PEER_BUFFER_BYTES = 1024 * 1024
TIMEOUT_S = 120


def receive_seconds(size: int, directory: Path) -> float:
    """CPU seconds for `size` bytes from a socket into a file."""
    path = directory / "bare"
    try:
        return _with_peer("receive", [str(path)], size, peer="feed")
    finally:
        path.unlink(missing_ok=True)


def send_seconds(files: Sequence[Path]) -> float:
    """CPU seconds for page-cached files into a socket. Pass the same segments that the broker served."""
    size = sum(file.stat().st_size for file in files)
    return _with_peer("send", [str(file) for file in files], size, peer="drain")


def _with_peer(role: str, arguments: Sequence[str], size: int, peer: str) -> float:
    program = [sys.executable, "-m", "bench.bare"]
    measured = subprocess.Popen([*program, role, *arguments], stdout=subprocess.PIPE, text=True)
    assert measured.stdout is not None
    with measured:
        port = measured.stdout.readline().strip()
        subprocess.run([*program, peer, port, str(size)], check=True, timeout=TIMEOUT_S)
        return float(measured.stdout.readline())


def stay_on_core(number: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[number % len(cores)]})


def _accept() -> socket.socket:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        connection, _ = listener.accept()
        return connection


def _receive(path: str) -> None:
    buffer = bytearray(RECEIVE_BUFFER_BYTES)
    view = memoryview(buffer)
    file = os.open(path, os.O_CREAT | os.O_WRONLY)
    with _accept() as connection:
        began = time.process_time()
        while count := connection.recv_into(buffer):
            os.write(file, view[:count])
        print(time.process_time() - began)


def _send(*paths: str) -> None:
    files = [(os.open(path, os.O_RDONLY), os.path.getsize(path)) for path in paths]
    with _accept() as connection:
        socket_number = connection.fileno()
        began = time.process_time()
        for file, size in files:
            sent = 0
            while sent < size:
                sent += os.sendfile(socket_number, file, sent, min(SEND_BYTES, size - sent))
        print(time.process_time() - began)


def _feed(port: str, size: str) -> None:
    left = int(size)
    block = bytes(PEER_BUFFER_BYTES)
    with socket.create_connection(("127.0.0.1", int(port))) as connection:
        while left:
            connection.sendall(block[:left])
            left -= min(left, len(block))


def _drain(port: str, size: str) -> None:
    left = int(size)
    buffer = bytearray(PEER_BUFFER_BYTES)
    with socket.create_connection(("127.0.0.1", int(port))) as connection:
        while count := connection.recv_into(buffer):
            left -= count
    assert left == 0, "not all bytes arrived"


if __name__ == "__main__":
    stay_on_core(0 if sys.argv[1] in ("receive", "send") else 1)
    {"receive": _receive, "send": _send, "feed": _feed, "drain": _drain}[sys.argv[1]](*sys.argv[2:])
