"""OAUTHBEARER on the server's side: the exchange around a token."""

from __future__ import annotations

import pytest

from moldau.security.oauthbearer_server import MAX_TOKEN, AcceptedToken, InvalidToken, OauthbearerExchange
from moldau.security.resources import Principal
from moldau.security.sasl_server import SaslFailure


def validate(token: str) -> AcceptedToken:
    if token != "good.token":
        raise InvalidToken("the token has expired")
    return AcceptedToken("alice", 1234)


def test_a_valid_token_logs_in_until_its_end() -> None:
    for first in (
        b"n,,\x01auth=Bearer good.token\x01\x01",
        b"n,a=alice,\x01auth=Bearer good.token\x01\x01",
        b"n,,\x01auth=bearer good.token\x01\x01",
        b"n,,\x01host=a\x01port=1\x01auth=Bearer good.token\x01\x01",
    ):
        exchange = OauthbearerExchange(validate)
        assert exchange.is_costly(first)
        step = exchange.respond(first)
        assert step.identity is not None
        assert (step.answer, step.identity.principal, step.identity.expires_ms) == (
            b"",
            Principal("User", "alice"),
            1234,
        )


def test_a_refused_token_is_answered_with_a_status_and_then_fails() -> None:
    exchange = OauthbearerExchange(validate)
    step = exchange.respond(b"n,,\x01auth=Bearer bad.token\x01\x01")
    assert (step.answer, step.identity) == (b'{"status": "invalid_token"}', None)
    assert not exchange.is_costly(b"\x01")
    with pytest.raises(SaslFailure) as caught:
        exchange.respond(b"\x01")
    assert "invalid_token" in str(caught.value)
    assert "bad.token" not in str(caught.value) + caught.value.reason


def test_a_second_token_after_a_refused_one_does_not_log_in() -> None:
    exchange = OauthbearerExchange(validate)
    exchange.respond(b"n,,\x01auth=Bearer bad.token\x01\x01")
    with pytest.raises(SaslFailure):
        exchange.respond(b"n,,\x01auth=Bearer good.token\x01\x01")
    with pytest.raises(SaslFailure):
        exchange.respond(b"n,,\x01auth=Bearer good.token\x01\x01")


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer good.token\x01",
        b"n,,auth=Bearer good.token\x01\x01",
        b"y,,\x01auth=Bearer good.token\x01\x01",
        b"p=x,,\x01auth=Bearer good.token\x01\x01",
        b"n,,\x01auth=Basic good.token\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer good token\x01\x01",
        b"n,,\x01auth=Bearer good.token\x01auth=Bearer good.token\x01\x01",
        b"n,,\x01auth=Bearer good.token\x01\x01\x01",
        b"n,a=bob,\x01auth=Bearer good.token\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
        b"n,,\x01auth=Bearer " + b"x" * (MAX_TOKEN + 1) + b"\x01\x01",
        b"n,,\x01" + b"k=v\x01" * 40_000,
    ],
)
def test_malformed_messages_are_refused(first: bytes) -> None:
    with pytest.raises(SaslFailure) as caught:
        OauthbearerExchange(validate).respond(first)
    assert "good" not in str(caught.value)
