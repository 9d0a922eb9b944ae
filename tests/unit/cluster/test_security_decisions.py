"""Decisions about rules, users and quotas: what is refused, and what changes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from moldau.cluster import acl_decisions
from moldau.cluster.acl_decisions import create_acls, delete_acls, matching_rules, rule_error
from moldau.cluster.changes import AclsChanged, ClientQuotasChanged, UserCredentialsChanged
from moldau.cluster.errors import Refusal
from moldau.cluster.image import ClusterImage
from moldau.cluster.quota_decisions import QuotaAlteration, alter_quotas, entity_parts
from moldau.cluster.scram_decisions import (
    CredentialDeletion,
    CredentialUpsertion,
    UserAlteration,
    alter_credentials,
)
from moldau.cluster.security_image import SecurityImage
from moldau.security.acls import AclEntry, AclFilter, AclRule, PatternType, Permission, ResourcePattern
from moldau.security.credentials import ScramMechanism
from moldau.security.quota_entities import DEFAULT, QuotaEntity
from moldau.security.resources import Operation, ResourceType
from moldau.security.scram_keys import new_credential, salted_password
from moldau.wire.errors import ErrorCode

T = ResourcePattern(ResourceType.TOPIC, "t")
U = ResourcePattern(ResourceType.TOPIC, "u", PatternType.PREFIXED)
READ = AclEntry("User:alice", "*", Operation.READ, Permission.ALLOW)
WRITE = AclEntry("User:alice", "*", Operation.WRITE, Permission.ALLOW)
SHA_256 = ScramMechanism.SCRAM_SHA_256
SHA_512 = ScramMechanism.SCRAM_SHA_512


def image(**parts: object) -> ClusterImage:
    return replace(ClusterImage("c"), security=SecurityImage(**parts))  # type: ignore[arg-type]


# Rules ----------------------------------------------------------------------------------------------------------------


def test_rules_of_one_pattern_are_one_change_that_answers_all_of_them() -> None:
    decision = create_acls(image(acls={T: (READ,)}), [AclRule(T, WRITE), AclRule(U, READ), AclRule(T, WRITE)])
    assert decision.answers == [None, None, None]
    assert [(step.change, step.places) for step in decision.steps] == [
        (AclsChanged(T, (READ, WRITE)), (0, 2)),
        (AclsChanged(U, (READ,)), (1,)),
    ]


def test_a_rule_that_exists_is_not_stored_again() -> None:
    decision = create_acls(image(acls={T: (READ,)}), [AclRule(T, READ)])
    assert (decision.answers, decision.steps) == ([None], [])


def test_a_refused_rule_does_not_stop_the_others() -> None:
    bad = READ._replace(principal="alice")
    decision = create_acls(image(), [AclRule(T, bad), AclRule(T, READ)])
    assert isinstance(decision.answers[0], Refusal)
    assert decision.answers[0].code == ErrorCode.INVALID_REQUEST
    assert [step.change for step in decision.steps] == [AclsChanged(T, (READ,))]


@pytest.mark.parametrize("host", ["*", "10.0.0.1", "::1", "10.0.0.0/8", "10.1.2.3/8", "fe80::/10"])
def test_addresses_and_networks_are_hosts(host: str) -> None:
    assert rule_error(T, READ._replace(host=host)) is None


@pytest.mark.parametrize("host", ["", "localhost", "10.0.0.256", "10.0.0.0/33", "10.0.0.*", " 10.0.0.1", "**"])
def test_a_host_that_no_client_can_have_is_refused_and_named(host: str) -> None:
    error = rule_error(T, READ._replace(host=host))
    assert error is not None
    assert f"'{host}'" in error


@pytest.mark.parametrize("principal", ["", "alice", "User:", ":alice", ":"])
def test_a_principal_without_type_or_name_is_refused(principal: str) -> None:
    assert rule_error(T, READ._replace(principal=principal)) is not None


@pytest.mark.parametrize(
    ("pattern", "entry"),
    [
        (T._replace(resource_type=ResourceType.ANY), READ),
        (T._replace(resource_type=ResourceType.UNKNOWN), READ),
        (T._replace(pattern_type=PatternType.ANY), READ),
        (T._replace(pattern_type=PatternType.MATCH), READ),
        (T._replace(name=""), READ),
        (ResourcePattern(ResourceType.CLUSTER, "c"), READ),
        (T, READ._replace(operation=Operation.ANY)),
        (T, READ._replace(operation=Operation.UNKNOWN)),
        (T, READ._replace(permission=Permission.ANY)),
        (T, READ._replace(permission=Permission.UNKNOWN)),
    ],
)
def test_what_only_filters_may_say_is_no_rule(pattern: ResourcePattern, entry: AclEntry) -> None:
    assert rule_error(pattern, entry) is not None


def test_a_deletion_leaves_the_other_rules_and_answers_each_filter() -> None:
    here = image(acls={T: (READ, WRITE), U: (READ,)})
    filters = [
        AclFilter(name="t", operation=Operation.READ),
        AclFilter(operation=Operation.READ),
        AclFilter(name="v"),
        AclFilter(resource_type=ResourceType.UNKNOWN),
    ]
    decision = delete_acls(here, filters)
    assert decision.answers[:3] == [(AclRule(T, READ),), (AclRule(T, READ), AclRule(U, READ)), ()]
    assert isinstance(decision.answers[3], Refusal)
    assert [(step.change, step.places) for step in decision.steps] == [
        (AclsChanged(T, (WRITE,)), (0, 1)),
        (AclsChanged(U, ()), (1,)),
    ]


def test_a_filter_that_names_one_pattern_is_looked_up() -> None:
    acls = {ResourcePattern(ResourceType.TOPIC, f"t{number}"): (READ, WRITE) for number in range(100)}
    for kind in (PatternType.LITERAL, PatternType.PREFIXED, PatternType.MATCH, PatternType.ANY):
        wanted = AclFilter(ResourceType.TOPIC, "t7", kind, operation=Operation.READ)
        everywhere = [AclRule(at, entry) for at, some in acls.items() for entry in some]
        assert matching_rules(acls, wanted) == [rule for rule in everywhere if wanted.matches(rule)]


def test_the_work_of_a_deletion_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_decisions, "MAX_COMPARISONS", 5)
    here = image(acls={T: (READ,), U: (READ,)})
    exact = AclFilter(*T)
    decision = delete_acls(here, [AclFilter(principal="User:bob")] * 3 + [exact] * 10)
    assert [isinstance(answer, Refusal) for answer in decision.answers[:3]] == [False, False, True]
    assert all(
        isinstance(answer, Refusal) and answer.code == ErrorCode.POLICY_VIOLATION for answer in decision.answers[2:]
    )
    assert len(delete_acls(here, [exact] * 10).steps) == 1


# Users ----------------------------------------------------------------------------------------------------------------


def upsertion(mechanism: ScramMechanism = SHA_256, iterations: int = 4096, password: str = "p") -> CredentialUpsertion:
    salted = salted_password(mechanism, password, b"salt", iterations)
    return CredentialUpsertion(mechanism.code, iterations, b"salt", salted)


def test_a_credential_is_what_the_password_would_have_given() -> None:
    decision = alter_credentials(image(), [UserAlteration("alice", (upsertion(),))])
    credential = new_credential(SHA_256, "p", 4096, b"salt")
    assert [step.change for step in decision.steps] == [UserCredentialsChanged("alice", {SHA_256: credential})]


def test_another_mechanism_of_the_user_stays() -> None:
    old = new_credential(SHA_512, "p")
    here = image(scram_credentials={"alice": {SHA_512: old}})
    (step,) = alter_credentials(here, [UserAlteration("alice", (upsertion(),))]).steps
    assert isinstance(step.change, UserCredentialsChanged)
    assert list(step.change.credentials) == [SHA_512, SHA_256]
    (step,) = alter_credentials(here, [UserAlteration("alice", (CredentialDeletion(SHA_512.code),))]).steps
    assert step.change == UserCredentialsChanged("alice", {})


def test_secrets_are_in_no_repr() -> None:
    assert "salted" not in repr(UserAlteration("alice", (upsertion(),))).replace("secrets not shown", "")
    assert "b'" not in repr(UserAlteration("alice", (upsertion(),)))


def test_an_empty_salted_password_is_refused() -> None:
    for empty in (upsertion()._replace(salt=b""), upsertion()._replace(salted_password=b"")):
        (answer,) = alter_credentials(image(), [UserAlteration("alice", (empty,))]).answers
        assert answer is not None
        assert answer.code == ErrorCode.UNACCEPTABLE_CREDENTIAL


# Quotas ---------------------------------------------------------------------------------------------------------------

ALICE = QuotaEntity(user="alice")
ALICE_PARTS = (("user", "alice"),)


def test_quotas_are_merged_and_a_change_to_nothing_new_is_no_change() -> None:
    here = image(client_quotas={ALICE: {"producer_byte_rate": 1.0, "request_percentage": 2.0}})
    alteration = QuotaAlteration(ALICE_PARTS, (("producer_byte_rate", 5.0), ("request_percentage", None)))
    (step,) = alter_quotas(here, [alteration]).steps
    assert step.change == ClientQuotasChanged(ALICE, {"producer_byte_rate": 5.0})
    assert alter_quotas(here, [QuotaAlteration(ALICE_PARTS, (("producer_byte_rate", 1.0),))]).steps == []


@pytest.mark.parametrize(
    "alteration",
    [
        QuotaAlteration(ALICE_PARTS, (("request_percentage", math.nan),)),
        QuotaAlteration(ALICE_PARTS, (("request_percentage", math.inf),)),
        QuotaAlteration(ALICE_PARTS, (("producer_byte_rate", 1.0), ("producer_byte_rate", None))),
        QuotaAlteration((*ALICE_PARTS, ("user", "bob")), (("producer_byte_rate", 1.0),)),
        QuotaAlteration((("user", DEFAULT),), (("producer_byte_rate", 1.0),)),
        QuotaAlteration((("ip", "localhost"),), (("connection_creation_rate", 1.0),)),
    ],
)
def test_what_kafka_takes_and_moldau_refuses(alteration: QuotaAlteration) -> None:
    decision = alter_quotas(image(), [alteration])
    (answer,) = decision.answers
    assert answer is not None
    assert answer.code == ErrorCode.INVALID_REQUEST
    assert decision.steps == []


def test_an_entity_that_is_named_twice_does_not_change() -> None:
    twice = [QuotaAlteration(ALICE_PARTS, (("producer_byte_rate", value),)) for value in (1.0, 2.0)]
    decision = alter_quotas(image(), twice)
    assert all(answer is not None for answer in decision.answers)
    assert decision.steps == []


def test_the_default_has_no_name_on_the_wire() -> None:
    assert entity_parts(QuotaEntity(user=DEFAULT, client_id="c")) == (("user", None), ("client-id", "c"))
