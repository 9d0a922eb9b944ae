"""Access control rules in requests: from codes to values, and the checks that the three APIs of rules share."""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol, TypeVar

from moldau.broker.connection.session import Request
from moldau.cluster.errors import Refusal
from moldau.security.acls import AclEntry, AclFilter, AclRule, PatternType, Permission, ResourcePattern
from moldau.security.resources import Operation, ResourceType
from moldau.wire.errors import ErrorCode, WireError

E = TypeVar("E", bound=IntEnum)

UNKNOWN = 0


class FilterMessage(Protocol):
    """A filter in a DescribeAcls or DeleteAcls request."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


class CreationMessage(Protocol):
    """A rule in a CreateAcls request."""

    resource_type: int
    resource_name: str
    resource_pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


def acl_filter(message: FilterMessage) -> AclFilter:
    """The filter of a request. `WireError` if it says UNKNOWN, which closes the connection, as Kafka does."""
    return AclFilter(
        _named(ResourceType, message.resource_type_filter),
        message.resource_name_filter,
        _named(PatternType, message.pattern_type_filter),
        message.principal_filter,
        message.host_filter,
        _named(Operation, message.operation),
        _named(Permission, message.permission_type),
    )


def acl_rule(message: CreationMessage) -> AclRule:
    """The rule of a request. `WireError` if it says UNKNOWN, which closes the connection, as Kafka does."""
    pattern = ResourcePattern(
        _named(ResourceType, message.resource_type),
        message.resource_name,
        _named(PatternType, message.resource_pattern_type),
    )
    entry = AclEntry(
        message.principal,
        message.host,
        _named(Operation, message.operation),
        _named(Permission, message.permission_type),
    )
    return AclRule(pattern, entry)


def refused(request: Request, operation: Operation) -> Refusal | None:
    """Why the request cannot be served: the client may not do the operation on the cluster, or there are no rules."""
    if not request.authorized(operation, ResourceType.CLUSTER):
        return Refusal(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"Not allowed to {operation.name.lower()} the rules of the cluster."
        )
    if not request.broker.authorizer.enabled:
        return Refusal(
            ErrorCode.SECURITY_DISABLED, "There is no access control here: authorizer.class.name is not set."
        )
    return None


def _named(kind: type[E], code: int) -> E:
    """The member with this code; UNKNOWN for a code that a later program may know."""
    if code == UNKNOWN:
        raise WireError(f"a rule or filter with {kind.__name__} UNKNOWN")
    try:
        return kind(code)
    except ValueError:
        return kind(UNKNOWN)
