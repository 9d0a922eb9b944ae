"""Run of the denial matrix against a server: its resources and rules are created, and every variant is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from moldau.security.acls import AclEntry, AclRule, ResourcePattern
from moldau.wire.api import APIS, ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.wire.messages.create_acls import CreateAclsRequest, CreateAclsRequestCreation
from moldau.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from moldau.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from moldau.wire.messages.describe_acls import DescribeAclsRequest
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest
from moldau.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.authorization.matrix import Case, Resources, Variant
from tests.authorization.outline import Outline, codes, outline
from tests.compat import wire
from tests.compat.nulls.case_context import message_of
from tests.compat.transactions import requests as txn
from tests.support.raw import ConnectionClosedError, RawConnection
from tests.support.waiting import wait_until
from tests.unit.wire.schema import Case as MessageCase
from tests.unit.wire.schema import carries
from tools import notation

ADMIN = "admin"
ANY = 1
RULES_PER_REQUEST = 500
TOPICS_PER_REQUEST = 100


class Server:
    """A server with access control, where `admin` is a super user."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def connect(self, user: str) -> RawConnection:
        """A connection of that user."""
        return RawConnection(self.bootstrap).log_in(user, password_of(user))

    def add_rules(self, rules: Sequence[AclRule]) -> None:
        with self.connect(ADMIN) as admin:
            for start in range(0, len(rules), RULES_PER_REQUEST):
                creations = [_creation(rule) for rule in rules[start : start + RULES_PER_REQUEST]]
                answer = wire.ask(admin, CreateAclsRequest(creations=creations))
                assert {one.error_code for one in answer.results} == {0}, answer
            wait_until(lambda: _rules(admin).issuperset(rules))


def password_of(user: str) -> str:
    return f"{user}-secret"


def users(variants: Iterable[Variant]) -> dict[str, str]:
    """All users with their passwords; the administrator is the first."""
    return {user: password_of(user) for user in (ADMIN, *(variant.user for variant in variants))}


def play(server: Server, variants: Sequence[Variant]) -> dict[str, Outline]:
    """The outlines of the answers, by variant."""
    staged = _prepare(server, variants)
    return {str(one): ask(server, one, staged[str(one)], version_of(one.case)) for one in variants}


def play_versions(
    server: Server, variants: Sequence[Variant], versions: Callable[[ApiKey], Iterable[int]]
) -> dict[str, Outline]:
    """The outlines of the answers in several versions, by variant and version. A version that does not have the fields
    of the request gets a request without them; one that demands other fields is left out."""
    staged = _prepare(server, variants)
    found: dict[str, Outline] = {}
    for one in variants:
        resources = staged[str(one)]
        for version in versions(one.case.api):
            with suppress(ValueError):  # "may not be null in version 0"
                request_of(one.case, resources, version).encode(version)
                found[f"{one} v{version}"] = ask(server, one, resources, version)
    return found


def _prepare(server: Server, variants: Sequence[Variant]) -> dict[str, Resources]:
    staged = {str(variant): variant.resources() for variant in variants}
    with server.connect(ADMIN) as admin:
        create_resources(admin, list(staged.values()))
    rules = [rule for variant in variants for rule in variant.acl_rules(staged[str(variant)])]
    server.add_rules(list(dict.fromkeys(rules)))
    return staged


def ask(server: Server, variant: Variant, resources: Resources, version: int) -> Outline:
    request = request_of(variant.case, resources, version)
    with server.connect(variant.user) as connection:
        answer: Any = None
        for _ in range(100):
            try:
                answer = outline(wire.ask(connection, request, version), resources)
            except ConnectionClosedError:
                return "the connection was closed"
            if not _comes_back(answer):
                break
        return answer


def request_of(case: Case, resources: Resources, version: int) -> Any:
    message = message_of(f"{APIS[case.api].name}Request")
    return build(message, message.definition.top, case.request(resources), version)


def version_of(case: Case) -> int:
    return APIS[case.api].max_stable_version if case.version is None else case.version


def build(message: MessageCase, struct: notation.Struct, values: dict[str, Any], version: int) -> Any:
    """A message from nested dictionaries; fields that the version does not have are left out."""
    known = {one.name: one for one in struct.fields}
    made = {}
    for name, value in values.items():
        one = known[name]
        if not carries(one, version):
            continue
        if one.struct is not None and isinstance(value, list):
            value = [build(message, one.struct, element, version) for element in value]
        elif one.struct is not None and value is not None:
            value = build(message, one.struct, value, version)
        made[name] = value
    return getattr(message.module, struct.name)(**made)


def _comes_back(found: Outline) -> bool:
    return any(code in txn.RETRIABLE for code in codes(found))


# Resources ------------------------------------------------------------------------------------------------------------


def create_resources(admin: RawConnection, staged: list[Resources]) -> None:
    topics = list(dict.fromkeys(of[role] for of in staged for role in of.case.topics))
    ids = _create_topics(admin, topics)
    find_group_coordinator(admin)
    producers: dict[str, tuple[int, int]] = {}
    committed: set[str] = set()
    for of in staged:
        named = [of[role] for role in of.case.topics]
        of.topic_ids = {name: ids[name] for name in named}
        for role in of.case.groups:
            if of[role] not in committed:
                committed.add(of[role])
                wait_until(lambda group=of[role], names=named: _commit(admin, group, names))  # type: ignore[misc]
        for role in of.case.txns:
            if of[role] not in producers:
                producers[of[role]] = _begin(admin, of[role], named)
            of.producers[of[role]] = producers[of[role]]
        for role in of.case.consumers:
            if of[role] not in committed:
                committed.add(of[role])
                wait_until(lambda group=of[role], names=named: _join(admin, group, names))  # type: ignore[misc]
        of.token_ids = {role: _create_token(admin, of[f"owner of {role}"]) for role in of.case.tokens}


def _create_topics(admin: RawConnection, names: list[str]) -> dict[str, bytes]:
    ids: dict[str, bytes] = {}
    for start in range(0, len(names), TOPICS_PER_REQUEST):
        some = names[start : start + TOPICS_PER_REQUEST]
        topics = [CreateTopicsRequestTopic(name=name, num_partitions=1, replication_factor=1) for name in some]
        answer = wire.ask(admin, CreateTopicsRequest(topics=topics, timeout_ms=20_000))
        assert {one.error_code for one in answer.topics} == {0}, answer
        ids |= {one.name: one.topic_id for one in answer.topics}
    wait_until(lambda: wire.is_served(admin, names[-1], 1))
    return ids


def find_group_coordinator(admin: RawConnection) -> None:
    """Apache Kafka creates the topic of the offsets when it is asked for a coordinator."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["first"])
    wait_until(lambda: wire.ask(admin, request).coordinators[0].error_code == 0)


def _commit(admin: RawConnection, group: str, topics: list[str]) -> bool:
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=0)]
    named = [OffsetCommitRequestTopic(name=name, partitions=partitions) for name in topics]
    request = OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, topics=named)
    answer = wire.ask(admin, request, 8)
    return {one.error_code for topic in answer.topics for one in topic.partitions} == {0}


def _join(admin: RawConnection, group: str, topics: list[str]) -> bool:
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="AAAAAAAAAAAAAAAAAAAAAA",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=topics,
        topic_partitions=[],
    )
    found: int = wire.ask(admin, request).error_code
    return found == 0


def _create_token(admin: RawConnection, owner: str) -> str:
    request = CreateDelegationTokenRequest(
        owner_principal_type="User", owner_principal_name=owner, renewers=[], max_lifetime_ms=-1
    )
    answer = wire.ask(admin, request)
    assert answer.error_code == 0, answer
    token_id: str = answer.token_id
    return token_id


def _begin(admin: RawConnection, name: str, topics: list[str]) -> tuple[int, int]:
    identity = txn.producer(admin, name)
    for topic in topics:
        wait_until(lambda topic=topic: txn.add(admin, name, identity, topic) == ErrorCode.NONE)  # type: ignore[misc]
    return identity.producer_id, identity.epoch


# Rules ----------------------------------------------------------------------------------------------------------------


def _creation(rule: AclRule) -> CreateAclsRequestCreation:
    pattern, entry = rule
    return CreateAclsRequestCreation(
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        resource_pattern_type=pattern.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )


def _rules(admin: RawConnection) -> set[AclRule]:
    """The rules that are in force. Codes are equal to the values of enumerations."""
    request = DescribeAclsRequest(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    return {
        AclRule(
            ResourcePattern(one.resource_type, one.resource_name, one.pattern_type),
            AclEntry(entry.principal, entry.host, entry.operation, entry.permission_type),
        )
        for one in wire.ask(admin, request).resources
        for entry in one.acls
    }
