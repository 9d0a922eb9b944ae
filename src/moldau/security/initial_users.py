"""Users file of a new cluster: SCRAM keys by user and mechanism, as text (`moldau.initial.users.file`).

    admin=SCRAM-SHA-512=[iterations=4096,salt=...,stored_key=...,server_key=...]

One line per user, and several mechanisms with commas between them. Keys are base64. A line may instead have a password
(`admin=SCRAM-SHA-512=[iterations=8192,password=...]`), from which the keys are computed; then the file is a secret.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping

from moldau.security.credentials import (
    MAX_SCRAM_ITERATIONS,
    MIN_SCRAM_ITERATIONS,
    ScramCredential,
    ScramMechanism,
)
from moldau.security.scram_keys import new_credential

Users = Mapping[str, Mapping[ScramMechanism, ScramCredential]]

_BY_NAME = {mechanism.sasl_name: mechanism for mechanism in ScramMechanism}
_ONE = re.compile(r"\s*([A-Z0-9-]+)=\[([^\]]*)\]\s*(?:,|$)")
_KEYS = ("salt", "stored_key", "server_key")


def users_text(users: Users) -> str:
    """The file for these users."""
    return "".join(
        f"{user}={','.join(_written(mechanism, credential) for mechanism, credential in credentials.items())}\n"
        for user, credentials in users.items()
    )


def _written(mechanism: ScramMechanism, credential: ScramCredential) -> str:
    keys = {name: base64.b64encode(getattr(credential, name)).decode() for name in _KEYS}
    fields = ",".join(f"{name}={text}" for name, text in keys.items())
    return f"{mechanism.sasl_name}=[iterations={credential.iterations},{fields}]"


def read_user(user: str, text: str) -> dict[ScramMechanism, ScramCredential]:
    """The credentials of one user, from the value of its line. ValueError says what is wrong, without the secrets."""
    found: dict[ScramMechanism, ScramCredential] = {}
    position = 0
    while position < len(text):
        match = _ONE.match(text, position)
        if match is None:
            raise ValueError(f"user {user}: the text is not of the form MECHANISM=[name=value,...]")
        mechanism = _BY_NAME.get(match[1])
        if mechanism is None:
            raise ValueError(f"user {user}: {match[1]!r} is not one of {', '.join(_BY_NAME)}")
        found[mechanism] = _credential(user, mechanism, match[2])
        position = match.end()
    if not found:
        raise ValueError(f"user {user}: no mechanism is given")
    return found


def _credential(user: str, mechanism: ScramMechanism, text: str) -> ScramCredential:
    fields = dict(part.strip().partition("=")[::2] for part in text.split(",") if part.strip())
    try:
        iterations = int(fields.pop("iterations", MIN_SCRAM_ITERATIONS))
    except ValueError:
        raise ValueError(f"user {user}: iterations is not a number") from None
    if not MIN_SCRAM_ITERATIONS <= iterations <= MAX_SCRAM_ITERATIONS:
        raise ValueError(
            f"user {user}: {iterations} iterations are not between {MIN_SCRAM_ITERATIONS} and {MAX_SCRAM_ITERATIONS}"
        )
    if fields.keys() == {"password"}:
        return new_credential(mechanism, fields["password"], iterations)
    if fields.keys() != set(_KEYS):
        raise ValueError(f"user {user}: give either password, or all of {', '.join(_KEYS)}")
    try:
        salt, stored, server = (base64.b64decode(fields[name], validate=True) for name in _KEYS)
    except binascii.Error:
        raise ValueError(f"user {user}: a key is not valid base64") from None
    return ScramCredential(iterations, salt, stored, server)
