"""The ACL authorizer: Kafka's semantics, rule by rule, and parity with a reference that looks at every rule."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.security import ANONYMOUS, CLUSTER_NAME, Operation, Principal, ResourceType
from moldau.security.acl_authorizer import MAX_CACHED_DECISIONS, MAX_CACHED_NAME, AclAuthorizer
from moldau.security.acls import AclEntry, AclRule, PatternType, Permission, ResourcePattern

ALICE = Principal("User", "alice")
BOB = Principal("User", "bob")
HOST = "10.0.0.7"
ALLOW, DENY = Permission.ALLOW, Permission.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER


def rule(
    name: str = "orders",
    operation: Operation = Operation.READ,
    permission: Permission = ALLOW,
    *,
    who: str = "User:alice",
    host: str = "*",
    kind: ResourceType = TOPIC,
    pattern: PatternType = LITERAL,
) -> AclRule:
    return AclRule(ResourcePattern(kind, name, pattern), AclEntry(who, host, operation, permission))


def acls(rules: Iterable[AclRule]) -> dict[ResourcePattern, tuple[AclEntry, ...]]:
    found: dict[ResourcePattern, tuple[AclEntry, ...]] = {}
    for pattern, entry in rules:
        found[pattern] = (*found.get(pattern, ()), entry)
    return found


def authorizer(*rules: AclRule, super_users: Iterable[Principal] = (), allow_if_no_rule: bool = False) -> AclAuthorizer:
    made = AclAuthorizer(tuple(super_users), allow_if_no_rule=allow_if_no_rule)
    made.follow(acls(rules))
    return made


def may(
    one: AclAuthorizer,
    operation: Operation = Operation.READ,
    name: str = "orders",
    *,
    who: Principal = ALICE,
    host: str = HOST,
    kind: ResourceType = TOPIC,
) -> bool:
    return one.authorize(who, host, operation, kind, name)


# Who ------------------------------------------------------------------------------------------------------------------


def test_without_a_rule_nobody_may_do_anything() -> None:
    assert not may(authorizer())
    assert not may(authorizer(), Operation.CREATE, CLUSTER_NAME, kind=CLUSTER)


def test_a_rule_is_for_its_principal_only() -> None:
    one = authorizer(rule())
    assert may(one)
    assert not may(one, who=BOB)
    assert not may(one, who=ANONYMOUS)
    assert not may(one, who=Principal("Group", "alice"))
    assert not may(one, who=Principal("User", "Alice"))


def test_a_rule_for_everyone_is_also_for_clients_without_a_name() -> None:
    one = authorizer(rule(who="User:*"))
    assert may(one) and may(one, who=BOB) and may(one, who=ANONYMOUS)


def test_a_super_user_may_do_what_a_rule_denies() -> None:
    one = authorizer(rule(permission=DENY, operation=Operation.ALL, who="User:*"), super_users=[ALICE])
    assert may(one)
    assert may(one, Operation.CLUSTER_ACTION, CLUSTER_NAME, kind=CLUSTER)
    assert not may(one, who=BOB)
    assert one.decide(ALICE, HOST, Operation.READ, TOPIC, "orders").reason == "super user"


def test_the_type_of_a_super_user_counts() -> None:
    assert not may(authorizer(super_users=[Principal("Group", "alice")]))


# What -----------------------------------------------------------------------------------------------------------------


def test_a_rule_is_for_its_operation_only() -> None:
    one = authorizer(rule(operation=Operation.READ))
    assert not may(one, Operation.WRITE)
    assert not may(one, Operation.ALTER_CONFIGS)


def test_a_rule_for_all_operations_is_for_each() -> None:
    one = authorizer(rule(operation=Operation.ALL))
    assert all(may(one, operation) for operation in Operation if operation > Operation.ALL)


@pytest.mark.parametrize("operation", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER])
def test_operations_that_need_a_description_imply_describe(operation: Operation) -> None:
    one = authorizer(rule(operation=operation))
    assert may(one, Operation.DESCRIBE)
    assert not may(one, Operation.DESCRIBE_CONFIGS)


@pytest.mark.parametrize("operation", [Operation.CREATE, Operation.ALTER_CONFIGS, Operation.CLUSTER_ACTION])
def test_other_operations_do_not_imply_describe(operation: Operation) -> None:
    assert not may(authorizer(rule(operation=operation)), Operation.DESCRIBE)


def test_altering_settings_implies_describing_them() -> None:
    assert may(authorizer(rule(operation=Operation.ALTER_CONFIGS)), Operation.DESCRIBE_CONFIGS)


def test_a_denied_operation_does_not_deny_what_it_implies() -> None:
    one = authorizer(rule(operation=Operation.READ, permission=DENY), rule(operation=Operation.DESCRIBE))
    assert may(one, Operation.DESCRIBE)
    assert not may(one, Operation.READ)


def test_denied_describe_denies_it_to_a_reader_but_not_the_reading() -> None:
    one = authorizer(rule(operation=Operation.DESCRIBE, permission=DENY), rule(operation=Operation.READ))
    assert not may(one, Operation.DESCRIBE)
    assert may(one, Operation.READ)


# On what --------------------------------------------------------------------------------------------------------------


def test_a_literal_rule_is_for_its_name_only() -> None:
    one = authorizer(rule("orders"))
    assert not may(one, name="orders2")
    assert not may(one, name="order")
    assert not may(one, name="orders", kind=GROUP)


def test_a_prefixed_rule_is_for_all_names_that_begin_so() -> None:
    one = authorizer(rule("ord", pattern=PREFIXED))
    assert may(one, name="ord") and may(one, name="orders")
    assert not may(one, name="or")
    assert not may(one, name="orders", kind=GROUP)


def test_prefixes_of_every_length_are_found() -> None:
    for length in range(1, len("orders") + 1):
        assert may(authorizer(rule("orders"[:length], pattern=PREFIXED), rule("x" * length, pattern=PREFIXED)))


def test_a_wildcard_rule_is_for_every_name_of_its_type() -> None:
    one = authorizer(rule("*"))
    assert may(one, name="anything") and may(one, name="*")
    assert not may(one, name="anything", kind=GROUP)


def test_a_wildcard_rule_covers_names_that_begin_with_a_star() -> None:
    """Not in Kafka's StandardAuthorizer: a denied `*` would not deny the group `*x`."""
    assert may(authorizer(rule("*", kind=GROUP)), name="*x", kind=GROUP)
    assert not may(authorizer(rule("*x", kind=GROUP), rule("*", permission=DENY, kind=GROUP)), name="*x", kind=GROUP)


def test_a_prefixed_star_is_a_prefix_and_not_a_wildcard() -> None:
    one = authorizer(rule("*", pattern=PREFIXED))
    assert not may(one)
    assert may(one, name="*x")


@pytest.mark.parametrize("allowed", [("orders", LITERAL), ("or", PREFIXED), ("*", LITERAL)])
@pytest.mark.parametrize("denied", [("orders", LITERAL), ("or", PREFIXED), ("*", LITERAL)])
def test_a_deny_rule_wins_over_every_allow_rule(
    allowed: tuple[str, PatternType], denied: tuple[str, PatternType]
) -> None:
    refusing = rule(denied[0], permission=DENY, pattern=denied[1], who="User:*")
    one = authorizer(rule(allowed[0], pattern=allowed[1]), refusing)
    assert not may(one)
    assert one.decide(ALICE, HOST, Operation.READ, TOPIC, "orders").rule == refusing


def test_the_deciding_rule_is_named() -> None:
    allowing = rule("ord", pattern=PREFIXED)
    one = authorizer(allowing)
    assert one.decide(ALICE, HOST, Operation.DESCRIBE, TOPIC, "orders") == (True, allowing, "rule")
    assert one.decide(ALICE, HOST, Operation.WRITE, TOPIC, "orders") == (False, None, "no rule")


# From where -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "client", "matches"),
    [
        ("*", "10.0.0.7", True),
        ("10.0.0.7", "10.0.0.7", True),
        ("10.0.0.7", "10.0.0.70", False),
        ("10.0.0.7", "::ffff:10.0.0.7", True),
        ("::1", "::1", True),
        ("0:0:0:0:0:0:0:1", "::1", True),
        ("fe80::1", "fe80::1%eth0", True),
        ("10.0.0.0/24", "10.0.0.7", True),
        ("10.0.0.0/24", "::ffff:10.0.0.7", True),
        ("10.0.0.0/24", "10.0.1.7", False),
        ("10.0.0.5/24", "10.0.0.7", True),
        ("2001:db8::/32", "2001:db8::5", True),
        ("2001:db8::/32", "10.0.0.7", False),
        ("0.0.0.0/0", "10.0.0.7", True),
        ("10.0.0.0/99", "10.0.0.7", False),
        ("nonsense/8", "10.0.0.7", False),
        ("db.example.org", "10.0.0.7", False),
        ("client-1", "client-1", True),
        ("10.0.0.0/8", "client-1", False),
        ("10.0.0.7", "?", False),
    ],
)
def test_the_host_of_a_rule_is_everywhere_or_an_address_or_a_network(host: str, client: str, matches: bool) -> None:
    assert may(authorizer(rule(host=host)), host=client) is matches
    assert may(authorizer(rule(), rule(host=host, permission=DENY)), host=client) is not matches


# By default -----------------------------------------------------------------------------------------------------------


def test_everyone_is_allowed_where_no_rule_covers_the_resource_if_the_setting_says_so() -> None:
    one = authorizer(
        rule("orders", who="User:bob"), rule("pay", who="User:bob", pattern=PREFIXED), allow_if_no_rule=True
    )
    assert may(one, name="other")
    assert not may(one, name="orders")
    assert not may(one, name="payments")
    assert may(one, name="orders", kind=GROUP)
    wildcard = authorizer(rule("*", who="User:bob"), allow_if_no_rule=True)
    assert not may(wildcard, name="other")


# Any resource of a type (KIP-679) -------------------------------------------------------------------------------------


def may_any(one: AclAuthorizer, operation: Operation = Operation.WRITE, who: Principal = ALICE) -> bool:
    return one.decide_any(who, HOST, operation, TOPIC).allowed


def writes(name: str, permission: Permission = ALLOW, pattern: PatternType = LITERAL, **more: str) -> AclRule:
    return rule(name, Operation.WRITE, permission, pattern=pattern, **more)  # type: ignore[arg-type]


def test_some_topic_is_enough() -> None:
    assert may_any(authorizer(writes("orders")))
    assert may_any(authorizer(writes("ord", pattern=PREFIXED)))
    assert may_any(authorizer(writes("*")))
    assert may_any(authorizer(rule(operation=Operation.ALL)))
    assert may_any(authorizer(super_users=[ALICE]))
    assert may_any(authorizer(allow_if_no_rule=True))


def test_no_topic_of_this_principal_host_and_operation_is_not() -> None:
    assert not may_any(authorizer())
    assert not may_any(authorizer(writes("orders")), who=BOB)
    assert not may_any(authorizer(writes("orders", host="10.9.9.9")))
    assert not may_any(authorizer(rule(operation=Operation.READ)))
    assert not may_any(authorizer(writes("orders", kind=GROUP)))  # type: ignore[arg-type]


def test_an_allowed_name_that_is_denied_as_a_whole_does_not_count() -> None:
    assert not may_any(authorizer(writes("orders"), writes("orders", DENY)))
    assert not may_any(authorizer(writes("orders"), writes("or", DENY, PREFIXED)))
    assert not may_any(authorizer(writes("ord", pattern=PREFIXED), writes("or", DENY, PREFIXED)))
    assert not may_any(authorizer(writes("ord", pattern=PREFIXED), writes("ord", DENY, PREFIXED)))
    assert not may_any(authorizer(writes("*"), writes("*", DENY)))
    assert may_any(authorizer(writes("or", pattern=PREFIXED), writes("ord", DENY, PREFIXED)))
    assert may_any(authorizer(writes("or", pattern=PREFIXED), writes("or", DENY)))
    assert may_any(authorizer(writes("*"), writes("o", DENY, PREFIXED)))


# Cache ----------------------------------------------------------------------------------------------------------------


def test_changed_rules_are_in_force_at_once() -> None:
    one = authorizer(rule())
    assert may(one) and not may(one, who=BOB) and not may_any(one)
    one.follow(acls([rule(who="User:bob"), writes("x")]))
    assert not may(one) and may(one, who=BOB) and may_any(one)
    one.follow({})
    assert not may(one) and not may(one, who=BOB) and not may_any(one)


def test_entries_added_to_a_known_pattern_are_in_force() -> None:
    first, second = rule(), rule(who="User:bob")
    one = authorizer(first)
    assert may(one)
    one.follow(acls([first, second]))
    assert may(one) and may(one, who=BOB)


def test_the_cache_is_bounded_in_number_and_in_size() -> None:
    one = authorizer(rule("*"))
    for number in range(MAX_CACHED_DECISIONS + 10):
        may(one, name=f"topic-{number}")
    assert len(one._decisions) <= MAX_CACHED_DECISIONS
    one.follow(acls([rule("*")]))
    assert may(one, name="x" * (MAX_CACHED_NAME + 1))
    assert not one._decisions


# Parity ---------------------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "ab", "abc", "b", "*", "hardcode", "abcd"])
OPERATIONS = st.sampled_from(
    [Operation.ALL, Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALTER_CONFIGS, Operation.CREATE]
)
ASKED = st.sampled_from([Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS])
HOSTS = st.sampled_from(["*", "10.0.0.7", "10.0.0.0/24", "10.0.0.8", "::1"])
WHO = st.sampled_from(["User:alice", "User:bob", "User:*", "Group:alice"])
RULES = st.lists(
    st.builds(
        AclRule,
        st.builds(
            ResourcePattern, st.sampled_from([TOPIC, GROUP]), NAMES, st.sampled_from([LITERAL, LITERAL, PREFIXED])
        ),
        st.builds(AclEntry, WHO, HOSTS, OPERATIONS, st.sampled_from([ALLOW, ALLOW, DENY])),
    ),
    max_size=8,
)


def reference_host(entry: AclEntry, host: str) -> bool:
    return entry.host == "*" or ip_address(host) in ip_network(entry.host)


def reference(
    rules: list[AclRule], who: Principal, host: str, operation: Operation, kind: ResourceType, name: str, default: bool
) -> bool:
    """The definition, rule by rule."""
    implying = {
        Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
        Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
    }.get(operation, set())
    covering = [
        entry
        for pattern, entry in rules
        if pattern.resource_type == kind
        and (
            (pattern.pattern_type == LITERAL and pattern.name in (name, "*"))
            or (pattern.pattern_type == PREFIXED and name.startswith(pattern.name))
        )
    ]
    mine = [one for one in covering if one.principal in (str(who), "User:*") and reference_host(one, host)]
    if any(one.permission == DENY and one.operation in (operation, Operation.ALL) for one in mine):
        return False
    if any(one.permission == ALLOW and one.operation in {operation, Operation.ALL} | implying for one in mine):
        return True
    return default and not covering


def reference_any(
    rules: list[AclRule], who: Principal, host: str, operation: Operation, kind: ResourceType, default: bool
) -> bool:
    if reference(rules, who, host, operation, kind, "hardcode", default):
        return True
    mine = [
        (pattern, entry.permission)
        for pattern, entry in rules
        if pattern.resource_type == kind
        and entry.principal in (str(who), "User:*")
        and reference_host(entry, host)
        and entry.operation in (operation, Operation.ALL)
    ]
    allowed = [pattern for pattern, permission in mine if permission == ALLOW]
    denied = [pattern for pattern, permission in mine if permission == DENY]
    if any(one.name == "*" and one.pattern_type == LITERAL for one in denied):
        return False

    def dominated(pattern: ResourcePattern) -> bool:
        if pattern.name == "*" and pattern.pattern_type == LITERAL:
            return False
        return (pattern.pattern_type == LITERAL and pattern in denied) or any(
            one.pattern_type == PREFIXED and pattern.name.startswith(one.name) for one in denied
        )

    return any(not dominated(one) for one in allowed)


@settings(max_examples=600, deadline=None)
@given(
    before=RULES,
    rules=RULES,
    who=st.sampled_from([ALICE, BOB, Principal("Group", "alice")]),
    host=st.sampled_from(["10.0.0.7", "10.0.0.8", "::1"]),
    operation=ASKED,
    kind=st.sampled_from([TOPIC, GROUP]),
    name=NAMES,
    default=st.booleans(),
)
def test_decisions_are_those_of_the_reference(
    before: list[AclRule],
    rules: list[AclRule],
    who: Principal,
    host: str,
    operation: Operation,
    kind: ResourceType,
    name: str,
    default: bool,
) -> None:
    one = authorizer(*before, allow_if_no_rule=default)
    one.authorize(who, host, operation, kind, name)
    one.decide_any(who, host, operation, kind)
    one.follow(acls(rules))
    for _ in range(2):  # decided, and from the cache
        wanted = reference(rules, who, host, operation, kind, name, default)
        assert one.authorize(who, host, operation, kind, name) is wanted
        decision = one.decide(who, host, operation, kind, name)
        assert decision.allowed is wanted
        assert decision.rule is None or decision.rule in rules
        wanted_any = reference_any(rules, who, host, operation, kind, default)
        assert one.decide_any(who, host, operation, kind).allowed is wanted_any
