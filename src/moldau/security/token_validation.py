"""Validation of bearer tokens: a JWT with a signature of a known key, for us, now.

Signatures are checked by PyJWT and cryptography (the extra `security`). Only algorithms with public keys are accepted:
with a shared key, everyone who can check a token could also make one, and a public key taken for a shared one would let
everyone make tokens. Keys come from a JWKS document, which the caller reads (`broker/connection/jwks_keys.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moldau.security.certificates import MissingExtra
from moldau.security.oauthbearer_server import AcceptedToken, InvalidToken

if TYPE_CHECKING:
    from jwt import PyJWK

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
MAX_KEYS: Final = 1000
"""The most keys of one JWKS document. Identity providers have a handful."""


class TokenRules(NamedTuple):
    """What a token must have."""

    issuer: str = ""
    audiences: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    scope_claim: str = "scope"
    name_claim: str = "sub"
    clock_skew_s: int = 30
    allow_unsecured: bool = False
    """Accept tokens without signature, which everyone can forge."""


FindKey = Callable[[str | None], "PyJWK | None"]
"""The key with an id (`kid`); for None, the only key."""


def validate_token(token: str, rules: TokenRules, find_key: FindKey, now_s: float) -> AcceptedToken:
    """What the token says, or InvalidToken with the reason. Never quotes the token."""
    claims = _claims(token, rules, find_key)
    expires = _time(claims, "exp")
    if expires is None or _time(claims, "iat") is None:
        raise InvalidToken("the token has no exp or no iat")
    skew = rules.clock_skew_s
    if expires + skew <= now_s:
        raise InvalidToken("the token has expired")
    for claim in ("iat", "nbf"):
        start = _time(claims, claim)
        if start is not None and start - skew > now_s:
            raise InvalidToken(f"the token is not valid yet ({claim})")
    if rules.issuer and claims.get("iss") != rules.issuer:
        raise InvalidToken("the token has another issuer")
    if rules.audiences and not set(_texts(claims, "aud")) & set(rules.audiences):
        raise InvalidToken("the token is for another audience")
    scopes = {scope for text in _texts(claims, rules.scope_claim) for scope in text.split()}
    if missing := set(rules.scopes) - scopes:
        raise InvalidToken(f"the token does not have the scope {min(missing)}", "insufficient_scope")
    name = claims.get(rules.name_claim)
    if not isinstance(name, str) or not name.strip():
        raise InvalidToken(f"the token has no name (claim {rules.name_claim})")
    return AcceptedToken(name, int(expires * 1000))


def read_keys(document: bytes) -> dict[str | None, PyJWK]:
    """The usable keys of a JWKS document by id; ValueError if it is not one. The key None is there if it is alone."""
    jwt = import_jwt()
    try:
        entries = json.loads(document)["keys"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ValueError("it is not a JWKS document") from None
    if not isinstance(entries, list) or len(entries) > MAX_KEYS:
        raise ValueError(f"it is not a JWKS document with at most {MAX_KEYS} keys")
    keys: dict[str | None, PyJWK] = {}
    for entry in entries:
        if not isinstance(entry, dict) or entry.get("kty") == "oct" or entry.get("use", "sig") != "sig":
            continue
        try:
            key = jwt.PyJWK(entry)
        except (jwt.PyJWTError, ValueError, TypeError, KeyError):
            continue  # of a kind that this version of the library does not have
        if key.algorithm_name in ALGORITHMS:
            keys[key.key_id] = key
    if len(keys) == 1:
        keys.setdefault(None, next(iter(keys.values())))
    elif None in keys:
        del keys[None]
    if not keys:
        raise ValueError("it has no public key for signatures")
    return keys


def import_jwt() -> Any:
    """The package jwt, with cryptography; MissingExtra if one is not installed."""
    try:
        import cryptography  # noqa: F401
        import jwt
    except ImportError:
        raise MissingExtra("OAUTHBEARER needs an extra: pip install 'moldau[security]'") from None
    return jwt


def _claims(token: str, rules: TokenRules, find_key: FindKey) -> Mapping[str, Any]:
    jwt = import_jwt()
    unchecked = {
        "verify_exp": False,
        "verify_nbf": False,
        "verify_iat": False,
        "verify_aud": False,
        "verify_sub": False,
    }
    try:
        header = jwt.get_unverified_header(token)
        if header.get("alg") == "none" and rules.allow_unsecured:
            # With a signature it is something else than an unsecured token.
            if token.rpartition(".")[2]:
                raise InvalidToken("the token says that it is not signed, and has a signature")
            claims = jwt.decode(token, options={**unchecked, "verify_signature": False})
        else:
            claims = jwt.decode(token, _key(header, find_key), algorithms=list(ALGORITHMS), options=unchecked)
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
        raise InvalidToken(f"the token cannot be verified ({type(error).__name__})") from None
    return claims  # type: ignore[no-any-return]


def _key(header: Mapping[str, Any], find_key: FindKey) -> PyJWK:
    algorithm, key_id = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS:
        raise InvalidToken("the token is not signed, or not with a public key")
    if key_id is not None and not isinstance(key_id, str):
        raise InvalidToken("the token has a key id that is no text")
    key = find_key(key_id)
    if key is None:
        raise InvalidToken("the token is signed with an unknown key")
    return key


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e11:
        raise InvalidToken(f"the token has a {name} that is no time")
    return float(value)


def _texts(claims: Mapping[str, Any], name: str) -> list[str]:
    value = claims.get(name)
    values = value if isinstance(value, list) else [value]
    return [one for one in values if isinstance(one, str)]
