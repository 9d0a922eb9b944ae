"""Round trips of every message in every version, with arbitrary fields."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from moldau.wire.message import Message
from moldau.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestUpsertion,
)
from moldau.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from moldau.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from tests.unit.wire.schema import Case, all_messages, any_message, as_carried, forbidden_nulls

# Each example is tried in all versions of its message, so a fifth of the usual number is enough.
EXAMPLES_SHARE = 5


def check_round_trip(case: Case, message: Message, version: int) -> None:
    top = case.definition.top
    if any(forbidden_nulls(top, message, version)):
        with pytest.raises(ValueError, match="may not be null"):
            message.encode(version)
        return
    expected = as_carried(case, top, message, version)
    encoded = message.encode(version)
    assert expected.encode(version) == encoded, "a field that the version does not have changed the bytes"
    decoded = case.cls.decode(encoded, version)
    assert decoded == expected
    assert decoded.encode(version) == encoded


@pytest.mark.parametrize("case", all_messages(), ids=str)
def test_every_version_decodes_the_fields_that_it_carries(case: Case) -> None:
    @settings(
        max_examples=settings.default.max_examples // EXAMPLES_SHARE,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(any_message(case))
    def check(message: Message) -> None:
        for version in case.versions:
            check_round_trip(case, message, version)

    check()


def test_repr_shows_no_secret() -> None:
    upsertion = AlterUserScramCredentialsRequestUpsertion(name="alice", salt=b"s", salted_password=b"do-not-show")
    messages = (
        AlterUserScramCredentialsRequest(upsertions=[upsertion]),
        RenewDelegationTokenRequest(hmac=b"do-not-show"),
        SaslAuthenticateRequest(auth_bytes=b"do-not-show"),
    )
    for message in messages:
        assert "do-not-show" not in repr(message)
    assert "alice" in repr(messages[0])
