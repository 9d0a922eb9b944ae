"""Access control rules: which may be created, which ones a filter deletes, what changes. Pure decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from moldau.cluster.changes import AclsChanged
from moldau.cluster.errors import Refusal
from moldau.cluster.image import ClusterImage
from moldau.cluster.image_publisher import MetadataDecision, Step
from moldau.security.acl_hosts import host_error
from moldau.security.acls import AclEntry, AclFilter, AclRule, PatternType, Permission, ResourcePattern
from moldau.security.resources import CLUSTER_NAME, Operation, ResourceType
from moldau.wire.errors import ErrorCode

Acls = Mapping[ResourcePattern, tuple[AclEntry, ...]]

MAX_COMPARISONS: Final = 1_000_000
"""How often a DeleteAcls request may compare a filter with a rule: about a second, in which the broker does nothing
else. Filters that name one pattern are looked up, and do not count."""


def create_acls(image: ClusterImage, rules: Sequence[AclRule]) -> MetadataDecision[None]:
    """Decide a CreateAcls request. A rule that exists already is a success, and is not stored again."""
    answers: list[Refusal | None] = []
    places: dict[ResourcePattern, list[int]] = {}
    added: dict[ResourcePattern, dict[AclEntry, None]] = {}
    known: dict[ResourcePattern, frozenset[AclEntry]] = {}
    for place, (pattern, entry) in enumerate(rules):
        error = rule_error(pattern, entry)
        answers.append(None if error is None else Refusal(ErrorCode.INVALID_REQUEST, error))
        if pattern not in known:
            known[pattern] = frozenset(image.security.acls.get(pattern, ()))
        if error is None and entry not in known[pattern]:
            places.setdefault(pattern, []).append(place)
            added.setdefault(pattern, {})[entry] = None
    steps = [
        Step(AclsChanged(pattern, (*image.security.acls.get(pattern, ()), *entries)), tuple(places[pattern]))
        for pattern, entries in added.items()
    ]
    return MetadataDecision(answers, steps)


def delete_acls(image: ClusterImage, filters: Sequence[AclFilter]) -> MetadataDecision[tuple[AclRule, ...]]:
    """Decide a DeleteAcls request. Each answer has all rules that its filter matches, also those that another filter of
    the request matches as well."""
    answers: list[tuple[AclRule, ...] | Refusal] = []
    places: dict[ResourcePattern, dict[int, None]] = {}
    removed: dict[ResourcePattern, set[AclEntry]] = {}
    left = MAX_COMPARISONS
    stored = sum(map(len, image.security.acls.values()))
    for place, wanted in enumerate(filters):
        if wanted.has_unknown:
            answers.append(Refusal(ErrorCode.INVALID_REQUEST, "The filter has a code that is not known."))
            continue
        if _pattern_of(wanted) is None:
            left -= stored
        if left < 0:
            answers.append(Refusal(ErrorCode.POLICY_VIOLATION, "Too many filters in one request; send fewer."))
            continue
        matching = tuple(matching_rules(image.security.acls, wanted))
        answers.append(matching)
        for pattern, entry in matching:
            places.setdefault(pattern, {})[place] = None
            removed.setdefault(pattern, set()).add(entry)
    steps = [
        Step(
            AclsChanged(pattern, tuple(entry for entry in image.security.acls[pattern] if entry not in entries)),
            tuple(places[pattern]),
        )
        for pattern, entries in removed.items()
    ]
    return MetadataDecision(answers, steps)


def matching_rules(acls: Acls, wanted: AclFilter) -> list[AclRule]:
    """The rules that a filter matches."""
    only = _pattern_of(wanted)
    some = acls if only is None else {only: acls.get(only, ())}
    return [
        rule
        for pattern, entries in some.items()
        for entry in entries
        if wanted.matches(rule := AclRule(pattern, entry))
    ]


def _pattern_of(wanted: AclFilter) -> ResourcePattern | None:
    """The only pattern whose rules a filter can match; None if there may be several."""
    exact = wanted.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED)
    if wanted.name is None or wanted.resource_type == ResourceType.ANY or not exact:
        return None
    return ResourcePattern(wanted.resource_type, wanted.name, wanted.pattern_type)


def rule_error(pattern: ResourcePattern, entry: AclEntry) -> str | None:
    """Why a rule cannot be created; None if it can."""
    if pattern.resource_type == ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}."
    if not pattern.name:
        return "A rule needs the name of a resource."
    if pattern.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        return f"Invalid resource type {pattern.resource_type.name}."
    if pattern.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Invalid pattern type {pattern.pattern_type.name}."
    if entry.operation in (Operation.UNKNOWN, Operation.ANY):
        return f"Invalid operation {entry.operation.name}."
    if entry.permission not in (Permission.DENY, Permission.ALLOW):
        return f"Invalid permission {entry.permission.name}."
    kind, colon, name = entry.principal.partition(":")
    if not (kind and colon and name):
        return f"Principal '{entry.principal}' is not of the form TYPE:NAME, such as User:alice."
    return host_error(entry.host)
