"""Bare TLS loops: the smallest uvloop servers that move the same bytes, as a baseline for the broker's CPU time.

`receive`: decrypted bytes go from one shared buffer into a file. `send`: page-cached files go to the transport in
pieces of 1 MB, with its flow control. No protocol, no checksum, no response. As in `bare.py`, each runs in its own
process on its own core, and reports only its own CPU time.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import uvloop

from bench.bare import PEER_BUFFER_BYTES, SEND_BYTES, TIMEOUT_S, stay_on_core

RECEIVE_BUFFER_BYTES = 256 * 1024


def receive_seconds(size: int, directory: Path, pem: Path) -> float:
    """CPU seconds for `size` bytes from TLS into a file."""
    path = directory / "bare"
    try:
        return _with_peer("receive", pem, [str(path)], size, peer="feed")
    finally:
        path.unlink(missing_ok=True)


def send_seconds(files: Sequence[Path], pem: Path) -> float:
    """CPU seconds for page-cached files into TLS. Pass the same segments that the broker served."""
    size = sum(file.stat().st_size for file in files)
    return _with_peer("send", pem, [str(file) for file in files], size, peer="drain")


def _with_peer(role: str, pem: Path, arguments: Sequence[str], size: int, peer: str) -> float:
    program = [sys.executable, "-m", "bench.bare_tls"]
    measured = subprocess.Popen([*program, role, str(pem), *arguments], stdout=subprocess.PIPE, text=True)
    assert measured.stdout is not None
    with measured:
        port = measured.stdout.readline().strip()
        subprocess.run([*program, peer, port, str(size)], check=True, timeout=TIMEOUT_S)
        return float(measured.stdout.readline())


class _Measured:
    """One connection: CPU time is counted from its handshake to its end."""

    def __init__(self) -> None:
        self.done = asyncio.get_running_loop().create_future()
        self.began = 0.0

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(time.process_time() - self.began)


class _Receive(_Measured, asyncio.BufferedProtocol):
    def __init__(self, path: str) -> None:
        super().__init__()
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY)
        self._view = memoryview(bytearray(RECEIVE_BUFFER_BYTES))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.began = time.process_time()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        os.write(self._file, self._view[:nbytes])


class _Send(_Measured, asyncio.Protocol):
    def __init__(self, *paths: str) -> None:
        super().__init__()
        self._pieces = (
            os.pread(file, SEND_BYTES, at)
            for path in paths
            for file in [os.open(path, os.O_RDONLY)]
            for at in range(0, os.path.getsize(path), SEND_BYTES)
        )
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports are no subclass
        self.began = time.process_time()
        self._write()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._write()

    def _write(self) -> None:
        while not self._paused:
            piece = next(self._pieces, None)
            if piece is None:
                self._transport.close()
                return
            self._transport.write(piece)


async def _serve(role: str, pem: str, *paths: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    protocol = _Receive(*paths) if role == "receive" else _Send(*paths)
    server = await asyncio.get_running_loop().create_server(lambda: protocol, "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    print(await protocol.done)


def _peer(role: str, port: str, size: str) -> None:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    left = int(size)
    with context.wrap_socket(socket.create_connection(("127.0.0.1", int(port)))) as connection:
        if role == "feed":
            block = bytes(PEER_BUFFER_BYTES)
            while left:
                connection.sendall(block[:left])
                left -= min(left, len(block))
            connection.unwrap()
        else:
            buffer = bytearray(PEER_BUFFER_BYTES)
            while count := connection.recv_into(buffer):
                left -= count
            assert left == 0, "not all bytes arrived"


if __name__ == "__main__":
    _role = sys.argv[1]
    if _role in ("receive", "send"):
        stay_on_core(0)
        uvloop.run(_serve(*sys.argv[1:]))
    else:
        stay_on_core(1)
        _peer(*sys.argv[1:])
