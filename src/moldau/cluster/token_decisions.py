"""Delegation tokens: who may create, renew and end one, and until when it is valid. Pure.

A secret key is needed for everything here; without one, every request is refused with DELEGATION_TOKEN_AUTH_DISABLED.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from moldau.cluster.changes import DelegationTokenChanged
from moldau.cluster.errors import Refusal
from moldau.cluster.image_publisher import Step
from moldau.security.credentials import DelegationToken
from moldau.security.delegation_tokens import has_expired, may_renew, token_of
from moldau.security.resources import Principal
from moldau.wire.errors import ErrorCode

RENEWER_TYPE = "User"


class DelegationTokenRules(NamedTuple):
    """The broker settings of delegation tokens: `delegation.token.…`."""

    secret_key: str | None
    max_lifetime_ms: int
    expiry_time_ms: int

    def __repr__(self) -> str:
        return f"DelegationTokenRules(max_lifetime_ms={self.max_lifetime_ms}, expiry_time_ms={self.expiry_time_ms})"


class NewToken(NamedTuple):
    """A request for a token. A `max_lifetime_ms` of 0 or less: as long as the settings allow."""

    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    max_lifetime_ms: int


class TokenExpiry(NamedTuple):
    """A request for another end of a token, which is named by its secret."""

    hmac: bytes
    requester: Principal
    period_ms: int

    def __repr__(self) -> str:
        return f"TokenExpiry(requester={self.requester}, period_ms={self.period_ms})"


DISABLED = Refusal(
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, "There are no delegation tokens: delegation.token.secret.key is not set."
)


def created(token_id: str, wanted: NewToken, rules: DelegationTokenRules, now_ms: int) -> DelegationToken | Refusal:
    """The new token, or why there is none."""
    if rules.secret_key is None:
        return DISABLED
    if any(renewer.type != RENEWER_TYPE for renewer in wanted.renewers):
        return Refusal(ErrorCode.INVALID_PRINCIPAL_TYPE, f"A renewer must be a principal of type {RENEWER_TYPE}.")
    lifetime_ms = rules.max_lifetime_ms
    if wanted.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, wanted.max_lifetime_ms)
    max_ms = now_ms + lifetime_ms
    expires_ms = min(max_ms, now_ms + rules.expiry_time_ms)
    return DelegationToken(token_id, wanted.owner, wanted.requester, wanted.renewers, now_ms, expires_ms, max_ms)


def renewed(
    tokens: Mapping[str, DelegationToken], wanted: TokenExpiry, rules: DelegationTokenRules, now_ms: int
) -> DelegationToken | Refusal:
    """The token with a later end. A period of 0 or less is the one in the settings, which is also the longest."""
    token = _found(tokens, wanted, rules)
    if isinstance(token, Refusal):
        return token
    if has_expired(token, now_ms):
        return Refusal(ErrorCode.DELEGATION_TOKEN_EXPIRED, "The token has expired.")
    if not may_renew(token, wanted.requester):
        return _not_theirs(wanted)
    period_ms = rules.expiry_time_ms
    if wanted.period_ms > 0:
        period_ms = min(period_ms, wanted.period_ms)
    return token._replace(expires_ms=min(token.max_ms, now_ms + period_ms))


def expiring(
    tokens: Mapping[str, DelegationToken], wanted: TokenExpiry, rules: DelegationTokenRules, now_ms: int
) -> tuple[DelegationToken, bool] | Refusal:
    """The token with another end, and whether it ends now. A negative period ends it at once."""
    token = _found(tokens, wanted, rules)
    if isinstance(token, Refusal):
        return token
    if not may_renew(token, wanted.requester):
        return _not_theirs(wanted)
    if wanted.period_ms < 0:
        return token._replace(expires_ms=now_ms), True
    if has_expired(token, now_ms):
        return Refusal(ErrorCode.DELEGATION_TOKEN_EXPIRED, "The token has expired.")
    return token._replace(expires_ms=min(token.max_ms, now_ms + wanted.period_ms)), False


def expired_steps(tokens: Mapping[str, DelegationToken], now_ms: int) -> list[Step]:
    """The removal of all tokens whose end has passed."""
    return [
        Step(DelegationTokenChanged(token_id, None)) for token_id, token in tokens.items() if has_expired(token, now_ms)
    ]


def _found(
    tokens: Mapping[str, DelegationToken], wanted: TokenExpiry, rules: DelegationTokenRules
) -> DelegationToken | Refusal:
    if rules.secret_key is None:
        return DISABLED
    token = token_of(rules.secret_key, tokens.values(), wanted.hmac)
    if token is None:
        return Refusal(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, "There is no such token.")
    return token


def _not_theirs(wanted: TokenExpiry) -> Refusal:
    return Refusal(
        ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, f"{wanted.requester} is neither owner nor renewer of the token."
    )
