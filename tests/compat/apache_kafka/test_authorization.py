"""Access control compared with Apache Kafka's StandardAuthorizer: the same rules give the same answers, one by one."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from moldau.broker.requests.handler_registry import HANDLERS
from moldau.wire.api import ApiKey
from tests.authorization import random_rules
from tests.authorization.cases import CASES, SETTINGS, all_variants
from tests.authorization.matrix import Case
from tests.authorization.moldau_server import moldau_server
from tests.authorization.outline import Outline
from tests.authorization.play import Server, password_of, play, play_versions, users
from tests.authorization.random_rules import Allowed, allowed_operations
from tests.compat.apache_kafka.jars import KafkaJars
from tests.compat.apache_kafka.processes import SecuredApacheKafka

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(300)]

COMPARED = [one for one in all_variants(HANDLERS) if not one.differs]
ALL_USERS = users(COMPARED) | {user: password_of(user) for user in random_rules.USERS}


class Answers(NamedTuple):
    """What a server answered to the denial matrix, and what it allows by random rules."""

    matrix: dict[str, Outline]
    allowed: Allowed


def answers_of(server: Server) -> Answers:
    # The rules for everyone among the random ones come last: they would change the matrix.
    return Answers(play(server, COMPARED), allowed_operations(server))


@pytest.fixture(scope="module")
def of_kafka(jars: KafkaJars, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    # Two-phase commit is an unstable version of InitProducerId in Apache Kafka 4.3.
    settings = {**SETTINGS, "unstable.api.versions.enable": "true"}
    with SecuredApacheKafka(jars, tmp_path_factory.mktemp("secured"), ALL_USERS, settings) as kafka:
        return answers_of(Server(kafka.bootstrap))


@pytest.fixture(scope="module")
def of_moldau() -> Answers:
    with moldau_server(ALL_USERS) as server:
        return answers_of(server)


@pytest.mark.parametrize("case", [one for one in CASES if one.api in HANDLERS], ids=str)
def test_answers_are_those_of_apache_kafka(case: Case, of_kafka: Answers, of_moldau: Answers) -> None:
    for variant in COMPARED:
        if str(variant.case) == str(case):
            assert of_moldau.matrix[str(variant)] == of_kafka.matrix[str(variant)], str(variant)


def test_random_rules_allow_what_they_allow_in_apache_kafka(of_kafka: Answers, of_moldau: Answers) -> None:
    assert of_moldau.allowed == of_kafka.allowed
    assert len(set(of_kafka.allowed.values())) > 20  # the rules are not all alike


def test_every_version_is_answered_as_by_apache_kafka(
    jars: KafkaJars, tmp_path_factory: pytest.TempPathFactory, soak: bool
) -> None:
    if not soak:
        pytest.skip("with make soak")
    some = [
        one
        for one in COMPARED
        if "no grant" in one.name or (one.missing is None and not one.case.used_up)  # each is asked once per version
    ]
    settings = {**SETTINGS, "unstable.api.versions.enable": "true"}
    with SecuredApacheKafka(jars, tmp_path_factory.mktemp("versions"), users(some), settings) as kafka:
        theirs = play_versions(Server(kafka.bootstrap), some, versions_of)
    with moldau_server(users(some)) as server:
        assert play_versions(server, some, versions_of) == theirs


def versions_of(api: ApiKey) -> range:
    """The versions that both serve. Apache Kafka closes the connection of a Produce below version 3."""
    handler = HANDLERS[api]
    return range(max(handler.min_version, 3 if api == ApiKey.PRODUCE else 0), handler.max_version + 1)
