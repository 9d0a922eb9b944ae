"""Delegation tokens: who may create, renew and end one, until when it is valid, and its secret."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from moldau.cluster.changes import DelegationTokenChanged
from moldau.cluster.errors import Refusal
from moldau.cluster.token_decisions import (
    DelegationTokenRules,
    NewToken,
    TokenExpiry,
    created,
    expired_steps,
    expiring,
    renewed,
)
from moldau.security.credentials import DelegationToken, ScramMechanism
from moldau.security.delegation_tokens import token_credential, token_hmac, token_of, token_password
from moldau.security.resources import Principal
from moldau.security.scram_keys import new_credential
from moldau.wire.errors import ErrorCode
from tests.unit.cluster.support import code_of

ALICE, BOB, EVE = (Principal("User", name) for name in ("alice", "bob", "eve"))
RULES = DelegationTokenRules("the key", max_lifetime_ms=1000, expiry_time_ms=100)
NO_KEY = DelegationTokenRules(None, 1000, 100)
NOW = 1_000_000


def a_token(**changes: object) -> DelegationToken:
    token = DelegationToken("id", ALICE, ALICE, (BOB,), NOW, NOW + 100, NOW + 1000)
    return token._replace(**changes)  # type: ignore[arg-type]


def named(requester: Principal = ALICE, period_ms: int = -1, secret: bytes | None = None) -> TokenExpiry:
    return TokenExpiry(token_hmac("the key", "id") if secret is None else secret, requester, period_ms)


@pytest.mark.parametrize(
    ("wanted_ms", "expires_ms", "max_ms"), [(-1, 100, 1000), (0, 100, 1000), (50, 50, 50), (2**62, 100, 1000)]
)
def test_a_token_lives_as_long_as_asked_for_within_the_limits(wanted_ms: int, expires_ms: int, max_ms: int) -> None:
    token = created("id", NewToken(ALICE, EVE, (BOB,), wanted_ms), RULES, NOW)
    assert token == DelegationToken("id", ALICE, EVE, (BOB,), NOW, NOW + expires_ms, NOW + max_ms)


def test_a_renewer_must_be_a_user() -> None:
    wanted = NewToken(ALICE, ALICE, (BOB, Principal("Group", "g")), -1)
    assert code_of(created("id", wanted, RULES, NOW)) == ErrorCode.INVALID_PRINCIPAL_TYPE


def test_without_a_key_there_are_no_tokens() -> None:
    tokens = {"id": a_token()}
    for answer in (
        created("id", NewToken(ALICE, ALICE, (), -1), NO_KEY, NOW),
        renewed(tokens, named(), NO_KEY, NOW),
        expiring(tokens, named(), NO_KEY, NOW),
    ):
        assert code_of(answer) == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


@pytest.mark.parametrize(("period_ms", "later_ms"), [(-1, 100), (0, 100), (30, 30), (500, 100)])
def test_owner_and_renewers_renew(period_ms: int, later_ms: int) -> None:
    for who in (ALICE, BOB):
        token = renewed({"id": a_token()}, named(who, period_ms), RULES, NOW + 50)
        assert token == a_token(expires_ms=NOW + 50 + later_ms)


def test_no_token_is_renewed_past_its_longest_life() -> None:
    old = a_token(expires_ms=NOW + 990)
    assert renewed({"id": old}, named(), RULES, NOW + 980) == old._replace(expires_ms=old.max_ms)


def test_an_expired_token_is_not_renewed() -> None:
    assert code_of(renewed({"id": a_token()}, named(), RULES, NOW + 101)) == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert code_of(expiring({"id": a_token()}, named(period_ms=5), RULES, NOW + 101)) == (
        ErrorCode.DELEGATION_TOKEN_EXPIRED
    )


def test_others_can_neither_renew_nor_end_a_token_even_if_they_know_its_secret() -> None:
    for answer in (
        renewed({"id": a_token()}, named(EVE), RULES, NOW),
        expiring({"id": a_token()}, named(EVE), RULES, NOW),
        expiring({"id": a_token()}, named(EVE, 5), RULES, NOW),
    ):
        assert code_of(answer) == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


@pytest.mark.parametrize("secret", [b"", b"id", bytes(64), token_hmac("another key", "id"), token_hmac("the key", "x")])
def test_a_token_is_found_by_its_secret_only(secret: bytes) -> None:
    tokens = {"id": a_token()}
    assert token_of("the key", tokens.values(), secret) is None
    assert code_of(renewed(tokens, named(secret=secret), RULES, NOW)) == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert code_of(expiring(tokens, named(secret=secret), RULES, NOW)) == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_a_token_ends_at_once_or_later() -> None:
    tokens = {"id": a_token()}
    assert expiring(tokens, named(BOB), RULES, NOW + 500) == (a_token(expires_ms=NOW + 500), True)
    assert expiring(tokens, named(period_ms=0), RULES, NOW + 5) == (a_token(expires_ms=NOW + 5), False)
    assert expiring(tokens, named(period_ms=10**6), RULES, NOW) == (a_token(expires_ms=NOW + 1000), False)


def test_only_expired_tokens_are_removed() -> None:
    tokens = {"old": a_token(token_id="old", expires_ms=NOW - 1), "new": a_token(token_id="new", expires_ms=NOW)}
    assert [step.change for step in expired_steps(tokens, NOW)] == [DelegationTokenChanged("old", None)]


def test_the_secret_is_kafkas() -> None:
    """HMAC-SHA-512 of the id under the key, and its base64 as the password of a login by SCRAM."""
    expected = hmac.new(b"the key", b"id", hashlib.sha512).digest()
    assert token_hmac("the key", "id") == expected
    assert token_password("the key", "id") == base64.b64encode(expected).decode()
    for mechanism in ScramMechanism:
        credential = token_credential(mechanism, "the key", "id")
        password = base64.b64encode(expected).decode()
        assert credential == new_credential(mechanism, password, 4096, credential.salt)


def test_secrets_are_in_no_repr() -> None:
    assert "the key" not in repr(RULES)
    assert "hmac" not in repr(named())
    assert not isinstance(renewed({"id": a_token()}, named(), RULES, NOW), Refusal)
