"""ACL authorizer: decides by the rules of the cluster, with the semantics of Kafka's StandardAuthorizer.

The order of a decision:

1. A super user may do everything.
2. A matching DENY rule refuses, however many rules allow.
3. A matching ALLOW rule allows.
4. If no rule for any principal covers the resource, `allow.everyone.if.no.acl.found` decides. Otherwise it is refused.

A rule matches if its pattern covers the resource and it names the principal or `User:*`, the host or `*`, and the
operation or ALL. Only in ALLOW rules do operations imply others: see `IMPLIED_BY`. Beyond Kafka, a rule may name a
network in CIDR notation as its host.

The rules are looked up by pattern: the literal name, each prefix that has rules, and `*`. So the cost of a decision
does not depend on the number of rules. Decisions are cached until the rules change.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

from moldau.security.acls import ANY_PRINCIPAL, WILDCARD, AclEntry, AclRule, PatternType, Permission, ResourcePattern
from moldau.security.authorizer import Decision
from moldau.security.resources import Operation, Principal, ResourceType

IMPLIED_BY: Final[Mapping[Operation, frozenset[Operation]]] = {
    Operation.DESCRIBE: frozenset((Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)),
    Operation.DESCRIBE_CONFIGS: frozenset((Operation.ALTER_CONFIGS,)),
}
"""An ALLOW rule for one of these operations allows the key as well. A DENY rule denies only its own operation."""

MAX_CACHED_DECISIONS: Final = 50_000
"""When so many decisions are cached, all are dropped. One takes about 300 bytes."""
MAX_CACHED_NAME: Final = 249
"""Decisions about longer names are not cached: topics have no longer names, and a client that invents group ids of
32 KB each must not fill the memory."""

SUPER_USER: Final = Decision(True, None, "super user")
NO_RULE: Final = Decision(False, None, "no rule")
NO_RULE_FOR_RESOURCE: Final = Decision(True, None, "allow.everyone.if.no.acl.found")

_UNNAMED: Final = "hardcode"
"""The name with which Kafka asks whether a principal may do an operation on some resource of a type, before it looks
at the single rules. A super user and `allow.everyone.if.no.acl.found` are found in this way."""

Acls = Mapping[ResourcePattern, tuple[AclEntry, ...]]
_Key = tuple[Principal, str, Operation, ResourceType, str | None]


class AclAuthorizer:
    """The authorizer of a broker with access control. `follow` gives it the rules of each new cluster image."""

    __slots__ = ("_acls", "_allow_if_no_rule", "_decisions", "_prefix_lengths", "_rules_by_principal", "_super_users")

    enabled = True

    def __init__(self, super_users: Collection[Principal] = (), *, allow_if_no_rule: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._allow_if_no_rule = allow_if_no_rule
        self._acls: dict[ResourcePattern, _PatternRules] = {}
        self._prefix_lengths: dict[ResourceType, list[int]] = {}
        self._decisions: dict[_Key, Decision] = {}
        self._rules_by_principal: dict[tuple[str, ResourceType], list[AclRule]] | None = None

    def follow(self, acls: Acls) -> None:
        before = self._acls
        self._acls = {}
        lengths: dict[ResourceType, set[int]] = {}
        for pattern, entries in acls.items():
            known = before.get(pattern)
            self._acls[pattern] = known if known is not None and known.entries is entries else _PatternRules(entries)
            if pattern.pattern_type == PatternType.PREFIXED:
                lengths.setdefault(pattern.resource_type, set()).add(len(pattern.name))
        self._prefix_lengths = {kind: sorted(found, reverse=True) for kind, found in lengths.items()}
        self._rules_by_principal = None
        self._decisions.clear()

    # -- decisions -------------------------------------------------------------------------------------------------

    def authorize(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        decision = self._decisions.get((principal, host, operation, resource_type, resource_name))
        if decision is None:
            decision = self._remember(principal, host, operation, resource_type, resource_name)
        return decision.allowed

    def decide(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> Decision:
        decision = self._decisions.get((principal, host, operation, resource_type, resource_name))
        return decision or self._remember(principal, host, operation, resource_type, resource_name)

    def decide_any(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> Decision:
        key = (principal, host, operation, resource_type, None)
        decision = self._decisions.get(key)
        if decision is None:
            decision = self._decide_any(principal, host, operation, resource_type)
            self._cache(key, decision)
        return decision

    def _remember(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> Decision:
        decision = self._decide(principal, host, operation, resource_type, name)
        if len(name) <= MAX_CACHED_NAME:
            self._cache((principal, host, operation, resource_type, name), decision)
        return decision

    def _cache(self, key: _Key, decision: Decision) -> None:
        if len(self._decisions) >= MAX_CACHED_DECISIONS:
            self._decisions.clear()
        self._decisions[key] = decision

    def _decide(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> Decision:
        if principal in self._super_users:
            return SUPER_USER
        who, where = str(principal), ClientAddress(host)
        allow: AclRule | None = None
        covered = False
        for pattern, rules in self._covering(resource_type, name):
            covered = True
            for entry in rules.of(who):
                if not (applies(entry, operation) and where.matches(entry.host)):
                    continue
                if entry.permission == Permission.DENY:
                    return Decision(False, AclRule(pattern, entry), "rule")
                allow = allow or AclRule(pattern, entry)
        if allow is not None:
            return Decision(True, allow, "rule")
        return NO_RULE_FOR_RESOURCE if self._allow_if_no_rule and not covered else NO_RULE

    def _covering(self, resource_type: ResourceType, name: str) -> Iterator[tuple[ResourcePattern, _PatternRules]]:
        """The patterns with rules that cover the resource, most specific first."""
        lengths = self._prefix_lengths.get(resource_type, ())
        prefixes = [name[:length] for length in lengths if length <= len(name)]
        patterns = [
            ResourcePattern(resource_type, name),
            *(ResourcePattern(resource_type, prefix, PatternType.PREFIXED) for prefix in prefixes),
        ]
        if name != WILDCARD:
            patterns.append(ResourcePattern(resource_type, WILDCARD))
        for pattern in patterns:
            rules = self._acls.get(pattern)
            if rules is not None:
                yield pattern, rules

    # -- any resource of a type ------------------------------------------------------------------------------------

    def _decide_any(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> Decision:
        """Whether some resource of the type is allowed, as far as the rules tell: a rule allows a name or a prefix, and
        no rule denies all of it. Implied operations do not count, as in Kafka."""
        by_default = self._decide(principal, host, operation, resource_type, _UNNAMED)
        if by_default.allowed:
            return by_default
        where = ClientAddress(host)
        allowed: list[AclRule] = []
        denied: dict[ResourcePattern, AclRule] = {}
        for rule in self._rules_of(str(principal), resource_type):
            if rule.entry.operation in (operation, Operation.ALL) and where.matches(rule.entry.host):
                if rule.entry.permission == Permission.DENY:
                    denied[rule.pattern] = rule
                else:
                    allowed.append(rule)
        everything = ResourcePattern(resource_type, WILDCARD)
        if everything in denied:
            return Decision(False, denied[everything], "rule")
        lengths = {len(one.name) for one in denied if one.pattern_type == PatternType.PREFIXED}
        for rule in allowed:
            if rule.pattern == everything or not _denied_whole(rule.pattern, denied, lengths):
                return Decision(True, rule, "rule")
        return NO_RULE

    def _rules_of(self, who: str, resource_type: ResourceType) -> list[AclRule]:
        if self._rules_by_principal is None:
            found: dict[tuple[str, ResourceType], list[AclRule]] = {}
            for pattern, rules in self._acls.items():
                for entry in rules.entries:
                    found.setdefault((entry.principal, pattern.resource_type), []).append(AclRule(pattern, entry))
            self._rules_by_principal = found
        index = self._rules_by_principal
        own = index.get((who, resource_type), [])
        return own if who == ANY_PRINCIPAL else own + index.get((ANY_PRINCIPAL, resource_type), [])


class _PatternRules:
    """The entries of one pattern, by principal. Sorted out at first use: most patterns are never asked for."""

    __slots__ = ("_by_principal", "entries")

    def __init__(self, entries: tuple[AclEntry, ...]) -> None:
        self.entries = entries
        self._by_principal: dict[str, list[AclEntry]] | None = None

    def of(self, who: str) -> list[AclEntry]:
        """The entries for a principal, with those for everyone."""
        if self._by_principal is None:
            self._by_principal = {}
            for entry in self.entries:
                self._by_principal.setdefault(entry.principal, []).append(entry)
        own = self._by_principal.get(who, [])
        return own if who == ANY_PRINCIPAL else own + self._by_principal.get(ANY_PRINCIPAL, [])


class ClientAddress:
    """The host of a client, compared with the hosts of rules: as text, as address, or as member of a network."""

    __slots__ = ("_address", "_text")

    def __init__(self, host: str) -> None:
        self._text = host
        self._address = _address_of(host)

    def matches(self, rule_host: str) -> bool:
        if rule_host in (WILDCARD, self._text):
            return True
        if self._address is None:
            return False
        if "/" in rule_host:
            return _in_network(self._address, rule_host)
        return _address_of(rule_host) == self._address


def applies(entry: AclEntry, operation: Operation) -> bool:
    """Whether an entry is about an operation. Operations imply others in ALLOW rules only."""
    if entry.operation in (operation, Operation.ALL):
        return True
    return entry.permission == Permission.ALLOW and entry.operation in IMPLIED_BY.get(operation, ())


def _address_of(host: str) -> IPv4Address | IPv6Address | None:
    """The address, or None for other text. A dual-stack socket names IPv4 clients `::ffff:A.B.C.D`; rules do not."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _in_network(address: IPv4Address | IPv6Address, network: str) -> bool:
    try:
        return address in ip_network(network, strict=False)
    except ValueError:
        return False


def _denied_whole(pattern: ResourcePattern, denied: Container[ResourcePattern], prefix_lengths: Iterable[int]) -> bool:
    """Whether a deny rule covers everything that the pattern covers."""
    kind, name, pattern_type = pattern
    if pattern_type == PatternType.LITERAL and pattern in denied:
        return True
    prefixes = (name[:length] for length in prefix_lengths if length <= len(name))
    return any(ResourcePattern(kind, prefix, PatternType.PREFIXED) in denied for prefix in prefixes)
