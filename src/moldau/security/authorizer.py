"""Authorizer: decides whether a principal may do an operation on a resource, from a given host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from moldau.security.resources import OPERATIONS, Operation, Principal, ResourceType

if TYPE_CHECKING:
    from moldau.security.acls import AclEntry, AclRule, ResourcePattern


class Decision(NamedTuple):
    """The answer of an authorizer, and what decided it."""

    allowed: bool
    rule: AclRule | None
    """The rule that decided. None if none did; `reason` then says what decided instead."""
    reason: str


ALLOWED_BY_DEFAULT: Final = Decision(True, None, "no authorizer")


class Authorizer(Protocol):
    """Answers at once and changes nothing: handlers call it on the hot path, for every partition of a request."""

    enabled: bool
    """Whether there is access control at all. Without it, requests about rules are refused with SECURITY_DISABLED."""

    def authorize(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool: ...

    def decide(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> Decision:
        """The same decision with its reason, for the audit log."""
        ...

    def decide_any(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> Decision:
        """Whether the principal may do the operation on at least one resource of the type (KIP-679)."""
        ...

    def follow(self, acls: Mapping[ResourcePattern, tuple[AclEntry, ...]]) -> None:
        """Decide by these rules from now on, also for requests of open connections."""
        ...


class AllowAll:
    """Allows every operation: a broker without access control."""

    __slots__ = ()

    enabled = False

    def authorize(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        resource_name: str,
    ) -> bool:
        return True

    def decide(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        resource_name: str,
    ) -> Decision:
        return ALLOWED_BY_DEFAULT

    def decide_any(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> Decision:
        return ALLOWED_BY_DEFAULT

    def follow(self, acls: Mapping[ResourcePattern, tuple[AclEntry, ...]]) -> None:
        return


def authorized_operations(
    authorizer: Authorizer, principal: Principal, host: str, resource_type: ResourceType, resource_name: str
) -> int:
    """The operations that a principal may do on a resource, as the bits in Metadata and DescribeCluster responses."""
    bits = 0
    for operation in OPERATIONS[resource_type]:
        if authorizer.authorize(principal, host, operation, resource_type, resource_name):
            bits |= 1 << operation
    return bits
