"""The one question: may this principal, from this host, do this to that?"""

from __future__ import annotations

from typing import Protocol

from moldau.security.model import OPERATIONS, Operation, Principal, ResourceType


class Authorizer(Protocol):
    """Answers at once and changes nothing: it is asked on the hot path, for every partition of a request."""

    def authorize(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool: ...


class AllowAll:
    """Everybody may do everything: a broker without access control."""

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
    """What the principal may do to a resource, as the bits that Metadata and DescribeCluster answer with."""
    bits = 0
    for operation in OPERATIONS[resource_type]:
        if authorizer.authorize(principal, host, operation, resource_type, resource_name):
            bits |= 1 << operation
    return bits
