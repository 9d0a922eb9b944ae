"""SCRAM keys and the users file: the same keys as the library scramp, and a file that is read as it was written."""

from __future__ import annotations

import pytest
import scramp
from hypothesis import given
from hypothesis import strategies as st

from moldau.security.credentials import ScramMechanism
from moldau.security.initial_users import read_user, users_text
from moldau.security.scram_keys import new_credential
from moldau.settings.sources import read_properties

mechanisms = pytest.mark.parametrize("mechanism", ScramMechanism)


@mechanisms
def test_keys_are_those_of_scramp(mechanism: ScramMechanism) -> None:
    ours = new_credential(mechanism, "pencil", 4096, b"0123456789abcdef")
    theirs = scramp.ScramMechanism(mechanism=mechanism.sasl_name).make_auth_info(
        "pencil", iteration_count=4096, salt=b"0123456789abcdef"
    )
    assert theirs == (ours.salt, ours.stored_key, ours.server_key, ours.iterations)


@mechanisms
def test_every_new_credential_has_its_own_salt(mechanism: ScramMechanism) -> None:
    assert new_credential(mechanism, "same") != new_credential(mechanism, "same")


@given(st.text(min_size=1, max_size=20), st.binary(min_size=8, max_size=30))
def test_keys_do_not_show_in_texts(password: str, salt: bytes) -> None:
    credential = new_credential(ScramMechanism.SCRAM_SHA_256, password, 4096, salt)
    assert repr(credential) == "ScramCredential(iterations=4096, secrets not shown)"


def test_a_users_file_is_read_as_it_was_written() -> None:
    users = {
        "admin": {mechanism: new_credential(mechanism, "secret") for mechanism in ScramMechanism},
        "alice": {ScramMechanism.SCRAM_SHA_256: new_credential(ScramMechanism.SCRAM_SHA_256, "x", 8192)},
    }
    read = {user: read_user(user, text) for user, text in read_properties(users_text(users)).items()}
    assert read == users


def test_a_password_in_the_file_becomes_keys() -> None:
    credential = read_user("bob", "SCRAM-SHA-512=[iterations=5000,password=open sesame]")[ScramMechanism.SCRAM_SHA_512]
    assert credential == new_credential(ScramMechanism.SCRAM_SHA_512, "open sesame", 5000, credential.salt)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no mechanism"),
        ("hunter2", "not of the form"),
        ("PLAIN=[password=hunter2]", "'PLAIN' is not one of"),
        ("SCRAM-SHA-256=[password=hunter2,salt=abcd]", "either password"),
        ("SCRAM-SHA-256=[iterations=many,password=hunter2]", "not a number"),
        ("SCRAM-SHA-256=[iterations=1,password=hunter2]", "not between 4096 and 16384"),
        ("SCRAM-SHA-256=[salt=hunter2,stored_key=a,server_key=b]", "base64"),
    ],
)
def test_a_bad_line_is_refused_without_showing_its_secrets(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        read_user("eve", text)
    assert "eve" in str(caught.value)
    assert "hunter2" not in str(caught.value)
