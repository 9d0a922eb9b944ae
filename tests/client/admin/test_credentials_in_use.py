"""Users, tokens and rules that the admin client creates are in force for other clients, at once and after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from moldau import Admin
from moldau.client.admin import (
    AclFilter,
    IssuedToken,
    ScramMechanism,
    UserScramDeletion,
    UserScramUpsertion,
    allow,
)
from moldau.client.errors import (
    BrokerError,
    ClusterAuthorizationFailed,
    DelegationTokenOwnerMismatch,
    DelegationTokenRequestNotAllowed,
    ErrorCode,
    MoldauError,
)
from tests.support.secured import ADMIN, ADMIN_PASSWORD, SecuredBroker

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{ADMIN}",
    "delegation.token.secret.key": "the key of the brokers",
}
PASSWORD, OTHER = "a=pass,word ü", "another"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with SecuredBroker(tmp_path_factory.mktemp("secured"), SETTINGS) as running:
        yield running


@pytest.fixture
def admin(broker: SecuredBroker) -> Iterator[Admin]:
    with client(broker, "PLAIN", ADMIN, ADMIN_PASSWORD) as one:
        yield one


def client(broker: SecuredBroker, mechanism: str, user: str, password: str, *, token: bool = False) -> Admin:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    login = f'org.apache.kafka.common.security.{module} required username="{user}" password="{quoted}"'
    return Admin(
        {
            "bootstrap.servers": broker.address("SASL_PLAINTEXT"),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f"{login}{' tokenauth=true' if token else ''};",
            "default.api.timeout.ms": 5_000,
        }
    )


def works(broker: SecuredBroker, mechanism: str, user: str, password: str, *, token: bool = False) -> bool:
    """Whether a login with our client succeeds: then a request has an answer, if only a denial."""
    with client(broker, mechanism, user, password, token=token) as one:
        try:
            one.describe_user_scram_credentials()
        except ClusterAuthorizationFailed:
            return True
        except MoldauError:
            return False
    return True


def librdkafka_works(broker: SecuredBroker, mechanism: str, user: str, password: str) -> bool:
    settings: dict[str, Any] = {
        "bootstrap.servers": broker.address("SASL_PLAINTEXT"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        "logger": _silent(),
        "error_cb": lambda _error: None,
    }
    try:
        AdminClient(settings).list_topics(timeout=3)
    except KafkaException:
        return False
    return True


def _silent() -> Any:
    import logging

    logger = logging.getLogger("tests.librdkafka")
    logger.disabled = True
    return logger


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_user_logs_in_with_the_password_of_the_moment(
    broker: SecuredBroker, admin: Admin, mechanism: ScramMechanism
) -> None:
    name = mechanism.sasl_name
    assert not works(broker, name, "ann", PASSWORD)
    admin.alter_user_scram_credentials(UserScramUpsertion("ann", PASSWORD, mechanism, iterations=8192))
    assert works(broker, name, "ann", PASSWORD)
    assert librdkafka_works(broker, name, "ann", PASSWORD)
    other = next(one for one in ScramMechanism if one is not mechanism)
    assert not works(broker, other.sasl_name, "ann", PASSWORD), "a password is for one mechanism"
    admin.alter_user_scram_credentials(UserScramUpsertion("ann", OTHER, mechanism))
    assert not works(broker, name, "ann", PASSWORD)
    assert works(broker, name, "ann", OTHER)
    admin.alter_user_scram_credentials(UserScramDeletion("ann", mechanism))
    assert not works(broker, name, "ann", OTHER)
    assert not librdkafka_works(broker, name, "ann", OTHER)


def test_a_token_logs_in_as_its_owner_until_it_ends_and_gets_no_further_tokens(
    broker: SecuredBroker, admin: Admin
) -> None:
    name = ScramMechanism.SCRAM_SHA_256.sasl_name
    token = admin.create_delegation_token(owner="User:ann", renewers="User:bob")
    assert (str(token.owner), str(token.requester)) == ("User:ann", f"User:{ADMIN}")
    assert works(broker, name, token.token_id, token.password, token=True)
    assert not works(broker, name, token.token_id, token.password), "a token is not a user"
    assert not works(broker, name, token.token_id, "wrong", token=True)
    admin.create_acls(allow("User:ann", "describe", "cluster"))
    try:
        with client(broker, name, token.token_id, token.password, token=True) as holder:
            holder.describe_user_scram_credentials()  # ann may
            with pytest.raises(DelegationTokenRequestNotAllowed):
                holder.create_delegation_token()
            with pytest.raises(DelegationTokenRequestNotAllowed):
                holder.renew_delegation_token(token)
            with pytest.raises(DelegationTokenRequestNotAllowed):
                holder.describe_delegation_tokens()
    finally:
        admin.delete_acls(AclFilter())
    with pytest.raises(DelegationTokenOwnerMismatch):
        admin.expire_delegation_token(token)
    admin.alter_user_scram_credentials(UserScramUpsertion("bob", PASSWORD, ScramMechanism.SCRAM_SHA_256))
    with client(broker, name, "bob", PASSWORD) as bob:
        (seen,) = bob.describe_delegation_tokens()
        assert (seen.token_id, seen.hmac) == (token.token_id, token.hmac)
        assert bob.renew_delegation_token(seen) > seen.issued_ms
        bob.expire_delegation_token(seen)
        assert bob.describe_delegation_tokens() == []
    assert not works(broker, name, token.token_id, token.password, token=True)
    admin.alter_user_scram_credentials(UserScramDeletion("bob", ScramMechanism.SCRAM_SHA_256))


def test_a_token_of_others_can_be_created_and_seen_with_a_rule_only(broker: SecuredBroker, admin: Admin) -> None:
    name = ScramMechanism.SCRAM_SHA_256.sasl_name
    admin.alter_user_scram_credentials(UserScramUpsertion("bob", PASSWORD, ScramMechanism.SCRAM_SHA_256))
    with client(broker, name, "bob", PASSWORD) as bob:
        with pytest.raises(BrokerError) as raised:
            bob.create_delegation_token(owner="User:ann")
        assert raised.value.code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        token = admin.create_delegation_token(owner="User:ann")
        assert bob.describe_delegation_tokens() == []
        for rule in (
            allow("User:bob", "describe", "delegation-token", token.token_id),
            allow("User:bob", "describe-tokens", "user", "User:ann"),
        ):
            admin.create_acls(rule)
            assert [one.token_id for one in bob.describe_delegation_tokens()] == [token.token_id]
            admin.delete_acls(AclFilter())
        admin.create_acls(allow("User:bob", "create-tokens", "user", "User:ann"))
        made: IssuedToken = bob.create_delegation_token(owner="User:ann")
        assert (made.owner.name, made.requester.name) == ("ann", "bob")
        admin.delete_acls(AclFilter())
    admin.alter_user_scram_credentials(UserScramDeletion("bob", ScramMechanism.SCRAM_SHA_256))


def test_users_and_rules_are_in_force_after_a_restart(tmp_path: Path) -> None:
    with SecuredBroker(tmp_path, SETTINGS) as first, client(first, "PLAIN", ADMIN, ADMIN_PASSWORD) as admin:
        admin.alter_user_scram_credentials(UserScramUpsertion("ann", PASSWORD))
        admin.create_acls(allow("User:ann", "describe", "cluster"))
        token = admin.create_delegation_token(owner="User:ann")
    with SecuredBroker(tmp_path, SETTINGS) as second:
        with client(second, "SCRAM-SHA-512", "ann", PASSWORD) as ann:
            assert "ann" in ann.describe_user_scram_credentials()
        assert works(second, "SCRAM-SHA-512", token.token_id, token.password, token=True)
