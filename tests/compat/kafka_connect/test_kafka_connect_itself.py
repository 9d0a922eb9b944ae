"""Apache Kafka Connect on a Moldau broker: its file source writes a topic and stores its offset in another."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat.apache_kafka.jars import JarsUnavailableError
from tests.compat.kafka_connect.worker import KafkaConnect, connect_jars
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until


def test_a_file_source_of_kafka_connect_stores_its_offset(tmp_path: Path, soak: bool) -> None:
    if not soak:
        pytest.skip("with make soak: the takeover tests start the same worker")
    try:
        jars = connect_jars()
    except JarsUnavailableError as reason:
        pytest.skip(f"Kafka Connect's jars cannot be had: {reason}")
    source = tmp_path / "in.txt"
    source.write_text("one\ntwo\n")
    directory = tmp_path / "worker"
    directory.mkdir()
    with BrokerProcess(tmp_path / "data") as broker, KafkaConnect(jars, directory, broker.bootstrap) as worker:
        config = {"connector.class": "FileStreamSource", "file": str(source), "topic": "lines"}
        assert worker.request("POST", "/connectors", {"name": "lines-in", "config": config})[0] == 201
        wait_until(lambda: worker.request("GET", "/connectors/lines-in/offsets")[1].get("offsets"))
        _, answer = worker.request("GET", "/connectors/lines-in/offsets")
    assert answer == {"offsets": [{"partition": {"filename": str(source)}, "offset": {"position": 8}}]}
