from __future__ import annotations

from moldau.security import (
    ANONYMOUS,
    CLUSTER_NAME,
    OPERATIONS,
    AllowAll,
    Authorizer,
    Operation,
    Principal,
    ResourceType,
    authorized_operations,
)


class OnlyReaders:
    """An authorizer that only allows Alice to read."""

    def authorize(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        return principal.name == "alice" and operation is Operation.READ


def bits(authorizer: Authorizer, name: str, resource_type: ResourceType) -> int:
    return authorized_operations(authorizer, Principal("User", name), "127.0.0.1", resource_type, "x")


def test_a_broker_without_access_control_allows_everything_to_everybody() -> None:
    for resource_type, operations in OPERATIONS.items():
        for operation in operations:
            assert AllowAll().authorize(ANONYMOUS, "127.0.0.1", operation, resource_type, CLUSTER_NAME)


def test_allowed_operations_are_encoded_as_one_bit_per_code() -> None:
    assert bits(OnlyReaders(), "alice", ResourceType.TOPIC) == 1 << 3
    assert bits(OnlyReaders(), "bob", ResourceType.TOPIC) == 0


def test_all_operations_on_a_resource_are_the_bits_that_kafka_answers_with() -> None:
    assert bits(AllowAll(), "alice", ResourceType.TOPIC) == 0b1101_1111_1000
    assert bits(AllowAll(), "alice", ResourceType.CLUSTER) == 0b1_1111_1010_0000


def test_a_principal_is_written_as_in_kafkas_rules() -> None:
    assert str(ANONYMOUS) == "User:ANONYMOUS"
