"""SaslAuthenticate (36): one token of a login.

Versions 0-2; from version 1 on, the response to the last token says how long the login lasts (KIP-368).

* A login that fails: SASL_AUTHENTICATION_FAILED with a message that is the same for an unknown user and for a wrong
  password, after `connection.failed.authentication.delay.ms`. Then the connection is closed.
* Without a login under way: ILLEGAL_SASL_STATE.
"""

from __future__ import annotations

from moldau.broker.connection.login_session import LoginAnswer, LoginSession
from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import DeferredAnswer, Reply, handles
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

NO_LOGIN = "SaslAuthenticate request received after successful authentication"


@handles(ApiKey.SASL_AUTHENTICATE)
def sasl_authenticate(request: Request, message: SaslAuthenticateRequest) -> LoginStep | SaslAuthenticateResponse:
    session = request.session
    if not isinstance(session, LoginSession):
        return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=NO_LOGIN, auth_bytes=b"")
    return LoginStep(session, bytes(message.auth_bytes), request.version)


class LoginStep(DeferredAnswer):
    """The answer to a token. A costly one is checked in a thread, and a failure is answered after a pause."""

    __slots__ = ("_session", "_token", "_version")

    def __init__(self, session: LoginSession, token: bytes, version: int) -> None:
        self._session = session
        self._token = token
        self._version = version

    def start(self, reply: Reply) -> None:
        def answer(result: LoginAnswer) -> None:
            response = SaslAuthenticateResponse(
                error_code=result.error,
                error_message=result.message,
                auth_bytes=result.token,
                session_lifetime_ms=result.lifetime_ms,
            )
            reply([response.encode(self._version)])

        if not self._session.authenticate(self._token, answer):
            answer(LoginAnswer(ErrorCode.ILLEGAL_SASL_STATE, NO_LOGIN, b"", 0))
