"""Bearer tokens of a client: their lifetime, the time of their renewal, and unsecured tokens for tests.

A client does not verify its own tokens; it only reads when they end. Brokers verify them.
"""

from __future__ import annotations

import binascii
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple

MAX_TOKEN_BYTES = 512 * 1024
"""The size limit of a token. A broker accepts SASL messages up to 512 KB."""


class BearerToken(NamedTuple):
    """A token and its lifetime, in seconds since 1970."""

    text: str
    issued_s: float
    expires_s: float | None
    """None if the token does not say it."""

    def __repr__(self) -> str:
        return f"BearerToken(expires_s={self.expires_s}, text not shown)"


class TokenRefresh(NamedTuple):
    """When a token is replaced, with the names of Kafka's settings `sasl.login.refresh.*`."""

    window_factor: float = 0.8
    window_jitter: float = 0.05
    min_period_s: float = 60
    buffer_s: float = 300

    def due_s(self, token: BearerToken, random: float) -> float | None:
        """Return the time at which the token is replaced, in seconds since 1970; None if it does not end.

        The jitter spreads the requests of many clients. The time between the renewal and the end is at least
        `buffer_s`, and the time before the renewal at least `min_period_s`, unless the token's life is too short for
        both.
        """
        if token.expires_s is None:
            return None
        lifetime = token.expires_s - token.issued_s
        due = token.issued_s + lifetime * (self.window_factor + random * self.window_jitter)
        if self.buffer_s + self.min_period_s < lifetime:
            due = min(due, token.expires_s - self.buffer_s)
            due = max(due, token.issued_s + self.min_period_s)
        return due


class TokenError(Exception):
    """A token cannot be obtained or is not a token. The message has no part of it."""


def bearer_token(text: str, now_s: float) -> BearerToken:
    """Return the token with its lifetime; `now_s` if it does not say when it was issued. Raises TokenError."""
    text = text.strip()
    if not text or not text.isascii() or not text.isprintable() or any(map(str.isspace, text)):
        raise TokenError("the token is empty, or has characters that a token cannot have")
    if len(text) > MAX_TOKEN_BYTES:
        raise TokenError(f"the token has {len(text)} bytes; the limit is {MAX_TOKEN_BYTES}")
    claims = _claims(text)
    return BearerToken(text, _time(claims, "iat") or now_s, _time(claims, "exp"))


def unsecured_token(claims: Mapping[str, Any]) -> str:
    """Return a token without a signature, which a broker accepts only if it is configured for tests."""
    return f"{_encoded({'alg': 'none'})}.{_encoded(claims)}."


def _encoded(value: Mapping[str, Any]) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def _claims(text: str) -> Mapping[str, Any]:
    """The claims of a JSON Web Token; empty for another kind of token, whose lifetime is then unknown."""
    parts = text.split(".")
    if len(parts) != 3:
        return {}
    try:
        claims = json.loads(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error):
        return {}
    return claims if isinstance(claims, dict) else {}


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    return None
