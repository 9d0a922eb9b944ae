"""OAUTHBEARER (RFC 7628), the server's side: a bearer token as login.

A client whose token is refused gets the reason as a status in JSON, answers with one byte, and fails then. Kafka's
clients expect that order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from moldau.security.resources import Principal
from moldau.security.sasl_server import Identity, SaslFailure, SaslStep

MAX_TOKEN: Final = 64 * 1024
"""The longest token in characters. Tokens of identity providers have a few thousand."""

_SEPARATOR: Final = "\x01"
_FIRST = re.compile(
    r"n,(?:a=(?P<authzid>(?:[^,=\0\x01]|=2C|=3D)+))?,\x01(?P<pairs>(?:[A-Za-z]+=[^\0\x01]*\x01)*)\x01", re.DOTALL
)
_BEARER = re.compile(r"[Bb]earer +([-_.~+/A-Za-z0-9]+=*)")


class InvalidToken(Exception):
    """A token that is refused. The text is for the log; the client gets only `status`."""

    def __init__(self, reason: str, status: str = "invalid_token") -> None:
        super().__init__(reason)
        self.status = status


class AcceptedToken(NamedTuple):
    """What a valid token says."""

    principal_name: str
    expires_ms: int


ValidateToken = Callable[[str], AcceptedToken]
"""Checks a token, or raises InvalidToken. May read keys from a file or a server: it runs in a thread."""


class OauthbearerExchange:
    """One login: the client's token, and perhaps the client's answer to a refusal."""

    __slots__ = ("_expected", "_refusal", "_validate")

    def __init__(self, validate: ValidateToken) -> None:
        self._validate = validate
        self._expected = 1
        self._refusal: InvalidToken | None = None

    def is_costly(self, token: bytes) -> bool:
        return self._expected == 1

    def respond(self, token: bytes) -> SaslStep:
        step, self._expected = self._expected, 0
        if step == 1:
            return self._first(token)
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            raise SaslFailure(_status(refusal).decode(), str(refusal))
        raise SaslFailure("Authentication failed: unexpected token after the end of the exchange")

    def _first(self, token: bytes) -> SaslStep:
        authorized_as, bearer = _parsed(token)
        try:
            accepted = self._validate(bearer)
        except InvalidToken as refusal:
            self._refusal = refusal
            self._expected = 2
            return SaslStep(_status(refusal))
        if authorized_as and authorized_as != accepted.principal_name:
            raise SaslFailure(
                "Authentication failed: Client requested an authorization id that is different from the token's "
                "principal name"
            )
        return SaslStep(b"", Identity(Principal("User", accepted.principal_name), accepted.expires_ms))


def _parsed(token: bytes) -> tuple[str, str]:
    """The authorization id and the bearer token of a first message."""
    try:
        first = _FIRST.fullmatch(token.decode()) if len(token) <= 2 * MAX_TOKEN else None
    except UnicodeDecodeError:
        first = None
    if first is None:
        raise SaslFailure("Authentication failed: Invalid OAUTHBEARER client first message")
    pairs = [pair.partition("=") for pair in first["pairs"].split(_SEPARATOR) if pair]
    values = [value for name, _, value in pairs if name.lower() == "auth"]
    if len(values) != 1:
        raise SaslFailure("Authentication failed: Invalid OAUTHBEARER client first message: 'auth' not specified once")
    bearer = _BEARER.fullmatch(values[0])
    if bearer is None or len(bearer[1]) > MAX_TOKEN:
        raise SaslFailure("Authentication failed: Invalid OAUTHBEARER client first message: not a bearer token")
    return (first["authzid"] or "").replace("=2C", ",").replace("=3D", "="), bearer[1]


def _status(refusal: InvalidToken) -> bytes:
    return json.dumps({"status": refusal.status}).encode()
