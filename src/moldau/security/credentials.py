"""Stored credentials: SCRAM keys of users, and delegation tokens.

Values without behaviour. No value holds a password: SCRAM stores keys from which a password cannot be computed back,
and the secret of a delegation token is derived from its id and a key that only the brokers have.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from moldau.security.resources import Principal

MIN_SCRAM_ITERATIONS: Final = 4096
MAX_SCRAM_ITERATIONS: Final = 16384


class ScramMechanism(Enum):
    """The SCRAM mechanisms: their SASL name, their code in requests, and their hash function."""

    SCRAM_SHA_256 = ("SCRAM-SHA-256", 1, "sha256")
    SCRAM_SHA_512 = ("SCRAM-SHA-512", 2, "sha512")

    def __init__(self, sasl_name: str, code: int, hash_name: str) -> None:
        self.sasl_name: str = sasl_name
        self.code: int = code
        self.hash_name: str = hash_name


class ScramCredential(NamedTuple):
    """What a broker keeps of a password. Who reads it can pretend to be the broker, but not the user."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations}, secrets not shown)"


class DelegationToken(NamedTuple):
    """A delegation token: a password with an end, for the principal that owns it (KIP-48)."""

    token_id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int
    """The end of its life, however often it is renewed."""
