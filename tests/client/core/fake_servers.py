"""Servers that do not behave like a Kafka broker, each in a thread on its own port."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from moldau.wire.api import APIS, ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.header import decode_request_header, encode_response_header
from moldau.wire.message import Response
from moldau.wire.messages.api_versions import ApiVersionsResponse, ApiVersionsResponseApiKey

TIMEOUT_S = 60.0

Behaviour = Callable[["FakeServer", socket.socket], None]


class FakeServer:
    """Listens on a port and runs the given behaviour for every connection."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.spoken_to = threading.Event()
        """Set when a connection has received bytes."""
        self.asked: list[tuple[int, int]] = []
        """API key and version of each request, for behaviours that read requests."""

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(TIMEOUT_S)
        for one in self._open:
            one.close()

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.settimeout(TIMEOUT_S)
                self._open.append(connection)
                self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError):
            self._behaviour(self, connection)
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


def web_server(fake_server: FakeServer, connection: socket.socket) -> None:
    connection.recv(1024)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def mail_server(fake_server: FakeServer, connection: socket.socket) -> None:
    connection.sendall(b"220 mail.example.org ESMTP\r\n")
    connection.recv(1024)


def tls_server(fake_server: FakeServer, connection: socket.socket) -> None:
    """A real TLS server: it closes the connection when it receives plain text."""
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).wrap_socket(connection, server_side=True)


def tls_server_with_alert(fake_server: FakeServer, connection: socket.socket) -> None:
    connection.recv(1024)
    connection.sendall(bytes.fromhex("15030300020246"))  # a fatal TLS alert: protocol_version


def silent_server(fake_server: FakeServer, connection: socket.socket) -> None:
    while connection.recv(1024):
        fake_server.spoken_to.set()


def server_that_hangs_up(fake_server: FakeServer, connection: socket.socket) -> None:
    connection.recv(1024)


def broker(
    versions: dict[ApiKey, tuple[int, int]],
    answers: dict[ApiKey, Callable[[int], Response]],
    more: Callable[[], bytes] = bytes,
) -> Behaviour:
    """A broker that supports these API versions and gives these answers to them. The bytes that `more` returns are
    sent together with each answer."""

    def behave(fake_server: FakeServer, connection: socket.socket) -> None:
        while True:
            (length,) = struct.unpack(">i", _exactly(connection, 4))
            header, _ = decode_request_header(_exactly(connection, length))
            fake_server.asked.append((header.api_key, header.api_version))
            fake_server.spoken_to.set()
            api = ApiKey(header.api_key)
            version = header.api_version
            low, high = versions[api]
            if api is ApiKey.API_VERSIONS:
                body = _introduction(versions, known=low <= version <= high)
                encoded = body.encode(version if low <= version <= high else 0)
            else:
                encoded = answers[api](version).encode(version)
            frame = encode_response_header(api, version, header.correlation_id) + encoded
            connection.sendall(struct.pack(">i", len(frame)) + frame + more())

    return behave


def everything(**changed: tuple[int, int]) -> dict[ApiKey, tuple[int, int]]:
    """All APIs in all versions of this project, except for those named."""
    known = {api.key: (api.min_version, api.max_version) for api in APIS.values()}
    return known | {ApiKey[name.upper()]: versions for name, versions in changed.items()}


def _introduction(versions: dict[ApiKey, tuple[int, int]], known: bool) -> ApiVersionsResponse:
    told = versions if known else {ApiKey.API_VERSIONS: versions[ApiKey.API_VERSIONS]}
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[
            ApiVersionsResponseApiKey(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in told.items()
        ],
    )


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data
