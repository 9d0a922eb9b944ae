"""Security nodes: exact encoding, legal names for any text, secrets in no error message."""

from __future__ import annotations

import base64
from string import ascii_letters, digits

import hypothesis.strategies as st
import pytest
from hypothesis import given

from moldau.cluster.node_encoding import BadNode
from moldau.cluster.nodes import FOLDERS
from moldau.cluster.security_image import UserCredentials
from moldau.cluster.security_nodes import (
    SECRET_FOLDERS,
    SECURITY_NODES,
    AclNode,
    ClientQuotasNode,
    DelegationTokenNode,
    UserCredentialsNode,
)
from moldau.cluster.store import split
from moldau.security.acls import AclEntry, PatternType, Permission, ResourcePattern
from moldau.security.credentials import DelegationToken, ScramCredential, ScramMechanism
from moldau.security.quota_entities import DEFAULT, QuotaEntity
from moldau.security.resources import Operation, Principal, ResourceType

NAMES = st.text(min_size=1, max_size=50)
PATTERNS = st.builds(
    ResourcePattern,
    st.sampled_from([kind for kind in ResourceType if kind > ResourceType.ANY]),
    NAMES,
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
)
ENTRIES = st.builds(
    AclEntry,
    NAMES,
    NAMES,
    st.sampled_from([one for one in Operation if one > Operation.ANY]),
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
)
CREDENTIALS = st.dictionaries(
    st.sampled_from(ScramMechanism),
    st.builds(ScramCredential, st.integers(4096, 16384), st.binary(), st.binary(), st.binary()),
    min_size=1,
)
PRINCIPALS = st.builds(Principal, NAMES, NAMES)
TIMES = st.integers(0, 2**53)
TOKENS = st.builds(DelegationToken, NAMES, PRINCIPALS, PRINCIPALS, st.lists(PRINCIPALS).map(tuple), TIMES, TIMES, TIMES)
ENTITIES = st.one_of(
    st.builds(QuotaEntity, user=NAMES),
    st.builds(QuotaEntity, client_id=NAMES),
    st.builds(QuotaEntity, user=NAMES, client_id=NAMES),
    st.builds(QuotaEntity, ip=NAMES),
)
QUOTAS = st.dictionaries(NAMES, st.floats(0.001, 1e15), min_size=1)

LEGAL = set("%-_~:=," + ascii_letters + digits)


@given(PATTERNS, st.lists(ENTRIES, min_size=1).map(tuple))
def test_rules_are_read_as_they_were_written(pattern: ResourcePattern, entries: tuple[AclEntry, ...]) -> None:
    folder, name = split(AclNode.path(pattern))
    assert folder == AclNode.folder
    assert set(name) <= LEGAL
    assert AclNode.key_of(name) == pattern
    assert AclNode.value_of(name, AclNode.encode(entries)) == entries


@given(NAMES, CREDENTIALS)
def test_credentials_are_read_as_they_were_written(user: str, credentials: UserCredentials) -> None:
    _, name = split(UserCredentialsNode.path(user))
    assert set(name) <= LEGAL
    assert UserCredentialsNode.key_of(name) == user
    assert UserCredentialsNode.value_of(name, UserCredentialsNode.encode(credentials)) == credentials


@given(TOKENS)
def test_a_token_is_read_as_it_was_written(token: DelegationToken) -> None:
    _, name = split(DelegationTokenNode.path(token.token_id))
    assert set(name) <= LEGAL
    assert DelegationTokenNode.value_of(name, DelegationTokenNode.encode(token)) == token


@given(ENTITIES, QUOTAS)
def test_quotas_are_read_as_they_were_written(entity: QuotaEntity, quotas: dict[str, float]) -> None:
    _, name = split(ClientQuotasNode.path(entity))
    assert set(name) <= LEGAL
    assert ClientQuotasNode.key_of(name) == entity
    assert ClientQuotasNode.value_of(name, ClientQuotasNode.encode(quotas)) == quotas


def test_different_keys_never_share_a_node() -> None:
    entities = [
        QuotaEntity(user="a"),
        QuotaEntity(user="a", client_id="b"),
        QuotaEntity(user="a,client-id=b"),
        QuotaEntity(user=DEFAULT),
        QuotaEntity(user=DEFAULT, client_id=DEFAULT),
        QuotaEntity(ip=DEFAULT),
    ]
    assert len({ClientQuotasNode.path(entity) for entity in entities}) == len(entities)
    patterns = [
        ResourcePattern(ResourceType.TOPIC, "a"),
        ResourcePattern(ResourceType.TOPIC, "a", PatternType.PREFIXED),
        ResourcePattern(ResourceType.GROUP, "a"),
        ResourcePattern(ResourceType.TOPIC, "%61"),
    ]
    assert len({AclNode.path(pattern) for pattern in patterns}) == len(patterns)


@pytest.mark.parametrize(
    "name", ["topic", "topic:literal", "topic:sometimes:a", "planet:literal:a", "topic:literal:%FF"]
)
def test_a_pattern_that_cannot_be_understood_is_named(name: str) -> None:
    with pytest.raises(BadNode, match="/security/acls/"):
        AclNode.value_of(name, AclNode.encode(()))


@pytest.mark.parametrize("name", ["", "user", "planet=a", "user=a=b"])
def test_an_entity_that_cannot_be_understood_is_named(name: str) -> None:
    with pytest.raises(BadNode, match="/security/quotas/"):
        ClientQuotasNode.key_of(name)


def test_a_damaged_credential_is_named_and_not_shown() -> None:
    secret = b"do-not-show-this"
    text = base64.b64encode(secret).decode()
    whole = UserCredentialsNode.encode({ScramMechanism.SCRAM_SHA_256: ScramCredential(4096, secret, secret, secret)})
    damaged = [
        whole.replace(text.encode(), b"\xff" + text.encode(), 1),
        whole.replace(text.encode(), text[:-3].encode(), 1),
        whole.replace(f'"{text}"'.encode(), f'["{text}"]'.encode(), 1),
        whole.replace(b"4096", b'"many"'),
        whole[:-1],
    ]
    for value in damaged:
        with pytest.raises(BadNode, match="/security/users/alice cannot be understood") as raised:
            UserCredentialsNode.value_of("alice", value)
        assert text[:8] not in str(raised.value)
        assert "do-not" not in str(raised.value)


def test_each_kind_has_a_folder_and_says_whether_it_is_secret() -> None:
    assert {kind.folder for kind in SECURITY_NODES} <= set(FOLDERS)
    assert set(SECRET_FOLDERS) == {"/security/users", "/security/tokens", "/config/brokers"}
