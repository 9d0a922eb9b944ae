"""Authorizer: decides whether a principal may do an operation on a resource, from a given host."""

from __future__ import annotations

from typing import Protocol

from moldau.security.resources import OPERATIONS, Operation, Principal, ResourceType


class Authorizer(Protocol):
    """Answers at once and changes nothing: handlers call it on the hot path, for every partition of a request."""

    def authorize(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool: ...


class AllowAll:
    """Allows every operation: a broker without access control."""

    __slots__ = ()

    def authorize(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        resource_name: str,
    ) -> bool:
        return True


def authorized_operations(
    authorizer: Authorizer, principal: Principal, host: str, resource_type: ResourceType, resource_name: str
) -> int:
    """The operations that a principal may do on a resource, as the bits in Metadata and DescribeCluster responses."""
    bits = 0
    for operation in OPERATIONS[resource_type]:
        if authorizer.authorize(principal, host, operation, resource_type, resource_name):
            bits |= 1 << operation
    return bits
