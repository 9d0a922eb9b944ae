"""PLAIN on the server's side: who gets in, and that the refused learn nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.security.jaas import parse_login_module
from moldau.security.resources import Principal
from moldau.security.sasl_server import INVALID_CREDENTIALS, PlainExchange, PlainUsers, SaslFailure

USERS = PlainUsers.from_login_module(
    parse_login_module('x.PlainLoginModule required username="broker" password="b" user_alice="s3cret" user_bob="";')
)


def refused(token: bytes) -> SaslFailure:
    with pytest.raises(SaslFailure) as caught:
        PlainExchange(USERS).respond(token)
    return caught.value


def test_the_right_password_logs_in_at_once() -> None:
    for token in (b"\0alice\0s3cret", b"alice\0alice\0s3cret"):
        step = PlainExchange(USERS).respond(token)
        assert step.answer == b""
        assert step.identity is not None
        assert step.identity.principal == Principal("User", "alice")
        assert step.identity.expires_ms is None and not step.identity.by_token


def test_an_unknown_user_is_refused_like_a_wrong_password() -> None:
    answers = {
        (str(failure), failure.reason)
        for failure in map(refused, (b"\0alice\0wrong", b"\0nobody\0s3cret", b"\0broker\0b", b"\0Alice\0s3cret"))
    }
    assert len(answers) == 1
    assert next(iter(answers))[0] == INVALID_CREDENTIALS


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"\0",
        b"\0\0",
        b"\0alice\0",
        b"\0\0s3cret",
        b"alice\0s3cret",
        b"\0alice\0s3cret\0",
        b"\0bob\0",
        b"\0\xff\0s3cret",
    ],
)
def test_malformed_tokens_are_refused_without_their_content(token: bytes) -> None:
    assert "s3cret" not in str(refused(token)) + refused(token).reason


def test_nobody_logs_in_as_somebody_else() -> None:
    assert "authorization id" in str(refused(b"bob\0alice\0s3cret"))


def test_a_token_after_the_end_is_refused() -> None:
    exchange = PlainExchange(USERS)
    exchange.respond(b"\0alice\0s3cret")
    with pytest.raises(SaslFailure):
        exchange.respond(b"\0alice\0s3cret")


@given(st.binary(max_size=60))
def test_no_bytes_log_in_by_chance(token: bytes) -> None:
    if token not in (b"\0alice\0s3cret", b"alice\0alice\0s3cret"):
        refused(token)


def test_users_are_equal_if_their_passwords_are_and_show_nothing() -> None:
    assert PlainUsers({"a": "1"}) == PlainUsers({"a": "1"})
    assert PlainUsers({"a": "1"}) != PlainUsers({"a": "2"})
    assert "s3cret" not in repr(PlainUsers({"a": "s3cret"}))
