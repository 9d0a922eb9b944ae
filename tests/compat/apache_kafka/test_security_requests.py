"""Requests about rules, users and quotas: Moldau gives the answers of Apache Kafka, on success and on error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moldau.wire.api import ApiKey
from moldau.wire.messages.api_versions import ApiVersionsRequest
from tests.compat.apache_kafka.jars import KafkaJars
from tests.compat.apache_kafka.processes import ApacheKafka
from tests.compat.apache_kafka.security_cases import (
    ALLOW,
    ALTER,
    ANY,
    CLUSTER,
    DENY,
    EVERYTHING,
    GROUP,
    LITERAL,
    MATCH,
    PREFIXED,
    READ,
    TOPIC,
    WRITE,
    SecurityAdmin,
)
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until

OPEN_TO_ALL = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}

SHA_256, SHA_512 = 1, 2
PRODUCE, PERCENTAGE, MUTATIONS, CONNECTIONS = (
    "producer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
ALICE = "User:alice"
RULE = (TOPIC, "t", LITERAL, ALICE, "*", READ, ALLOW)


@pytest.fixture(scope="module")
def both(jars: KafkaJars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SecurityAdmin, SecurityAdmin]]:
    kafka = ApacheKafka(jars, tmp_path_factory.mktemp("apache-kafka"), OPEN_TO_ALL)
    with kafka, BrokerProcess(tmp_path_factory.mktemp("moldau") / "data", OPEN_TO_ALL) as moldau:
        admins = SecurityAdmin(kafka.bootstrap), SecurityAdmin(moldau.bootstrap)
        yield admins
        for admin in admins:
            admin.close()


@pytest.fixture(autouse=True)
def nothing_stored(both: tuple[SecurityAdmin, SecurityAdmin]) -> Iterator[None]:
    """Each test begins without rules, users and quotas."""
    yield
    for admin in both:
        admin.delete(EVERYTHING)
        _, users = admin.users(everyone=True)
        for name, _, mechanisms in users:
            for mechanism, _ in mechanisms:
                admin.upsert(delete=((name, mechanism),))
        _, quotas = admin.quotas()
        for entity, values in quotas:
            named = {kind: None if name == "the default" else name for kind, name in entity}
            admin.alter_quotas((named, dict.fromkeys(key for key, _ in values)))
        # Kafka's broker learns of the changes of its controller a little later.
        wait_until(lambda: admin.describe() == (0, []) and admin.quotas() == (0, []))  # noqa: B023
        wait_until(lambda: admin.users(everyone=True) == (0, []))  # noqa: B023


def same(both: tuple[SecurityAdmin, SecurityAdmin], question: Callable[[SecurityAdmin], Any]) -> Any:
    """The answer of both. What was changed just before is known to Kafka's broker a little later."""
    kafka, moldau = both
    ours = question(moldau)
    theirs: list[Any] = []

    def agree() -> bool:
        theirs[:] = [question(kafka)]
        return bool(theirs[0] == ours)

    try:
        wait_until(agree, timeout_s=5)
    except Exception:
        assert ours == theirs[0], "Moldau's answer, and Kafka's"
        raise
    return ours


APIS_OF_SECURITY = (
    *(ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS),
    *(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, ApiKey.ALTER_USER_SCRAM_CREDENTIALS),
    *(ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.ALTER_CLIENT_QUOTAS),
    *(ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN),
    *(ApiKey.EXPIRE_DELEGATION_TOKEN, ApiKey.DESCRIBE_DELEGATION_TOKEN),
)


def test_the_versions_are_those_of_kafka(both: tuple[SecurityAdmin, SecurityAdmin]) -> None:
    def versions(admin: SecurityAdmin) -> dict[int, tuple[int, int]]:
        request = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
        keys = admin.ask(request).api_keys
        return {one.api_key: (one.min_version, one.max_version) for one in keys if one.api_key in APIS_OF_SECURITY}

    assert len(same(both, versions)) == len(APIS_OF_SECURITY)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version_of_rules(both: tuple[SecurityAdmin, SecurityAdmin], version: int) -> None:
    one = (TOPIC, "t", LITERAL, None, None, ANY, ANY)
    assert same(both, lambda admin: admin.create(RULE, version=version)) == [0]
    assert same(both, lambda admin: admin.describe(one, version=version))[1] == [RULE]
    kafka, moldau = both
    assert moldau.delete(one, version=version) == kafka.delete(one, version=version)


def test_rules_are_created_once_described_and_deleted(both: tuple[SecurityAdmin, SecurityAdmin]) -> None:
    rules = (
        RULE,
        RULE,
        (TOPIC, "t-", PREFIXED, "User:*", "10.0.0.1", WRITE, DENY),
        (TOPIC, "*", LITERAL, ALICE, "*", ALTER, ALLOW),
        (GROUP, "g", LITERAL, "Group:admins", "*", READ, ALLOW),
        (CLUSTER, "kafka-cluster", LITERAL, "User:CN=a,OU=b", "*", ALTER, ALLOW),
    )
    assert same(both, lambda admin: admin.create(*rules)) == [0] * 6
    assert same(both, lambda admin: admin.create(RULE, version=1)) == [0]
    assert len(same(both, lambda admin: admin.describe())[1]) == 5
    assert len(same(both, lambda admin: admin.describe(version=1))[1]) == 5
    filters = [
        (TOPIC, None, ANY, None, None, ANY, ANY),
        (TOPIC, "t", LITERAL, None, None, ANY, ANY),
        (TOPIC, "t-x", MATCH, None, None, ANY, ANY),
        (TOPIC, "t-x", ANY, None, None, ANY, ANY),
        (TOPIC, "t-", PREFIXED, None, None, ANY, ANY),
        (TOPIC, "*", LITERAL, None, None, ANY, ANY),
        (TOPIC, "*", MATCH, None, None, ANY, ANY),
        (ANY, None, ANY, ALICE, None, ANY, ANY),
        (ANY, None, ANY, None, "10.0.0.1", ANY, ANY),
        (ANY, None, ANY, None, None, READ, ANY),
        (ANY, None, ANY, None, None, 2, ANY),
        (ANY, None, ANY, None, None, ANY, DENY),
        (99, None, ANY, None, None, ANY, ANY),
        (ANY, "", ANY, None, None, ANY, ANY),
    ]
    for wanted in filters:
        same(both, lambda admin, wanted=wanted: admin.describe(wanted))  # type: ignore[misc]
    kafka, moldau = both
    overlapping = [(TOPIC, "t", LITERAL, None, None, ANY, ANY), (TOPIC, None, ANY, ALICE, None, ANY, ANY)]
    no_match = (GROUP, "x", LITERAL, None, None, ANY, ANY)
    assert moldau.delete(*overlapping, no_match) == kafka.delete(*overlapping, no_match)
    assert len(same(both, lambda admin: admin.describe())[1]) == 3
    assert same(both, lambda admin: admin.create()) == same(both, lambda admin: admin.delete()) == []


@pytest.mark.parametrize(
    "rule",
    [
        (99, "t", LITERAL, ALICE, "*", READ, ALLOW),
        (CLUSTER, "another", LITERAL, ALICE, "*", READ, ALLOW),
        (TOPIC, "", LITERAL, ALICE, "*", READ, ALLOW),
        (TOPIC, "t", LITERAL, "alice", "*", READ, ALLOW),
        (TOPIC, "t", LITERAL, "", "*", READ, ALLOW),
        (0, "t", LITERAL, ALICE, "*", READ, ALLOW),
        (TOPIC, "t", 0, ALICE, "*", READ, ALLOW),
        (TOPIC, "t", LITERAL, ALICE, "*", 0, ALLOW),
        (TOPIC, "t", LITERAL, ALICE, "*", READ, 0),
        (TOPIC, "t", LITERAL, ALICE, "*", 9, ALLOW),
        (TOPIC, "*", PREFIXED, ALICE, "*", READ, ALLOW),
    ],
    ids=str,
)
def test_a_rule_is_accepted_or_refused_as_by_kafka(
    both: tuple[SecurityAdmin, SecurityAdmin], rule: tuple[int, str, int, str, str, int, int]
) -> None:
    same(both, lambda admin: admin.create(rule, RULE))
    same(both, lambda admin: admin.describe())


@pytest.mark.parametrize("place", [0, 2, 5, 6])
def test_a_filter_with_unknown_closes_the_connection(both: tuple[SecurityAdmin, SecurityAdmin], place: int) -> None:
    unknown: Any = tuple(0 if at == place else one for at, one in enumerate(EVERYTHING))
    same(both, lambda admin: admin.describe(unknown))
    same(both, lambda admin: admin.delete(unknown))


def test_credentials_of_users(both: tuple[SecurityAdmin, SecurityAdmin]) -> None:
    same(both, lambda admin: admin.upsert(("u1", SHA_256, 4096), ("u2", SHA_512, 16384), ("u3", SHA_256, 8192)))
    assert len(same(both, lambda admin: admin.users(everyone=True))[1]) == 3
    same(both, lambda admin: admin.upsert(("u1", SHA_512, 4096)))
    same(both, lambda admin: admin.users())
    same(both, lambda admin: admin.users("u1", "nobody", "u2", "u1", ""))
    refused = [
        ("few", SHA_256, 4095),
        ("many", SHA_256, 16385),
        ("mechanism", 0, 4096),
        ("mechanism", 3, 4096),
        ("", SHA_256, 4096),
        ("", 0, 1),
    ]
    for one in refused:
        same(both, lambda admin, one=one: admin.upsert(one))  # type: ignore[misc]
    same(both, lambda admin: admin.upsert(("d", SHA_256, 4096), ("d", SHA_512, 4096)))
    same(both, lambda admin: admin.upsert(("d", SHA_256, 1), ("d", SHA_512, 4096)))
    same(both, lambda admin: admin.upsert(("u1", SHA_256, 4096), delete=(("u1", SHA_256),)))
    same(both, lambda admin: admin.upsert(("new", SHA_256, 4096), delete=(("new", SHA_256),)))
    same(both, lambda admin: admin.upsert(delete=(("u1", SHA_256), ("u1", SHA_512))))
    same(both, lambda admin: admin.upsert(delete=(("nobody", SHA_256), ("u2", SHA_256), ("u3", 0), ("", SHA_256))))
    same(both, lambda admin: admin.users(everyone=True))
    kafka, moldau = both
    several = (("u4", SHA_256, 4096), ("u5", SHA_256, 1))
    gone = (("u2", SHA_512), ("nobody", SHA_256))
    assert moldau.upsert(*several, delete=gone) == kafka.upsert(*several, delete=gone)
    same(both, lambda admin: admin.users(everyone=True))
    same(both, lambda admin: admin.upsert())


def test_quotas_are_set_described_and_removed(both: tuple[SecurityAdmin, SecurityAdmin]) -> None:
    entries: Any = (
        ({"user": "alice"}, {PRODUCE: 1000.0, PERCENTAGE: 12.5}),
        ({"user": "alice", "client-id": "c"}, {MUTATIONS: 0.5}),
        ({"user": None, "client-id": "c"}, {PRODUCE: 5.0}),
        ({"user": None}, {PRODUCE: 6.0}),
        ({"client-id": None}, {PRODUCE: 7.0}),
        ({"ip": "127.0.0.1"}, {CONNECTIONS: 5.0}),
        ({"ip": None}, {CONNECTIONS: 6.0}),
    )
    same(both, lambda admin: admin.alter_quotas(*entries, validate_only=True))
    assert same(both, lambda admin: admin.quotas()) == (0, [])
    same(both, lambda admin: admin.alter_quotas(*entries))
    filters: list[tuple[tuple[str, int, str | None], ...]] = [
        (),
        (("user", 0, "alice"),),
        (("user", 1, None),),
        (("user", 2, None),),
        (("client-id", 0, "c"),),
        (("user", 0, "alice"), ("client-id", 0, "c")),
        (("user", 1, None), ("client-id", 2, None)),
        (("ip", 2, None),),
        (("ip", 0, "127.0.0.1"),),
        (("ip", 1, None),),
        (("user", 0, "nobody"),),
        (("user", 0, None),),
        (("user", 1, "x"),),
        (("user", 2, "x"),),
        (("planet", 0, "x"),),
        (("", 0, "x"),),
        (("user", 0, "a"), ("user", 0, "b")),
        (("ip", 2, None), ("user", 2, None)),
        (("user", 9, None),),
    ]
    for components in filters:
        for strict in (False, True):
            same(both, lambda admin, some=components, strict=strict: admin.quotas(*some, strict=strict))  # type: ignore[misc]
    same(both, lambda admin: admin.quotas(version=0))
    same(both, lambda admin: admin.alter_quotas(({"user": "alice"}, {PRODUCE: None, "unheard": None}), version=0))
    same(both, lambda admin: admin.quotas())


@pytest.mark.parametrize(
    ("entity", "quotas"),
    [
        ({"user": "a"}, {PRODUCE: 0.0}),
        ({"user": "a"}, {PRODUCE: -1.0}),
        ({"user": "a"}, {PRODUCE: 1.5}),
        ({"user": "a"}, {PRODUCE: 1e30}),
        ({"user": "a"}, {PERCENTAGE: 0.001}),
        ({"user": "a"}, {CONNECTIONS: 1.0}),
        ({"user": "a"}, {"SCRAM-SHA-256": 1.0}),
        ({"user": "a"}, {"": 1.0}),
        ({"user": "a"}, {}),
        ({"user": "a"}, {PRODUCE: 5.0, CONNECTIONS: 1.0}),
        ({"user": ""}, {PRODUCE: 1.0}),
        ({"planet": "x"}, {PRODUCE: 1.0}),
        ({}, {PRODUCE: 1.0}),
        ({"ip": "127.0.0.1"}, {PRODUCE: 1.0}),
        ({"ip": "127.0.0.1"}, {CONNECTIONS: 1.5}),
        ({"ip": "127.0.0.1"}, {CONNECTIONS: 3e9}),
        ({"ip": "no address"}, {CONNECTIONS: 1.0}),
        ({"ip": "10.0.0.0/8"}, {CONNECTIONS: 1.0}),
        ({"ip": "127.0.0.1", "user": "a"}, {CONNECTIONS: 1.0}),
    ],
    ids=str,
)
def test_a_quota_is_accepted_or_refused_as_by_kafka(
    both: tuple[SecurityAdmin, SecurityAdmin], entity: dict[str, str | None], quotas: dict[str, float | None]
) -> None:
    same(both, lambda admin: admin.alter_quotas((entity, quotas)))
    same(both, lambda admin: admin.quotas())
