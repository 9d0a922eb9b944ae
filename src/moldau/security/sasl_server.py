"""SASL, the server's side: what all mechanisms share, and PLAIN.

A mechanism is a state machine without I/O: `respond` takes a token of the client and returns the next step. It raises
SaslFailure with the text for the client. The text is the same for an unknown user and for a wrong password, and never
has a secret. After success or failure an exchange takes no further token.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from moldau.security.jaas import LoginModule
from moldau.security.resources import Principal

INVALID_CREDENTIALS: Final = "Authentication failed: Invalid username or password"

USER_PREFIX: Final = "user_"
"""Options of the login module of PLAIN that are users: `user_alice="PASSWORD"`."""


class SaslFailure(Exception):
    """A login that is refused. The text is for the client; `reason` is for the log, and has no secret either."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


class Identity(NamedTuple):
    """Who has logged in, until when, and whether with a delegation token."""

    principal: Principal
    expires_ms: int | None = None
    """The end of the token that was used; None if the login has no end of its own."""
    by_token: bool = False


class SaslStep(NamedTuple):
    """The answer to a token of the client. With `identity`, the login is complete."""

    answer: bytes
    identity: Identity | None = None


class SaslExchange(Protocol):
    """One login with one mechanism."""

    def respond(self, token: bytes) -> SaslStep:
        """The next step, or SaslFailure."""

    def is_costly(self, token: bytes) -> bool:
        """Whether the next step takes longer than an event loop may be blocked: then `respond` runs in a thread."""


class PlainUsers:
    """The users of PLAIN. Passwords are kept as digests, so that a comparison takes the same time for all of them."""

    __slots__ = ("_digests",)

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._digests = {name: _digest(password) for name, password in passwords.items()}

    @classmethod
    def from_login_module(cls, module: LoginModule) -> PlainUsers:
        return cls(
            {
                name.removeprefix(USER_PREFIX): password
                for name, password in module.options.items()
                if name.startswith(USER_PREFIX)
            }
        )

    def __len__(self) -> int:
        return len(self._digests)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlainUsers) and self._digests == other._digests

    __hash__ = None  # type: ignore[assignment]

    def accept(self, name: str, password: str) -> bool:
        # An unknown name is compared, too: the time must not tell that there is no such user.
        expected = self._digests.get(name, _NOBODY)
        return hmac.compare_digest(_digest(password), expected) and name in self._digests


class PlainExchange:
    """PLAIN (RFC 4616): one token with the name and the password."""

    __slots__ = ("_done", "_users")

    def __init__(self, users: PlainUsers) -> None:
        self._users = users
        self._done = False

    def is_costly(self, token: bytes) -> bool:
        return False

    def respond(self, token: bytes) -> SaslStep:
        if self._done:
            raise SaslFailure("Authentication failed: unexpected token after the end of the exchange")
        self._done = True
        authorized_as, name, password = _plain_fields(token)
        if not name:
            raise SaslFailure("Authentication failed: username not specified")
        if not password:
            raise SaslFailure("Authentication failed: password not specified")
        if not self._users.accept(name, password):
            raise SaslFailure(INVALID_CREDENTIALS, "wrong user or password")
        if authorized_as and authorized_as != name:
            raise SaslFailure(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        return SaslStep(b"", Identity(Principal("User", name)))


def _plain_fields(token: bytes) -> tuple[str, str, str]:
    fields = token.split(b"\0")
    if len(fields) != 3:
        raise SaslFailure("Authentication failed: Invalid SASL/PLAIN response: expected 3 tokens")
    try:
        authorized_as, name, password = (field.decode() for field in fields)
    except UnicodeDecodeError:
        raise SaslFailure("Authentication failed: Invalid SASL/PLAIN response: not UTF-8") from None
    return authorized_as, name, password


def _digest(password: str) -> bytes:
    return hashlib.sha256(password.encode(errors="surrogatepass")).digest()


_NOBODY = bytes(32)
