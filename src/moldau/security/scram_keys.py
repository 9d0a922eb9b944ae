"""SCRAM keys of a password (RFC 5802, section 3): what a broker stores, and what both sides compute from it.

Only calls of hashlib and hmac. A password is used as its UTF-8 bytes, as Kafka's Java client and librdkafka do.
The library scramp prepares it with SASLprep, so a password with a ligature or a non-breaking space would fail there.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Final

from moldau.security.credentials import MIN_SCRAM_ITERATIONS, ScramCredential, ScramMechanism

SALT_BYTES: Final = 24


def new_salt() -> bytes:
    return secrets.token_bytes(SALT_BYTES)


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """PBKDF2 of the password. Takes milliseconds: on a loop, call it in a thread."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def client_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Client Key", mechanism.hash_name)


def stored_key(mechanism: ScramMechanism, key: bytes) -> bytes:
    """The hash of a client key: a broker checks a login with it, but cannot log in with it."""
    return hashlib.new(mechanism.hash_name, key).digest()


def server_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Server Key", mechanism.hash_name)


def credential_from_salted(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """What a broker stores of a password that a client has salted, as in AlterUserScramCredentials."""
    key = stored_key(mechanism, client_key(mechanism, salted))
    return ScramCredential(iterations, salt, key, server_key(mechanism, salted))


def new_credential(
    mechanism: ScramMechanism, password: str, iterations: int = MIN_SCRAM_ITERATIONS, salt: bytes | None = None
) -> ScramCredential:
    """What a broker stores of a new password, with a random salt unless it is given."""
    chosen = new_salt() if salt is None else salt
    salted = salted_password(mechanism, password, chosen, iterations)
    return credential_from_salted(mechanism, salted, chosen, iterations)
