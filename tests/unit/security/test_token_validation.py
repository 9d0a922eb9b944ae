"""Bearer tokens: which are accepted, and every forged one that is not."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from moldau.security.oauthbearer_server import InvalidToken
from moldau.security.token_validation import ALGORITHMS, TokenRules, read_keys, validate_token
from tests.support.secured import AUDIENCE, ISSUER, TokenIssuer, unsigned_token

GOOD = TokenIssuer()
RULES = TokenRules(ISSUER, (AUDIENCE, "another"), ("kafka",))
KEYS = read_keys(GOOD.jwks().encode())


def validated(token: str, rules: TokenRules = RULES) -> str:
    return validate_token(token, rules, KEYS.get, time.time()).principal_name


def reason_of(token: str, rules: TokenRules = RULES) -> str:
    with pytest.raises(InvalidToken) as caught:
        validated(token, rules)
    signature = token.rpartition(".")[2]
    assert len(signature) < 10 or signature not in str(caught.value)
    return str(caught.value)


def test_a_token_of_the_known_key_is_accepted() -> None:
    assert validated(GOOD.token("alice")) == "alice"
    assert validated(GOOD.token("alice", aud=["x", "another"], scope="read kafka write")) == "alice"
    assert validated(GOOD.token("alice", scope=["kafka"])) == "alice"
    exp = int(time.time()) + 77
    assert validate_token(GOOD.token(exp=exp), RULES, KEYS.get, time.time()).expires_ms == exp * 1000


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"exp": 1}, "expired"),
        ({"exp": int(time.time()) - 31}, "expired"),
        ({"exp": None}, "no exp"),
        ({"iat": None}, "no iat"),
        ({"exp": "9999999999"}, ""),
        ({"exp": 1e300}, ""),
        ({"exp": True}, ""),
        ({"exp": -1}, ""),
        ({"nbf": int(time.time()) + 100_000}, "not valid yet"),
        ({"iat": int(time.time()) + 100_000}, "not valid yet"),
        ({"iss": "https://other.test"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"aud": "other"}, "audience"),
        ({"aud": None}, "audience"),
        ({"aud": []}, "audience"),
        ({"aud": {"moldau": 1}}, ""),
        ({"scope": "read"}, "scope"),
        ({"scope": None}, "scope"),
        ({"scope": "kafkaesque"}, "scope"),
        ({"sub": None}, "no name"),
        ({"sub": ""}, "no name"),
        ({"sub": "  "}, "no name"),
    ],
)
def test_a_signed_token_with_wrong_claims_is_refused(changes: dict[str, Any], reason: str) -> None:
    name = changes.pop("sub", "alice") if "sub" in changes else "alice"
    assert reason in reason_of(GOOD.token(name, **changes))


def test_clocks_may_differ_a_little() -> None:
    now = int(time.time())
    assert validated(GOOD.token(exp=now - 20)) == "alice"
    assert validated(GOOD.token(nbf=now + 20, iat=now + 20)) == "alice"


def test_a_token_of_another_key_is_refused() -> None:
    other = TokenIssuer()  # with the same key id
    reason_of(other.token())
    assert "unknown key" in reason_of(TokenIssuer("key-2").token())


def test_a_token_without_signature_is_refused() -> None:
    for token in (unsigned_token(scope="kafka"), unsigned_token(scope="kafka").rstrip("."), unsigned_token() + "AAAA"):
        reason_of(token)


def test_an_unsigned_token_is_accepted_only_where_that_is_allowed() -> None:
    allowed = RULES._replace(allow_unsecured=True)
    assert validated(unsigned_token(scope="kafka"), allowed) == "alice"
    assert validated(GOOD.token(), allowed) == "alice"
    assert "expired" in reason_of(unsigned_token(scope="kafka", exp=1), allowed)
    reason_of(unsigned_token(scope="kafka") + "AAAA", allowed)
    reason_of(TokenIssuer().token(), allowed)


@pytest.mark.parametrize("alg", ["none", "None", "NONE", "nOnE", "HS256", "", None, 5, "RS256 "])
def test_a_stripped_signature_with_any_algorithm_is_refused(alg: object) -> None:
    header, claims, _ = GOOD.token().split(".")
    forged = base64.urlsafe_b64encode(json.dumps({"alg": alg, "kid": GOOD.key_id}).encode()).rstrip(b"=").decode()
    for signature in ("", "AAAA"):
        reason_of(f"{forged}.{claims}.{signature}")
    assert header


def test_the_public_key_taken_as_a_shared_key_makes_no_token() -> None:
    """The classic confusion: HS256 with the PEM text of the public key, which everyone has."""
    pem = GOOD.key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    header = base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "kid": GOOD.key_id}).encode()).rstrip(b"=")
    claims = GOOD.token().split(".")[1].encode()
    import hashlib
    import hmac

    signature = base64.urlsafe_b64encode(hmac.digest(pem, header + b"." + claims, hashlib.sha256)).rstrip(b"=")
    assert "public key" in reason_of(b".".join((header, claims, signature)).decode())


def test_a_changed_token_is_refused() -> None:
    header, claims, signature = GOOD.token().split(".")
    admin = GOOD.token("admin").split(".")[1]
    reason_of(f"{header}.{admin}.{signature}")
    reason_of(f"{header}.{claims}.{signature[:-8]}AAAAAAAA")


@pytest.mark.parametrize(
    "token", ["", ".", "..", "a.b.c", "a" * 10_000, "....", "eyJhbGciOiJSUzI1NiJ9", "é.è.ê", "[" * 5000]
)
def test_what_is_no_token_is_refused(token: str) -> None:
    reason_of(token)


def test_a_key_with_the_wrong_type_for_the_algorithm_is_refused() -> None:
    elliptic = ec.generate_private_key(ec.SECP256R1())
    token = jwt.encode(
        {"sub": "alice", "exp": time.time() + 60, "iat": time.time()}, elliptic, "ES256", headers={"kid": GOOD.key_id}
    )
    reason_of(token)


def test_only_public_keys_for_signatures_are_read() -> None:
    entry = json.loads(GOOD.jwks())["keys"][0]
    shared = {"kty": "oct", "k": "c2VjcmV0", "kid": "shared", "alg": "HS256"}
    encryption = {**entry, "kid": "encryption", "use": "enc"}
    keys = read_keys(json.dumps({"keys": [entry, shared, encryption, {"kty": "new"}, 5]}).encode())
    assert set(keys) == {GOOD.key_id, None}
    for document in (
        b"",
        b"[]",
        b"{}",
        b'{"keys": {}}',
        b'{"keys": []}',
        json.dumps({"keys": [shared]}).encode(),
        b"\xff",
    ):
        with pytest.raises(ValueError, match="it "):
            read_keys(document)


def test_of_several_keys_one_must_be_named() -> None:
    entries = [json.loads(TokenIssuer(name).jwks())["keys"][0] for name in ("a", "b")]
    assert set(read_keys(json.dumps({"keys": entries}).encode())) == {"a", "b"}


def test_no_symmetric_algorithm_is_allowed() -> None:
    assert not [name for name in ALGORITHMS if name.startswith("HS") or name == "none"]
    assert isinstance(GOOD.key, rsa.RSAPrivateKey)
