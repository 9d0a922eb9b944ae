"""Admin client: rules, users, quotas and delegation tokens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moldau import Admin
from moldau.client.admin import (
    ANY_NAME,
    DEFAULT,
    AclFilter,
    AclRule,
    IssuedToken,
    Operation,
    PatternType,
    Principal,
    QuotaEntity,
    ResourceType,
    ScramMechanism,
    SomeFailed,
    UserScramDeletion,
    UserScramUpsertion,
    allow,
    deny,
)
from moldau.client.errors import (
    ArgumentError,
    BrokerError,
    ErrorCode,
    InvalidRequest,
    ResourceNotFound,
    SecurityDisabled,
    UnacceptableCredential,
)
from moldau.testing import Broker

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
PASSWORD = "correct horse battery staple"


@pytest.fixture(scope="module")
def secured() -> Iterator[Admin]:
    with Broker(SETTINGS) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        yield admin


def test_rules_are_created_found_and_deleted(secured: Admin) -> None:
    read = allow("User:alice", "read", "topic", "orders-", prefixed=True)
    write = deny("User:bob", Operation.WRITE, ResourceType.TOPIC, "orders-7", host="10.0.0.0/8")
    cluster = allow("User:alice", "idempotent-write", "cluster")
    secured.create_acls([read, write, cluster, read])
    secured.create_acls(read)
    assert secured.describe_acls() == sorted([read, write, cluster])
    assert secured.describe_acls(AclFilter(principal="User:alice")) == sorted([read, cluster])
    match = AclFilter(resource_type=ResourceType.TOPIC, name="orders-7", pattern_type=PatternType.MATCH)
    assert secured.describe_acls(match) == sorted([read, write])
    none = AclFilter(name="none")
    assert secured.delete_acls([match, none]) == {match: sorted([read, write]), none: []}
    assert secured.delete_acls(AclFilter()) == {AclFilter(): [cluster]}


def test_a_rule_that_is_refused_is_named_and_the_others_are_created(secured: Admin) -> None:
    good = allow("User:alice", "read", "topic", "t")
    bad = allow("User:alice", "read", "topic", "t", host="nowhere")
    with pytest.raises(SomeFailed) as raised:
        secured.create_acls([bad, good])
    assert list(raised.value.errors) == [bad]
    assert secured.delete_acls(AclFilter())[AclFilter()] == [good]
    with pytest.raises(InvalidRequest, match=r"allow User:alice from nowhere to read topic 't'.*'nowhere'"):
        secured.create_acls(bad)


def test_without_an_authorizer_there_are_no_rules(admin: Admin) -> None:
    for call in (admin.describe_acls, lambda: admin.create_acls(allow("User:a", "read", "topic", "t"))):
        with pytest.raises(SecurityDisabled):
            call()


@pytest.mark.parametrize("operation", ["reed", "", None, 3])
def test_an_operation_that_does_not_exist_is_refused_before_anything_is_sent(operation: object) -> None:
    with pytest.raises(ArgumentError, match="operation"):
        allow("User:alice", operation, "topic", "t")  # type: ignore[arg-type]


def test_users_get_lose_and_change_passwords(secured: Admin) -> None:
    secured.alter_user_scram_credentials(
        [UserScramUpsertion("alice", PASSWORD), UserScramUpsertion("bob", PASSWORD, SHA_256, iterations=8192)]
    )
    secured.alter_user_scram_credentials(UserScramUpsertion("alice", PASSWORD, SHA_256))
    assert secured.describe_user_scram_credentials() == {
        "alice": {SHA_256: 4096, SHA_512: 4096},
        "bob": {SHA_256: 8192},
    }
    assert secured.describe_user_scram_credentials("bob") == {"bob": {SHA_256: 8192}}
    with pytest.raises(ResourceNotFound, match="nobody"):
        secured.describe_user_scram_credentials("nobody")
    secured.alter_user_scram_credentials([UserScramDeletion("alice"), UserScramDeletion("bob", SHA_256)])
    secured.alter_user_scram_credentials(UserScramDeletion("alice", SHA_256))
    assert secured.describe_user_scram_credentials() == {}
    with pytest.raises(ResourceNotFound, match="alice"):
        secured.alter_user_scram_credentials(UserScramDeletion("alice"))


@pytest.mark.parametrize("iterations", [1, 4095, 16385])
def test_iterations_outside_of_the_bounds_are_refused(secured: Admin, iterations: int) -> None:
    with pytest.raises(UnacceptableCredential) as raised:
        secured.alter_user_scram_credentials(UserScramUpsertion("alice", PASSWORD, iterations=iterations))
    assert PASSWORD not in str(raised.value)


def test_no_password_is_in_a_repr_or_in_an_error(secured: Admin) -> None:
    assert PASSWORD not in repr(UserScramUpsertion("alice", PASSWORD, salt=PASSWORD.encode()))
    for wrong in (PASSWORD.encode(), "", None):
        with pytest.raises(ArgumentError) as raised:
            secured.alter_user_scram_credentials(UserScramUpsertion("alice", wrong))  # type: ignore[arg-type]
        assert PASSWORD not in str(raised.value)
    token = IssuedToken("id", *[Principal("User", "a")] * 2, (), 1, 2, 3, b"a secret")
    assert "secret" not in repr(token)
    assert token.password == "YSBzZWNyZXQ="


def test_quotas_are_set_found_and_removed(secured: Admin) -> None:
    alice, reports = QuotaEntity(user="alice"), QuotaEntity(user=DEFAULT, client_id="reports")
    address = QuotaEntity(ip="10.0.0.7")
    changes = {
        alice: {"producer_byte_rate": 1000, "request_percentage": 12.5},
        reports: {"consumer_byte_rate": 5.0},
        address: {"connection_creation_rate": 2},
    }
    secured.alter_client_quotas(changes, validate_only=True)
    assert secured.describe_client_quotas() == {}
    secured.alter_client_quotas(changes)
    assert secured.describe_client_quotas() == changes
    assert secured.describe_client_quotas(user="alice") == {alice: changes[alice]}
    assert list(secured.describe_client_quotas(user=DEFAULT)) == [reports]
    assert set(secured.describe_client_quotas(user=ANY_NAME)) == {alice, reports}
    assert list(secured.describe_client_quotas(user=ANY_NAME, strict=True)) == [alice]
    secured.alter_client_quotas({alice: {"request_percentage": None, "producer_byte_rate": 7}})
    assert secured.describe_client_quotas(user="alice") == {alice: {"producer_byte_rate": 7.0}}
    with pytest.raises(SomeFailed) as raised:
        secured.alter_client_quotas({alice: {"producer_byte_rate": -1}, reports: {"consumer_byte_rate": 6}})
    assert list(raised.value.errors) == [alice]
    secured.alter_client_quotas(
        {
            alice: {"producer_byte_rate": None},
            reports: {"consumer_byte_rate": None},
            address: {"connection_creation_rate": None},
        }
    )
    assert secured.describe_client_quotas() == {}


def test_tokens_need_a_login(secured: Admin) -> None:
    for call in (
        secured.create_delegation_token,
        secured.describe_delegation_tokens,
        lambda: secured.renew_delegation_token(b"x"),
        lambda: secured.expire_delegation_token(b"x"),
    ):
        with pytest.raises(BrokerError) as raised:
            call()
        assert raised.value.code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_a_rule_is_a_value(secured: Admin) -> None:
    assert isinstance(allow("User:a", "READ", "Topic", "t"), AclRule)
    assert allow("User:a", "alter-configs", "cluster") == allow("User:a", "ALTER_CONFIGS", ResourceType.CLUSTER)
