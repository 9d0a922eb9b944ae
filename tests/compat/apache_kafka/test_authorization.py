"""The denial matrix against Apache Kafka with its StandardAuthorizer: Moldau's answers are the same, one by one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moldau.broker.requests.handler_registry import HANDLERS
from tests.authorization.cases import CASES, SETTINGS, all_variants
from tests.authorization.matrix import Case
from tests.authorization.moldau_server import moldau_server
from tests.authorization.outline import Outline
from tests.authorization.play import Server, play, users
from tests.compat.apache_kafka.jars import KafkaJars
from tests.compat.apache_kafka.processes import SecuredApacheKafka

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(300)]

COMPARED = [one for one in all_variants(HANDLERS) if not one.differs]

Answers = dict[str, Outline]


@pytest.fixture(scope="module")
def of_kafka(jars: KafkaJars, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    # Two-phase commit is an unstable version of InitProducerId in Apache Kafka 4.3.
    settings = {**SETTINGS, "unstable.api.versions.enable": "true"}
    with SecuredApacheKafka(jars, tmp_path_factory.mktemp("secured"), users(COMPARED), settings) as kafka:
        return play(Server(kafka.bootstrap), COMPARED)


@pytest.fixture(scope="module")
def of_moldau() -> Iterator[Answers]:
    with moldau_server(users(COMPARED)) as server:
        yield play(server, COMPARED)


@pytest.mark.parametrize("case", [one for one in CASES if one.api in HANDLERS], ids=str)
def test_answers_are_those_of_apache_kafka(case: Case, of_kafka: Answers, of_moldau: Answers) -> None:
    for variant in COMPARED:
        if str(variant.case) == str(case):
            assert of_moldau[str(variant)] == of_kafka[str(variant)], str(variant)
