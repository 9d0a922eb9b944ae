"""Delegation tokens: the secret of a token, and the SCRAM credential of a login with it (KIP-48).

The secret is an HMAC of the token's id under a key that all brokers share (`delegation.token.secret.key`). So it is
stored nowhere, and who reads the metadata store cannot log in with the tokens in it. A client logs in by SCRAM with the
token's id as user name, the HMAC in base64 as password, and `tokenauth=true`.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterable

from moldau.security.credentials import MIN_SCRAM_ITERATIONS, DelegationToken, ScramCredential, ScramMechanism
from moldau.security.resources import Principal
from moldau.security.scram_keys import new_credential


def token_hmac(secret_key: str, token_id: str) -> bytes:
    """The secret of a token: 64 bytes."""
    return hmac.digest(secret_key.encode(), token_id.encode(), "sha512")


def token_password(secret_key: str, token_id: str) -> str:
    """The password that a client logs in with, as Kafka's tools print it."""
    return base64.b64encode(token_hmac(secret_key, token_id)).decode()


def token_credential(mechanism: ScramMechanism, secret_key: str, token_id: str) -> ScramCredential:
    """What a broker needs to check a login with a token. Takes milliseconds: on a loop, call it in a thread."""
    return new_credential(mechanism, token_password(secret_key, token_id), MIN_SCRAM_ITERATIONS)


def token_of(secret_key: str, tokens: Iterable[DelegationToken], secret: bytes) -> DelegationToken | None:
    """The token with this HMAC. All tokens are compared, in a time that does not depend on where it is found."""
    found = None
    for token in tokens:
        if hmac.compare_digest(token_hmac(secret_key, token.token_id), secret):
            found = token
    return found


def has_expired(token: DelegationToken, now_ms: int) -> bool:
    return min(token.expires_ms, token.max_ms) < now_ms


def may_renew(token: DelegationToken, principal: Principal) -> bool:
    """Whether the principal is the token's owner or one of its renewers."""
    return principal == token.owner or principal in token.renewers
