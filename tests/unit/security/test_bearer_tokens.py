"""Bearer tokens of a client: their lifetime and the time of their renewal."""

from __future__ import annotations

import pytest

from moldau.security.bearer_tokens import BearerToken, TokenError, TokenRefresh, bearer_token, unsecured_token


def test_a_jwt_says_when_it_ends() -> None:
    text = unsecured_token({"sub": "alice", "iat": 1000, "exp": 4600})
    assert bearer_token(f"{text}\n", now_s=7) == BearerToken(text, 1000, 4600)


@pytest.mark.parametrize("text", ["opaque", "a.b.c", "a.W10.c", "a.eyJleHAiOiJ4In0.c", "a.eyJleHAiOnRydWV9."])
def test_a_token_that_does_not_say_when_it_ends_is_used_until_it_is_refused(text: str) -> None:
    assert bearer_token(text, now_s=7) == BearerToken(text, 7, None)


@pytest.mark.parametrize("text", ["", " \n", "two words", "line\nbreak", "tokén", "a\x01auth=Bearer b"])
def test_what_cannot_be_a_token_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(TokenError) as error:
        bearer_token(text, now_s=7)
    assert "two" not in str(error.value) and "Bearer" not in str(error.value)


def test_a_token_is_renewed_in_the_last_fifth_of_its_life() -> None:
    refresh = TokenRefresh()
    assert refresh.due_s(BearerToken("t", 0, 3600), 0.0) == 2880
    assert refresh.due_s(BearerToken("t", 0, 3600), 1.0) == pytest.approx(3060)
    assert refresh.due_s(BearerToken("t", 0, 600), 0.0) == 300  # the buffer before its end
    assert refresh.due_s(BearerToken("t", 0, 100), 0.0) == 80  # too short for buffer and minimum
    assert refresh.due_s(BearerToken("t", 0, None), 0.0) is None


def test_the_text_of_a_token_is_not_shown() -> None:
    assert "SECRET" not in repr(BearerToken("SECRET", 0, None))
