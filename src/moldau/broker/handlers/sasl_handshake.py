"""SaslHandshake (17): names the SASL mechanism of a login.

Versions 0-1. After version 0 the client sends SASL tokens as frames without headers, after version 1 in
SaslAuthenticate requests.

* A mechanism that is not enabled: UNSUPPORTED_SASL_MECHANISM with the enabled ones, and the connection is closed.
* On a session that has logged in, it begins a repeated login (KIP-368) if the login ends at some time and is at least a
  second old. Otherwise, and on a listener without SASL: ILLEGAL_SASL_STATE.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.broker.connection.login_session import Answer, LoginSession
from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import DeferredAnswer, Reply, handles
from moldau.security.sasl_server import SaslFailure
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


@handles(ApiKey.SASL_HANDSHAKE)
def sasl_handshake(request: Request, message: SaslHandshakeRequest) -> SaslHandshakeResponse | UnsupportedMechanism:
    session = request.session
    if not isinstance(session, LoginSession):
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
    error, mechanisms = session.handshake(message.mechanism, request.version)
    if error is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        return UnsupportedMechanism(session, mechanisms, request.version)
    return SaslHandshakeResponse(error_code=error, mechanisms=list(mechanisms))


class UnsupportedMechanism(DeferredAnswer):
    """The answer that names the mechanisms. It is sent after the pause of a failed login, and closes the connection."""

    __slots__ = ("_mechanisms", "_session", "_version")

    def __init__(self, session: LoginSession, mechanisms: Sequence[str], version: int) -> None:
        self._session = session
        self._mechanisms = mechanisms
        self._version = version

    def start(self, reply: Reply) -> None:
        def answer(_: object) -> None:
            response = SaslHandshakeResponse(
                error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=list(self._mechanisms)
            )
            reply([response.encode(self._version)])

        told: Answer = answer
        self._session.fail(SaslFailure("the mechanism is not enabled"), told)
