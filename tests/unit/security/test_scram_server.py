"""SCRAM on the server's side: real exchanges, and every kind of broken one."""

from __future__ import annotations

import base64
import contextlib
import hmac
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.security.credentials import ScramCredential, ScramMechanism
from moldau.security.resources import Principal
from moldau.security.sasl_client import ScramSaslClient
from moldau.security.sasl_server import Identity, SaslFailure
from moldau.security.scram_keys import client_key, new_credential, salted_password, stored_key
from moldau.security.scram_server import MAX_NAME, MAX_NONCE, ScramAccount, ScramExchange, ScramUsers

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
PASSWORD = "s3cret, = ü"
CREDENTIALS = {
    name: {SHA_256: new_credential(SHA_256, PASSWORD), SHA_512: new_credential(SHA_512, PASSWORD)}
    for name in ("alice", "bob,=", "zoë")
}
CREDENTIALS["only-256"] = {SHA_256: new_credential(SHA_256, PASSWORD)}
SECRET = b"x" * 32
NONCE = "server-nonce"


def users(mechanism: ScramMechanism = SHA_256) -> ScramUsers:
    return ScramUsers(CREDENTIALS, mechanism, SECRET)


def server(mechanism: ScramMechanism = SHA_256, nonce: str = NONCE) -> ScramExchange:
    return ScramExchange(mechanism, lambda name, by_token: users(mechanism).find(name), nonce)


def client(name: str, password: str = PASSWORD, mechanism: ScramMechanism = SHA_256) -> ScramSaslClient:
    return ScramSaslClient(mechanism.sasl_name, name, password)


def failure_of(exchange: ScramExchange, token: bytes) -> str:
    with pytest.raises(SaslFailure) as caught:
        exchange.respond(token)
    return str(caught.value)


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("name", ["alice", "bob,=", "zoë"])
def test_both_sides_prove_that_they_know_the_password(mechanism: ScramMechanism, name: str) -> None:
    exchange, peer = server(mechanism), client(name, mechanism=mechanism)
    first = exchange.respond(peer.first())
    assert first.identity is None
    final = peer.respond(first.answer)
    assert final is not None
    step = exchange.respond(final)
    assert step.identity == Identity(Principal("User", name))
    assert peer.respond(step.answer) is None  # the client has verified the broker


def test_an_unknown_user_gets_the_same_answers_as_a_wrong_password() -> None:
    texts = []
    for name, password in (("alice", "wrong"), ("nobody", PASSWORD)):
        exchange, peer = server(), client(name, password)
        first = exchange.respond(peer.first()).answer.decode()
        final = peer.respond(first.encode())
        assert final is not None
        texts.append(
            (re.sub(r"r=[^,]*,s=[^,]*", lambda found: f"{len(found[0])} chars", first), failure_of(exchange, final))
        )
    assert texts[0] == texts[1]


def test_what_is_made_up_for_an_unknown_user_stays_the_same_on_every_broker() -> None:
    def salt(secret: bytes, name: str) -> bytes:
        return ScramUsers(CREDENTIALS, SHA_256, secret).find(name).credential.salt

    assert salt(b"one broker", "nobody") == salt(b"another broker", "nobody")
    assert salt(SECRET, "nobody") != salt(SECRET, "somebody")
    assert len(salt(SECRET, "nobody")) == len(salt(SECRET, "alice"))


def test_a_user_without_this_mechanism_is_unknown() -> None:
    assert users(SHA_256).find("only-256").identity is not None
    assert users(SHA_512).find("only-256").identity is None


def test_no_password_proves_a_made_up_credential() -> None:
    exchange = server()
    account = users().find("nobody")
    assert account.identity is None
    peer = client("nobody")
    final = peer.respond(exchange.respond(peer.first()).answer)
    assert final is not None
    assert "invalid credentials" in failure_of(exchange, final)


def test_a_replayed_exchange_is_refused() -> None:
    """A recorded login does not work again: the broker's nonce is another one."""
    recorded, peer = server(nonce="first"), client("alice")
    first = peer.first()
    final = peer.respond(recorded.respond(first).answer)
    assert final is not None
    assert recorded.respond(final).identity is not None
    again = server(nonce="second")
    again.respond(first)
    assert "nonce" in failure_of(again, final)


def test_a_proof_of_another_user_is_refused() -> None:
    exchange, peer = server(), client("zoë")
    first = peer.first()
    final = peer.respond(server().respond(first).answer)
    assert final is not None
    exchange.respond(first.replace("zoë".encode(), b"alice"))
    assert "invalid credentials" in failure_of(exchange, final)


def started(exchange: ScramExchange) -> tuple[bytes, bytes]:
    """The nonce and the final message of a login that is about to succeed."""
    peer = client("alice")
    answer = exchange.respond(peer.first()).answer
    final = peer.respond(answer)
    assert final is not None
    return answer.split(b",")[0][2:], final


@pytest.mark.parametrize("keep", range(0, 120, 7))
def test_truncated_final_messages_are_refused(keep: int) -> None:
    exchange = server()
    _, final = started(exchange)
    failure_of(exchange, final[:keep])


@pytest.mark.parametrize(
    "change",
    [
        (b"c=biws", b"c=eSws"),  # the other header: y,,
        (b"c=biws", b"c=cD10bHMtdW5pcXVlLCw="),  # with channel binding
        (b"c=biws", b"c="),
        (b",p=", b",q="),
        (b"r=", b"r=x"),
        (b",p=", b",m=ext,p="),  # an extension that was not signed
    ],
)
def test_changed_final_messages_are_refused(change: tuple[bytes, bytes]) -> None:
    exchange = server()
    _, final = started(exchange)
    assert change[0] in final
    failure_of(exchange, final.replace(*change, 1))


def test_a_proof_of_another_length_is_refused() -> None:
    exchange = server()
    _, final = started(exchange)
    for proof in (b"", b"AA==", base64.b64encode(bytes(31)), base64.b64encode(bytes(64))):
        exchange = server()
        nonce, _ = started(exchange)
        failure_of(exchange, b"c=biws,r=" + nonce + b",p=" + proof)
    assert final


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"n,,n=alice",
        b"n,,r=abc,n=alice",
        b"n,,n=,r=abc",
        b"n,,n=alice,r=",
        b"p=tls-unique,,n=alice,r=abc",
        b"n,a=bob,n=alice,r=abc",
        b"n,,m=x,n=alice,r=abc",
        b"n,,n=al=ice,r=abc",
        b"n,,n=al\0ice,r=abc",
        b"n,,n=alice,r=a bc",
        b"n,,n=alice,r=abc,",
        b"n,,n=alice,r=abc,x",
        b"n,,n=\xff,r=abc",
        b"n,,n=" + b"a" * (MAX_NAME + 1) + b",r=abc",
        b"n,,n=alice,r=" + b"a" * (MAX_NONCE + 1),
    ],
)
def test_malformed_first_messages_are_refused(first: bytes) -> None:
    exchange = server()
    failure_of(exchange, first)
    failure_of(exchange, first)  # and nothing can follow


def test_forms_of_the_first_message_that_clients_send() -> None:
    for first in (b"n,,n=alice,r=abc", b"y,,n=alice,r=abc", b"n,a=alice,n=alice,r=abc", b"n,,n=alice,r=abc,x=y,ext=1"):
        assert server().respond(first).answer.startswith(b"r=abc" + NONCE.encode())


def test_old_librdkafka_repeats_its_nonce() -> None:
    """Before 2.6.1. The whole nonce must still be there, and the proof must be of the message as it was sent."""
    mechanism = SHA_256
    credential = CREDENTIALS["alice"][mechanism]
    salted = salted_password(mechanism, PASSWORD, credential.salt, credential.iterations)
    for nonce, accepted in (("abcabc" + NONCE, True), ("xyzabc" + NONCE, False), ("abcabc", False), (NONCE, False)):
        exchange = server()
        answer = exchange.respond(b"n,,n=alice,r=abc").answer.decode()
        signed = f"n=alice,r=abc,{answer},c=biws,r={nonce}".encode()
        key = client_key(mechanism, salted)
        signature = hmac.digest(stored_key(mechanism, key), signed, "sha256")
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True)))
        final = f"c=biws,r={nonce},p=".encode() + proof
        if accepted:
            assert exchange.respond(final).identity is not None
        else:
            assert "nonce" in failure_of(exchange, final)


def test_nothing_follows_a_complete_or_failed_login() -> None:
    exchange = server()
    _, final = started(exchange)
    assert exchange.respond(final).identity is not None
    assert "end of the exchange" in failure_of(exchange, final)


def test_a_delegation_token_is_asked_for_as_one() -> None:
    asked: list[tuple[str, bool]] = []

    def find(name: str, by_token: bool) -> ScramAccount:
        asked.append((name, by_token))
        return ScramAccount(ScramCredential(4096, b"salt", b"", b""), None)

    for extension, by_token in ((b"", False), (b",tokenauth=true", True), (b",tokenauth=false", False)):
        exchange = ScramExchange(SHA_256, find, NONCE)
        first = b"n,,n=token-id,r=abc" + extension
        assert exchange.is_costly(first) == bool(extension)
        exchange.respond(first)
        assert asked.pop() == ("token-id", by_token)


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_no_bytes_log_in_by_chance(first: bytes, final: bytes) -> None:
    exchange = server()
    with contextlib.suppress(SaslFailure):
        assert exchange.respond(first).identity is None
    failure_of(exchange, final)
