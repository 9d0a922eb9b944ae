"""Blocking connection for raw requests: our codec, one message at a time, also requests that no client sends."""

from __future__ import annotations

import socket
import ssl
import struct
from types import TracebackType
from typing import Any, Self

from moldau.security.client_login import PasswordLogin
from moldau.wire.api import APIS, ApiKey
from moldau.wire.header import encode_request_header
from moldau.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from moldau.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

TIMEOUT_S = 20.0


class ConnectionClosedError(Exception):
    """The broker closed the connection instead of answering."""


class RawConnection:
    def __init__(
        self,
        bootstrap: str,
        client_id: str = "raw",
        timeout_s: float = TIMEOUT_S,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=host)
        self.client_id = client_id
        self._correlation_id = 0

    def log_in(self, user: str, password: str, mechanism: str = "PLAIN") -> Self:
        """Log in by SASL."""
        request = SaslHandshakeRequest(mechanism=mechanism)
        handshake = self.call(ApiKey.SASL_HANDSHAKE, 1, request, SaslHandshakeResponse)
        assert handshake.error_code == 0, handshake
        exchange = PasswordLogin(mechanism, user, password).exchange()
        token: bytes | None = exchange.first()
        while token is not None:
            answer = self.call(
                ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse
            )
            assert answer.error_code == 0, answer.error_message
            token = exchange.respond(bytes(answer.auth_bytes))
        return self

    def send(self, api: ApiKey, version: int, body: bytes) -> int:
        """Send a request and return its correlation id."""
        self._correlation_id += 1
        header = encode_request_header(api, version, self._correlation_id, self.client_id)
        self.send_frame(header + body)
        return self._correlation_id

    def send_frame(self, frame: bytes) -> None:
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def receive(self, api: ApiKey, version: int, response: Any, correlation_id: int | None = None) -> Any:
        frame = self.receive_frame()
        (found,) = struct.unpack_from(">i", frame)
        assert found == (self._correlation_id if correlation_id is None else correlation_id)
        flexible_from = APIS[api].flexible_from
        flexible = flexible_from is not None and version >= flexible_from and api != ApiKey.API_VERSIONS
        return response.decode(frame, version, 5 if flexible else 4)

    def call(self, api: ApiKey, version: int, request: Any, response: Any) -> Any:
        self.send(api, version, request.encode(version))
        return self.receive(api, version, response)

    def closed_by_peer(self) -> bool:
        """Whether the broker closes the connection without sending another byte."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                more = self.socket.recv(size - len(data))
            except ConnectionError:
                more = b""
            if not more:
                raise ConnectionClosedError
            data += more
        return bytes(data)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
