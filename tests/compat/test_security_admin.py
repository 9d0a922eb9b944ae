"""Rules and users through the admin clients of other people: confluent-kafka and kafka-python."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from moldau.testing import Broker
from tests.compat.kafka_python import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
)
from tests.compat.kafka_python import ResourceType as KafkaPythonType

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
TIMEOUT_S = 20


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as running:
        yield running


def result(futures: dict[Any, Future[Any]]) -> Any:
    (future,) = futures.values()
    return future.result(TIMEOUT_S)


def test_rules_by_confluent_kafka(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    rule = (ResourceType.TOPIC, "orders-", ResourcePatternType.PREFIXED, "User:alice", "*")
    binding = AclBinding(*rule, AclOperation.READ, AclPermissionType.ALLOW)
    everything = AclBindingFilter(
        *(ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)
    )
    match = AclBindingFilter(
        *(ResourceType.TOPIC, "orders-1", ResourcePatternType.MATCH, None, None),
        *(AclOperation.ANY, AclPermissionType.ANY),
    )
    assert result(admin.create_acls([binding])) is None
    assert admin.describe_acls(everything).result(TIMEOUT_S) == [binding]
    assert admin.describe_acls(match).result(TIMEOUT_S) == [binding]
    refused = AclBinding(*rule[:4], "nowhere", AclOperation.READ, AclPermissionType.ALLOW)
    with pytest.raises(KafkaException, match="nowhere"):
        result(admin.create_acls([refused]))
    assert result(admin.delete_acls([everything])) == [binding]
    assert admin.describe_acls(everything).result(TIMEOUT_S) == []


def test_users_by_confluent_kafka(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192)
    assert (
        result(admin.alter_user_scram_credentials([UserScramCredentialUpsertion("bob", info, b"a password")])) is None
    )
    (credential,) = admin.describe_user_scram_credentials(["bob"])["bob"].result(TIMEOUT_S).scram_credential_infos
    assert (credential.mechanism, credential.iterations) == (ScramMechanism.SCRAM_SHA_256, 8192)
    few = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 100)
    with pytest.raises(KafkaException, match="iterations"):
        result(admin.alter_user_scram_credentials([UserScramCredentialUpsertion("bob", few, b"a password")]))
    deletion = UserScramCredentialDeletion("bob", ScramMechanism.SCRAM_SHA_256)
    assert result(admin.alter_user_scram_credentials([deletion])) is None
    with pytest.raises(KafkaException, match="bob"):
        admin.describe_user_scram_credentials(["bob"])["bob"].result(TIMEOUT_S)


def test_rules_by_kafka_python(broker: Broker) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        pattern = ResourcePattern(KafkaPythonType.GROUP, "readers", ACLResourcePatternType.LITERAL)
        rule = ACL("User:ann", "10.0.0.1", ACLOperation.READ, ACLPermissionType.DENY, pattern)
        created = admin.create_acls([rule])
        assert (created["succeeded"], created["failed"]) == ([rule], [])
        wanted = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, pattern)
        found, _ = admin.describe_acls(wanted)
        assert found == [rule]
        ((_, deleted, _),) = admin.delete_acls([wanted])
        assert deleted == [rule]
        assert admin.describe_acls(wanted)[0] == []
    finally:
        admin.close()
