"""Workers of Apache Kafka Connect and of Moldau for the tests of the REST API, each with a broker of its own."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.compat.apache_kafka.jars import JarsUnavailableError, KafkaJars
from tests.compat.kafka_connect.moldau_worker import MoldauConnect
from tests.compat.kafka_connect.rest_conversation import ALL
from tests.compat.kafka_connect.rest_differences import comparable
from tests.compat.kafka_connect.rest_requests import Answer, play
from tests.compat.kafka_connect.worker import KafkaConnect, connect_jars
from tests.support.process import BrokerProcess


@dataclass(frozen=True)
class Played:
    """The answers of both workers to the same conversation. Moldau's worker is still there."""

    kafka: dict[str, Answer]
    moldau: dict[str, Answer]
    url: str
    jars: KafkaJars


@pytest.fixture(scope="package")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    try:
        jars = connect_jars()
    except JarsUnavailableError as reason:
        pytest.skip(f"Kafka Connect's jars cannot be had: {reason}")

    def kafka(directory: Path) -> dict[str, Answer]:
        with BrokerProcess(directory / "data") as broker, KafkaConnect(jars, directory, broker.bootstrap) as worker:
            return _answers(worker, directory)

    with ExitStack() as stack:
        # Both at the same time: each of them waits most of the time.
        other = stack.enter_context(ThreadPoolExecutor(1)).submit(kafka, tmp_path_factory.mktemp("kafka"))
        directory = tmp_path_factory.mktemp("moldau")
        broker = stack.enter_context(BrokerProcess(directory / "data"))
        worker = stack.enter_context(MoldauConnect(directory, broker.bootstrap))
        ours = _answers(worker, directory)
        yield Played(other.result(), ours, worker.url, jars)


def _answers(worker: KafkaConnect, directory: Path) -> dict[str, Answer]:
    files = directory / "files"
    files.mkdir()
    return {name: comparable(answer, worker.url) for name, answer in play(worker.url, files, ALL).items()}
