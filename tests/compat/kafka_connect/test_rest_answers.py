"""The REST API compared with that of Apache Kafka Connect 4.3, request by request: every endpoint and every error.

Both workers are real, each with a broker of its own; the connectors are Kafka's file connectors and Moldau's.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.compat.apache_kafka.jars import JarsUnavailableError
from tests.compat.kafka_connect.moldau_worker import MoldauConnect
from tests.compat.kafka_connect.rest_conversation import ALL
from tests.compat.kafka_connect.rest_differences import INTENDED, comparable, difference_of
from tests.compat.kafka_connect.rest_requests import Answer, play
from tests.compat.kafka_connect.worker import KafkaConnect, connect_jars
from tests.support.process import BrokerProcess

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(300)]


@dataclass(frozen=True)
class Answers:
    kafka: dict[str, Answer]
    moldau: dict[str, Answer]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    try:
        jars = connect_jars()
    except JarsUnavailableError as reason:
        pytest.skip(f"Kafka Connect's jars cannot be had: {reason}")

    def kafka() -> dict[str, Answer]:
        directory = tmp_path_factory.mktemp("kafka")
        with BrokerProcess(directory / "data") as broker, KafkaConnect(jars, directory, broker.bootstrap) as worker:
            return _played(worker, directory)

    def moldau() -> dict[str, Answer]:
        directory = tmp_path_factory.mktemp("moldau")
        with BrokerProcess(directory / "data") as broker, MoldauConnect(directory, broker.bootstrap) as worker:
            return _played(worker, directory)

    with ThreadPoolExecutor(2) as both:
        first, second = both.submit(kafka), both.submit(moldau)
        return Answers(first.result(), second.result())


def _played(worker: KafkaConnect, directory: Path) -> dict[str, Answer]:
    files = directory / "files"
    files.mkdir()
    return {name: comparable(answer, worker.url) for name, answer in play(worker.url, files, ALL).items()}


def test_names_of_requests_are_unique() -> None:
    assert len({request.name for request in ALL}) == len(ALL)
    listed = [name for one in INTENDED for name in one.requests]
    assert len(set(listed)) == len(listed)
    assert set(listed) <= {request.name for request in ALL}


def test_every_answer_is_that_of_kafka_connect_or_an_intended_difference(answers: Answers) -> None:
    faults = [fault for request in ALL if (fault := _fault(answers, request.name))]
    assert not faults, "\n\n".join([f"{len(faults)} of {len(ALL)} answers:", *faults])


def _fault(answers: Answers, name: str) -> str | None:
    kafka, moldau = answers.kafka[name], answers.moldau[name]
    both = f"{name}\n  Kafka:  {kafka}\n  Moldau: {moldau}"
    difference = difference_of(name)
    if difference is None:
        return None if moldau == kafka else both
    if moldau == kafka:
        return f"{both}\n  no longer a difference: {difference.reason}"
    return None if difference.holds(kafka, moldau) else f"{both}\n  another difference than: {difference.reason}"
