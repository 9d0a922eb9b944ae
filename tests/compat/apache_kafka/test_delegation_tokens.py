"""Delegation tokens: Moldau gives the answers of Apache Kafka, and its tokens end when they should."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest

from moldau.wire.errors import ErrorCode
from moldau.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenRequestRenewer,
)
from moldau.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenRequestOwner,
)
from moldau.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from moldau.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from tests.compat.apache_kafka.jars import KafkaJars
from tests.compat.apache_kafka.processes import SecuredApacheKafka
from tests.compat.wire import ask
from tests.support.raw import RawConnection
from tests.support.secured import SecuredBroker
from tests.support.waiting import wait_until

USERS = {"admin": "admin-secret", "alice": "alice-secret", "bob": "bob-secret"}
KEY = "the key of all brokers"
TOKENS = {"delegation.token.secret.key": KEY}
JAAS = "x.PlainLoginModule required " + " ".join(f'user_{name}="{secret}"' for name, secret in USERS.items()) + ";"
SECURED = {
    "sasl.jaas.config": JAAS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}
HOUR_MS, DAY_MS = 3_600_000, 86_400_000


class TokenClients:
    """One connection for each user."""

    def __init__(self, bootstrap: str) -> None:
        self.raw = {user: RawConnection(bootstrap).log_in(user, secret) for user, secret in USERS.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for raw in self.raw.values():
            raw.close()

    def created(
        self, user: str, owner: tuple[str | None, str | None] = (None, None), *renewers: tuple[str, str], life: int = -1
    ) -> Any:
        request = CreateDelegationTokenRequest(
            owner_principal_type=owner[0],
            owner_principal_name=owner[1],
            renewers=[
                CreateDelegationTokenRequestRenewer(principal_type=kind, principal_name=name) for kind, name in renewers
            ],
            max_lifetime_ms=life,
        )
        return ask(self.raw[user], request)

    def create(self, user: str, *arguments: Any, **options: Any) -> Any:
        """What is compared of an answer: the times as durations, the secret by its length."""
        answer = self.created(user, *arguments, **options)
        times = (
            answer.expiry_timestamp_ms - answer.issue_timestamp_ms,
            answer.max_timestamp_ms - answer.issue_timestamp_ms,
        )
        principals = (
            *(answer.principal_type, answer.principal_name),
            *(answer.token_requester_principal_type, answer.token_requester_principal_name),
        )
        return answer.error_code, principals, times, len(answer.token_id), len(answer.hmac)

    def renew(self, user: str, secret: bytes, period_ms: int = -1) -> Any:
        return ask(self.raw[user], RenewDelegationTokenRequest(hmac=secret, renew_period_ms=period_ms))

    def expire(self, user: str, secret: bytes, period_ms: int = -1) -> Any:
        return ask(self.raw[user], ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=period_ms))

    def tokens(self, user: str, owners: list[tuple[str, str]] | None = None) -> Any:
        wanted = owners and [
            DescribeDelegationTokenRequestOwner(principal_type=kind, principal_name=name) for kind, name in owners
        ]
        return ask(self.raw[user], DescribeDelegationTokenRequest(owners=wanted))

    def describe(self, user: str, owners: list[tuple[str, str]] | None = None) -> Any:
        answer = self.tokens(user, owners)
        found = [
            (
                *(token.principal_name, token.token_requester_principal_name),
                *(token.max_timestamp - token.issue_timestamp, len(token.hmac)),
                sorted(renewer.principal_name for renewer in token.renewers),
            )
            for token in answer.tokens
        ]
        return answer.error_code, sorted(found)


@pytest.fixture(scope="module")
def both(jars: KafkaJars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TokenClients, TokenClients]]:
    kafka = SecuredApacheKafka(jars, tmp_path_factory.mktemp("apache-kafka"), USERS, TOKENS)
    with (
        kafka,
        SecuredBroker(tmp_path_factory.mktemp("moldau"), SECURED | TOKENS) as moldau,
        TokenClients(kafka.bootstrap) as theirs,
        TokenClients(moldau.address("SASL_PLAINTEXT")) as ours,
    ):
        yield theirs, ours


def same(both: tuple[TokenClients, TokenClients], question: Callable[[TokenClients], Any]) -> Any:
    kafka, moldau = both
    ours = question(moldau)
    assert ours == question(kafka)
    return ours


def test_tokens_are_created_renewed_described_and_ended_as_by_kafka(both: tuple[TokenClients, TokenClients]) -> None:
    bob, group = ("User", "bob"), ("Group", "g")
    nobody = (None, None)
    questions: list[tuple[Any, ...]] = [
        ("alice",),
        ("alice", nobody, bob),
        ("alice", bob),
        ("admin", bob),
        ("alice", ("User", None)),
        ("alice", ("User", "")),
        ("alice", nobody, group),
        ("admin", group),
    ]
    for question in questions:
        same(both, lambda clients, question=question: clients.create(*question))  # type: ignore[misc]
    for life in (0, 1_000_000, 2**62):
        same(both, lambda clients, life=life: clients.create("alice", life=life))  # type: ignore[misc]
    kafka, moldau = both
    for user in USERS:
        for owners in (None, [], [bob], [("User", "alice")], [("User", "nobody")]):
            expected = kafka, user, owners
            wait_until(
                lambda: moldau.describe(user, owners) == kafka.describe(user, owners),  # noqa: B023
                f"the same tokens for {expected}",
            )


def test_renewals_and_ends_are_refused_as_by_kafka(both: tuple[TokenClients, TokenClients]) -> None:
    secrets = {clients: clients.created("alice", (None, None), ("User", "bob")) for clients in both}

    def within(answer: Any, made: Any) -> tuple[int, int]:
        """The code, and the end of the token after its creation, in hours."""
        ms = answer.expiry_timestamp_ms
        return answer.error_code, round((ms - made.issue_timestamp_ms) / HOUR_MS) if ms > 0 else ms

    for clients in both:
        # Kafka's controller learns of its own tokens a little later.
        wait_until(lambda: clients.renew("alice", secrets[clients].hmac).error_code == 0)  # noqa: B023
    for user in USERS:
        for period_ms in (-1, 0, HOUR_MS, 2**62):
            for call in (TokenClients.renew, TokenClients.expire):
                if call is TokenClients.expire and period_ms <= 0:
                    continue
                same(
                    both,
                    lambda clients, call=call, user=user, ms=period_ms: within(  # type: ignore[misc]
                        call(clients, user, secrets[clients].hmac, ms), secrets[clients]
                    ),
                )
                same(both, lambda clients, call=call, user=user: call(clients, user, b"no secret"))  # type: ignore[misc]
    assert same(both, lambda clients: within(clients.expire("admin", secrets[clients].hmac), secrets[clients]))[0] == (
        ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    )
    assert same(both, lambda clients: within(clients.expire("bob", secrets[clients].hmac), secrets[clients])) == (0, 0)


def _described(raw: RawConnection, token_id: str, version: int) -> tuple[Any, Any] | None:
    """The description of all tokens, and the token with this id in it; None if it is not in it."""
    described = ask(raw, DescribeDelegationTokenRequest(owners=None), version)
    return next(((described, one) for one in described.tokens if one.token_id == token_id), None)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version_is_answered_as_by_kafka(both: tuple[TokenClients, TokenClients], version: int) -> None:
    codes = []
    for clients in both:
        raw = clients.raw["alice"]
        made = ask(raw, CreateDelegationTokenRequest(max_lifetime_ms=DAY_MS), version)
        assert (made.error_code, made.principal_name, len(made.hmac)) == (0, "alice", 64)
        earlier = min(version, 2)
        renewal = RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=HOUR_MS)
        wait_until(lambda: ask(raw, renewal, earlier).error_code == 0)  # noqa: B023
        # In Kafka the controller answers a renewal, and a broker describes what it has heard of the controller.
        described, token = wait_until(partial(_described, raw, made.token_id, version))
        ended = ask(raw, ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1), earlier)
        codes.append((described.error_code, ended.error_code, token.hmac == made.hmac, token.principal_name))
    assert codes[0] == codes[1] == (0, 0, True, "alice")


def test_the_secret_is_the_hmac_of_the_id_under_the_key(both: tuple[TokenClients, TokenClients]) -> None:
    for clients in both:
        answer = clients.created("alice")
        assert answer.hmac == hmac.new(KEY.encode(), answer.token_id.encode(), hashlib.sha512).digest()


def test_without_a_key_every_request_is_refused(tmp_path: Path) -> None:
    with SecuredBroker(tmp_path, SECURED) as moldau, TokenClients(moldau.address("SASL_PLAINTEXT")) as clients:
        answers = clients.created("alice"), clients.renew("alice", b"x"), clients.expire("alice", b"x")
        codes = {answer.error_code for answer in (*answers, clients.tokens("alice"))}
    assert codes == {ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED}


def test_a_client_that_has_not_logged_in_gets_no_tokens(tmp_path: Path) -> None:
    with SecuredBroker(tmp_path, SECURED | TOKENS) as moldau, RawConnection(moldau.address("PLAINTEXT")) as raw:
        requests = (
            CreateDelegationTokenRequest(),
            RenewDelegationTokenRequest(hmac=b"x"),
            ExpireDelegationTokenRequest(hmac=b"x"),
            DescribeDelegationTokenRequest(owners=None),
        )
        codes = {ask(raw, request).error_code for request in requests}
    assert codes == {ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED}


def test_an_expired_token_is_refused_at_once_and_removed_later(tmp_path: Path) -> None:
    settings = SECURED | TOKENS | {"delegation.token.expiry.check.interval.ms": "100"}
    with SecuredBroker(tmp_path, settings) as moldau, TokenClients(moldau.address("SASL_PLAINTEXT")) as clients:
        short, long = clients.created("alice", life=200), clients.created("alice")
        refused = (ErrorCode.DELEGATION_TOKEN_EXPIRED, ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        wait_until(lambda: clients.renew("alice", short.hmac).error_code in refused)
        wait_until(lambda: [token.token_id for token in clients.tokens("alice").tokens] == [long.token_id])
        assert clients.renew("alice", long.hmac).error_code == 0
