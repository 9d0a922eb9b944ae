"""Fixtures that need Apache Kafka's jars; without the jars the tests are skipped with a warning."""

from __future__ import annotations

import shutil

import pytest

from tests.compat.apache_kafka import corpus
from tests.compat.apache_kafka.corpus import LeftByKafka
from tests.compat.apache_kafka.jars import JarsUnavailableError, KafkaJars, fetch_jars
from tests.compat.apache_kafka.processes import ApacheKafka


@pytest.fixture(scope="session")
def jars() -> KafkaJars:
    try:
        return fetch_jars()
    except JarsUnavailableError as reason:
        pytest.skip(f"Apache Kafka's jars cannot be had: {reason}")


@pytest.fixture(scope="session")
def left_by_kafka(jars: KafkaJars, tmp_path_factory: pytest.TempPathFactory) -> LeftByKafka:
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed")
    kafka = ApacheKafka(jars, tmp_path_factory.mktemp("apache-kafka"))
    with kafka:
        corpus.write_every_codec(kafka.bootstrap, "codecs")
        corpus.write_transactions(kafka.bootstrap, "transactions")
        everything = corpus.read_topic(kafka.bootstrap, "codecs")
        committed = corpus.read_topic(kafka.bootstrap, "transactions", "isolation.level=read_committed")
        uncommitted = corpus.read_topic(kafka.bootstrap, "transactions", "isolation.level=read_uncommitted")
    return LeftByKafka(kafka.data, everything, committed, uncommitted)
