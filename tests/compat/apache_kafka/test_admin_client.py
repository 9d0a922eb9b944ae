"""Our admin client on Apache Kafka: rules, users, quotas and delegation tokens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moldau import Admin
from moldau.client.admin import (
    DEFAULT,
    AclFilter,
    QuotaEntity,
    ScramMechanism,
    UserScramDeletion,
    UserScramUpsertion,
    allow,
    deny,
)
from moldau.client.errors import DelegationTokenNotFound, ResourceNotFound, UnacceptableCredential
from tests.compat.apache_kafka.jars import KafkaJars
from tests.compat.apache_kafka.processes import SecuredApacheKafka
from tests.support.waiting import wait_until

USERS = {"admin": "admin-secret"}
SHA_256 = ScramMechanism.SCRAM_SHA_256


@pytest.fixture(scope="module")
def admin(jars: KafkaJars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Admin]:
    kafka = SecuredApacheKafka(
        jars, tmp_path_factory.mktemp("apache-kafka"), USERS, {"delegation.token.secret.key": "the key"}
    )
    with kafka, Admin({"bootstrap.servers": kafka.bootstrap, **kafka.client_settings}) as client:
        yield client


# Kafka's brokers know what its controller has stored a little later, so the tests wait for it.


def test_rules(admin: Admin) -> None:
    rules = sorted(
        [
            allow("User:alice", "read", "topic", "orders-", prefixed=True),
            deny("User:bob", "write", "topic", "orders", host="10.0.0.1"),
            allow("User:alice", "two-phase-commit", "transactional-id", "tx"),
        ]
    )
    admin.create_acls(rules)
    wait_until(lambda: admin.describe_acls() == rules)
    wanted = AclFilter(principal="User:alice")
    assert len(admin.delete_acls(wanted)[wanted]) == 2
    wait_until(lambda: admin.describe_acls() == [rule for rule in rules if rule.entry.principal == "User:bob"])


def test_users(admin: Admin) -> None:
    admin.alter_user_scram_credentials(UserScramUpsertion("alice", "a password", SHA_256, 8192))
    wait_until(lambda: admin.describe_user_scram_credentials() == {"alice": {SHA_256: 8192}})
    with pytest.raises(UnacceptableCredential):
        admin.alter_user_scram_credentials(UserScramUpsertion("alice", "a password", iterations=20_000))
    admin.alter_user_scram_credentials(UserScramDeletion("alice", SHA_256))
    wait_until(lambda: admin.describe_user_scram_credentials() == {})
    with pytest.raises(ResourceNotFound):
        admin.alter_user_scram_credentials(UserScramDeletion("alice", SHA_256))


def test_quotas(admin: Admin) -> None:
    quotas = {
        QuotaEntity(client_id="c", user=DEFAULT): {"producer_byte_rate": 5.0},
        QuotaEntity(user="alice"): {"request_percentage": 12.5},
    }
    admin.alter_client_quotas(quotas)
    wait_until(lambda: admin.describe_client_quotas() == quotas)
    assert admin.describe_client_quotas(user="alice", strict=True) == {
        QuotaEntity(user="alice"): {"request_percentage": 12.5}
    }
    admin.alter_client_quotas({entity: dict.fromkeys(values) for entity, values in quotas.items()})
    wait_until(lambda: admin.describe_client_quotas() == {})


def test_delegation_tokens(admin: Admin) -> None:
    token = admin.create_delegation_token(owner="User:alice", renewers="User:admin")
    wait_until(lambda: [one.token_id for one in admin.describe_delegation_tokens("User:alice")] == [token.token_id])
    wait_until(lambda: admin.renew_delegation_token(token) > token.issued_ms, retry_on=(DelegationTokenNotFound,))
    admin.expire_delegation_token(token)
    wait_until(lambda: admin.describe_delegation_tokens() == [])
