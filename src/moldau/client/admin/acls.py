"""Access control calls of the admin client: create, describe and delete rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import TypeVar

from moldau.client import arguments
from moldau.client.admin.calls import Calls, Fixed
from moldau.client.admin.outcome import Answers, checked, judged, settled
from moldau.client.errors import MoldauError
from moldau.client.network import ANY_NODE
from moldau.security.acls import AclEntry, AclFilter, AclRule, PatternType, Permission, ResourcePattern
from moldau.security.resources import CLUSTER_NAME, Operation, ResourceType
from moldau.wire.messages.create_acls import CreateAclsRequest, CreateAclsRequestCreation, CreateAclsResponse
from moldau.wire.messages.delete_acls import (
    DeleteAclsRequest,
    DeleteAclsRequestFilter,
    DeleteAclsResponse,
    DeleteAclsResponseFilter,
)
from moldau.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

E = TypeVar("E", bound=IntEnum)

EVERY_RULE = AclFilter()
A_RULE = '`allow("User:alice", "read", "topic", "orders")` returns'
A_FILTER = 'AclFilter(principal="User:alice")'


def allow(
    principal: str,
    operation: Operation | str,
    resource_type: ResourceType | str,
    name: str = CLUSTER_NAME,
    *,
    prefixed: bool = False,
    host: str = "*",
) -> AclRule:
    """A rule that allows an operation: `allow("User:alice", "read", "topic", "orders-", prefixed=True)`.

    The principal `User:*` is everyone, the name `*` every resource of the type. The host is an IP address, a network
    such as `10.0.0.0/8` (an extension of Moldau), or `*`.
    """
    return _rule(Permission.ALLOW, principal, operation, resource_type, name, prefixed, host)


def deny(
    principal: str,
    operation: Operation | str,
    resource_type: ResourceType | str,
    name: str = CLUSTER_NAME,
    *,
    prefixed: bool = False,
    host: str = "*",
) -> AclRule:
    """A rule that denies an operation, whatever other rules allow. The arguments are those of `allow`."""
    return _rule(Permission.DENY, principal, operation, resource_type, name, prefixed, host)


def _rule(
    permission: Permission,
    principal: str,
    operation: Operation | str,
    resource_type: ResourceType | str,
    name: str,
    prefixed: bool,
    host: str,
) -> AclRule:
    pattern = ResourcePattern(
        named_member("resource_type", resource_type, ResourceType),
        arguments.text("name", name),
        PatternType.PREFIXED if prefixed else PatternType.LITERAL,
    )
    who, where = arguments.text("principal", principal), arguments.text("host", host)
    return AclRule(pattern, AclEntry(who, where, named_member("operation", operation, Operation), permission))


def named_member(name: str, given: object, kind: type[E]) -> E:
    """A member of an enumeration, or its name in any case, with dashes or underscores."""
    if isinstance(given, kind):
        return given
    text = arguments.text(name, given).upper().replace("-", "_")
    if text not in kind.__members__:
        arguments.refuse(name, given, f"one of {', '.join(member.lower() for member in kind.__members__)}")
    return kind[text]


def create_request(rules: Sequence[AclRule]) -> CreateAclsRequest:
    return CreateAclsRequest(
        creations=[
            CreateAclsRequestCreation(
                resource_type=pattern.resource_type,
                resource_name=pattern.name,
                resource_pattern_type=pattern.pattern_type,
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission,
            )
            for pattern, entry in rules
        ]
    )


def read_created(response: CreateAclsResponse, rules: Sequence[AclRule]) -> Answers[AclRule, None]:
    return {
        rule: judged(result.error_code, f"creating the rule {rule_text(rule)}", result.error_message)
        for rule, result in zip(rules, response.results, strict=False)
    }


def describe_request(wanted: AclFilter) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )


def read_described(response: DescribeAclsResponse) -> list[AclRule]:
    checked(response.error_code, "describing rules", response.error_message)
    return sorted(
        AclRule(
            ResourcePattern(_known(ResourceType, at.resource_type), at.resource_name, PatternType(at.pattern_type)),
            AclEntry(
                acl.principal, acl.host, _known(Operation, acl.operation), _known(Permission, acl.permission_type)
            ),
        )
        for at in response.resources
        for acl in at.acls
    )


def delete_request(filters: Sequence[AclFilter]) -> DeleteAclsRequest:
    return DeleteAclsRequest(
        filters=[
            DeleteAclsRequestFilter(
                resource_type_filter=wanted.resource_type,
                resource_name_filter=wanted.name,
                pattern_type_filter=wanted.pattern_type,
                principal_filter=wanted.principal,
                host_filter=wanted.host,
                operation=wanted.operation,
                permission_type=wanted.permission,
            )
            for wanted in filters
        ]
    )


def read_deleted(response: DeleteAclsResponse, filters: Sequence[AclFilter]) -> Answers[AclFilter, list[AclRule]]:
    return {wanted: _deleted(result) for wanted, result in zip(filters, response.filter_results, strict=False)}


def _deleted(result: DeleteAclsResponseFilter) -> list[AclRule] | MoldauError:
    error = judged(result.error_code, "deleting rules", result.error_message)
    for acl in result.matching_acls:
        error = error or judged(acl.error_code, f"deleting a rule of {acl.principal}", acl.error_message)
    return error or sorted(
        AclRule(
            ResourcePattern(_known(ResourceType, acl.resource_type), acl.resource_name, PatternType(acl.pattern_type)),
            AclEntry(
                acl.principal, acl.host, _known(Operation, acl.operation), _known(Permission, acl.permission_type)
            ),
        )
        for acl in result.matching_acls
    )


def _known(kind: type[E], code: int) -> E:
    """The member with this code; UNKNOWN for one of a newer broker."""
    try:
        return kind(code)
    except ValueError:
        return kind(0)


def rule_text(rule: AclRule) -> str:
    """A rule in one line, for messages."""
    (kind, name, pattern_type), (principal, host, operation, permission) = rule
    where = "" if host == "*" else f" from {host}"
    prefixed = " prefixed" if pattern_type == PatternType.PREFIXED else ""
    verb = permission.name.lower()
    return f"{verb} {principal}{where} to {operation.name.lower()} {kind.name.lower()}{prefixed} '{name}'"


def _a_rule(name: str, given: AclRule) -> AclRule:
    return arguments.instance(name, given, AclRule, A_RULE)


def _a_filter(name: str, given: AclFilter) -> AclFilter:
    return arguments.instance(name, given, AclFilter, A_FILTER)


class AclCalls(Calls):
    """Admin calls about access control."""

    async def create_acls(self, rules: AclRule | Iterable[AclRule], *, timeout: float | None = None) -> None:
        """Create rules. A rule that exists already is a success.

        Raises SecurityDisabled if the cluster has no access control.
        """
        some = [rules] if isinstance(rules, AclRule) else rules
        settled(
            await self._each(
                arguments.several("rules", some, _a_rule, f"AclRule objects, such as {A_RULE}"),
                Fixed[AclRule](ANY_NODE),
                create_request,
                read_created,
                deadline=self._deadline(timeout),
                what="creating the rule",
            )
        )

    async def describe_acls(self, wanted: AclFilter = EVERY_RULE, *, timeout: float | None = None) -> list[AclRule]:
        """Return the rules that a filter matches; all rules without a filter."""
        return await self._once(
            ANY_NODE,
            describe_request(_a_filter("wanted", wanted)),
            read_described,
            deadline=self._deadline(timeout),
            what="describing rules",
        )

    async def delete_acls(
        self, filters: AclFilter | Iterable[AclFilter], *, timeout: float | None = None
    ) -> dict[AclFilter, list[AclRule]]:
        """Delete all rules that match one of the filters. Return the deleted rules of each filter."""
        some = [filters] if isinstance(filters, AclFilter) else filters
        return settled(
            await self._each(
                arguments.several("filters", some, _a_filter, f"AclFilter objects, such as {A_FILTER}"),
                Fixed[AclFilter](ANY_NODE),
                delete_request,
                read_deleted,
                deadline=self._deadline(timeout),
                what="deleting the rules of",
            )
        )
