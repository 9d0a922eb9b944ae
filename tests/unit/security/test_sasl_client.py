"""SASL mechanisms of a client: what they send, and which servers they refuse."""

from __future__ import annotations

import pytest
from scramp import ScramMechanism

from moldau.security.client_login import LoginError, PasswordLogin, TokenLogin, login_of
from moldau.security.jaas import parse_login_module
from moldau.security.sasl_client import OAuthBearerClient, PlainClient, SaslError, ScramSaslClient

PASSWORD = "pencil, with = and ünïcödé"


def scram_server(mechanism: str, password: str, users: tuple[str, ...] = ("alice",)):  # type: ignore[no-untyped-def]
    """A server of scramp; the password is hashed without SASLprep, as Kafka does."""
    import hashlib
    import hmac

    hash_name = mechanism.replace("SCRAM-SHA-", "sha")
    salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), b"salt-of-alice", 4096)
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    stored = hashlib.new(hash_name, client_key).digest()
    server_key = hmac.digest(salted, b"Server Key", hash_name)

    def find(user: str) -> tuple[bytes, bytes, bytes, int]:
        assert user in users
        return b"salt-of-alice", stored, server_key, 4096

    return ScramMechanism(mechanism).make_server(find)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_logs_in_and_verifies_the_server(mechanism: str) -> None:
    server = scram_server(mechanism, PASSWORD)
    client = ScramSaslClient(mechanism, "alice", PASSWORD)
    server.set_client_first(client.first().decode())
    proof = client.respond(server.get_server_first().encode())
    assert proof is not None and PASSWORD.encode() not in proof
    server.set_client_final(proof.decode())
    assert client.respond(server.get_server_final().encode()) is None
    with pytest.raises(SaslError, match="after the end"):
        client.respond(b"")


def test_scram_escapes_the_user_name() -> None:
    assert b"n=a=2Cb=3Dc,r=" in ScramSaslClient("SCRAM-SHA-256", "a,b=c", "x").first()


def test_a_delegation_token_is_announced_and_covered_by_the_proof() -> None:
    server = scram_server("SCRAM-SHA-256", "hmac")
    client = ScramSaslClient("SCRAM-SHA-256", "alice", "hmac", token=True)
    first = client.first().decode()
    assert first.endswith(",tokenauth=true")
    # scramp's server does not know the extension, so it gets the rest; what both sides sign has it.
    server.set_client_first(first.removesuffix(",tokenauth=true"))
    server.client_first_bare += ",tokenauth=true"
    proof = client.respond(server.get_server_first().encode())
    assert proof is not None
    server.set_client_final(proof.decode())
    assert client.respond(server.get_server_final().encode()) is None


def answered(first: str) -> tuple[ScramSaslClient, str]:
    client = ScramSaslClient("SCRAM-SHA-256", "alice", PASSWORD, nonce="nonce")
    client.first()
    return client, first


@pytest.mark.parametrize(
    "server_first",
    [
        "",
        "r=other,s=c2FsdC1vZi1hbGljZQ==,i=4096",  # not our nonce
        "r=nonce,s=c2FsdC1vZi1hbGljZQ==,i=4096",  # no nonce of the server
        "r=nonceX,s=c2FsdC1vZi1hbGljZQ==,i=1",  # a server that wants to guess the password from a cheap proof
        "r=nonceX,s=c2FsdC1vZi1hbGljZQ==,i=4294967296",  # hours of computation
        "r=nonceX,s=???,i=4096",
        "r=nonceX,i=4096",
        "m=ext,r=nonceX,s=c2FsdC1vZi1hbGljZQ==,i=4096",
        "r=nonceX,s=c2FsdC1vZi1hbGljZQ==",
        "\xff",
    ],
)
def test_scram_refuses_wrong_first_messages(server_first: str) -> None:
    client, text = answered(server_first)
    with pytest.raises(SaslError) as error:
        client.respond(text.encode("latin-1"))
    assert PASSWORD not in str(error.value)


@pytest.mark.parametrize("final", ["v=AAAA", "v=", "", "e=other-error", "e=nonsense", "x", "v=\xff"])
def test_scram_refuses_a_server_that_does_not_know_the_password(final: str) -> None:
    client, text = answered("r=nonceX,s=c2FsdC1vZi1hbGljZQ==,i=4096")
    assert client.respond(text.encode())
    with pytest.raises(SaslError, match="did not prove"):
        client.respond(final.encode("latin-1"))


def test_plain_sends_both_texts_once() -> None:
    client = PlainClient("alice", "s3cret")
    assert client.first() == b"\0alice\0s3cret"
    assert client.respond(b"") is None


def test_oauthbearer_sends_token_and_extensions() -> None:
    client = OAuthBearerClient("TOKEN", {"traceId": "7"})
    assert client.first() == b"n,,\x01auth=Bearer TOKEN\x01traceId=7\x01\x01"
    assert client.respond(b"") is None


def test_oauthbearer_ends_a_refused_exchange_as_the_rfc_says() -> None:
    client = OAuthBearerClient("TOKEN")
    assert client.first() == b"n,,\x01auth=Bearer TOKEN\x01\x01"
    assert client.respond(b'{"status":"invalid_token"}') == b"\x01"


# -- JAAS ------------------------------------------------------------------------------------------------------------


def login(mechanism: str, jaas: str) -> PasswordLogin | TokenLogin:
    return login_of(mechanism, parse_login_module(jaas))


def test_kafkas_login_modules_are_known() -> None:
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule required username=alice password='s 3';"
    assert login("PLAIN", plain) == PasswordLogin("PLAIN", "alice", "s 3")
    scram = 'a.b.ScramLoginModule required username="alice" password="s3" tokenauth="true";'
    assert login("SCRAM-SHA-512", scram) == PasswordLogin("SCRAM-SHA-512", "alice", "s3", token=True)
    oauth = (
        "a.OAuthBearerLoginModule required clientId=me clientSecret=s3 scope='a b' extension_traceId=7 "
        "unsecuredLoginStringClaim_sub=alice unsecuredLoginNumberClaim_n=3 unsecuredLoginListClaim_scope=',a,b' "
        "unsecuredLoginLifetimeSeconds=60;"
    )
    assert login("OAUTHBEARER", oauth) == TokenLogin(
        "me", "s3", "a b", {"sub": "alice", "n": 3, "scope": ["a", "b"]}, 60, {"traceId": "7"}
    )


@pytest.mark.parametrize(
    ("mechanism", "jaas", "problem"),
    [
        ("PLAIN", "ScramLoginModule required username=a password=SECRET;", "not for PLAIN"),
        ("SCRAM-SHA-256", "PlainLoginModule required username=a password=SECRET;", "not for SCRAM-SHA-256"),
        ("GSSAPI", "Krb5LoginModule required;", "Kerberos is not supported"),
        ("SCRAM-SHA-1", "ScramLoginModule required username=a password=SECRET;", "use one of PLAIN, SCRAM-SHA-256"),
        ("PLAIN", "PlainLoginModule required password=SECRET;", "needs a username"),
        ("PLAIN", "PlainLoginModule required username=a;", "needs a password"),
        ("PLAIN", "PlainLoginModule required username=a password=SECRET tokenauth=true;", "need a SCRAM mechanism"),
        ("PLAIN", "Krb5LoginModule required username=a password=SECRET;", "Krb5LoginModule is not supported"),
        ("OAUTHBEARER", "OAuthBearerLoginModule required extension_auth=SECRET;", "'auth'"),
        ("OAUTHBEARER", "OAuthBearerLoginModule required extension_a='\x01SECRET';", "not allowed"),
        ("OAUTHBEARER", "OAuthBearerLoginModule required unsecuredLoginNumberClaim_n=SECRET;", "not a number"),
    ],
)
def test_wrong_logins_say_what_is_wrong_without_the_secret(mechanism: str, jaas: str, problem: str) -> None:
    with pytest.raises(LoginError, match=problem) as error:
        login(mechanism, jaas)
    assert "SECRET" not in str(error.value)


def test_no_secret_is_in_the_text_of_a_login() -> None:
    assert "SECRET" not in repr(PasswordLogin("PLAIN", "alice", "SECRET"))
    assert "SECRET" not in repr(TokenLogin("me", "SECRET"))
