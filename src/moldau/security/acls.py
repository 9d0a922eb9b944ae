"""Access control rules: resource patterns, rule entries and filters, with Kafka's codes.

Pure values. `cluster/` stores them, an authorizer decides by them, and clients name them in requests.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from moldau.security.resources import Operation, ResourceType

WILDCARD: Final = "*"
"""As resource name in a literal pattern: every resource of the type. As host: every host."""

ANY_PRINCIPAL: Final = "User:*"


class PatternType(IntEnum):
    """How a pattern's name is compared with the name of a resource. UNKNOWN, ANY and MATCH occur in filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """The effect of a rule. UNKNOWN and ANY occur in filters only."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class ResourcePattern(NamedTuple):
    """The resources that a rule is about: one name, every name with a prefix, or every name (a literal `*`)."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    def covers(self, name: str) -> bool:
        """Whether a resource of this type with that name is covered by the pattern."""
        if self.pattern_type == PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)


class AclEntry(NamedTuple):
    """One rule of a pattern: who may, or may not, do what, and from where."""

    principal: str
    """`User:alice`, or `User:*` for everyone."""
    host: str
    """An IP address, a network in CIDR notation (an extension of Kafka's rules), or `*`."""
    operation: Operation
    permission: Permission


class AclRule(NamedTuple):
    """A rule with its pattern, as CreateAcls and DescribeAcls name it."""

    pattern: ResourcePattern
    entry: AclEntry


class AclFilter(NamedTuple):
    """A filter of DescribeAcls and DeleteAcls. ANY and None match everything."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    @property
    def has_unknown(self) -> bool:
        """Whether it names a type, an operation or a permission that this program does not know. It matches nothing."""
        return 0 in (self.resource_type, self.pattern_type, self.operation, self.permission)

    @classmethod
    def exactly(cls, rule: AclRule) -> AclFilter:
        """The filter that matches this rule only."""
        pattern, entry = rule
        return cls(
            pattern.resource_type,
            pattern.name,
            pattern.pattern_type,
            entry.principal,
            entry.host,
            entry.operation,
            entry.permission,
        )

    def matches(self, rule: AclRule) -> bool:
        pattern, entry = rule
        return (
            self._matches_pattern(pattern)
            and self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )

    def _matches_pattern(self, pattern: ResourcePattern) -> bool:
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type == PatternType.MATCH:
            return pattern.covers(self.name)
        return pattern.name == self.name
