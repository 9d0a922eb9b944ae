"""Takeover between Moldau's workers and Apache Kafka Connect 4.3: each continues from the topics of the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from moldau import Consumer, Producer
from moldau.connect.herder import ConnectorOffset, ConnectorType, State, TargetState, TaskId
from moldau.testing import Broker
from tests.compat.apache_kafka.jars import JarsUnavailableError, KafkaJars
from tests.compat.kafka_connect.moldau_worker import MoldauConnect
from tests.compat.kafka_connect.worker import KafkaConnect, connect_jars
from tests.connect.herder.workers import Cluster
from tests.support.waiting import NotYet, wait_until

STRING = "org.apache.kafka.connect.storage.StringConverter"


@pytest.fixture(scope="module")
def jars() -> KafkaJars:
    try:
        return connect_jars()
    except JarsUnavailableError as reason:
        pytest.skip(f"Kafka Connect's jars cannot be had: {reason}")


pytestmark = pytest.mark.needs_java


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 500}) as broker:
        yield broker


class Files:
    """A file that a source reads into the topic `lines`, and a file that a sink writes from the topic `words`."""

    def __init__(self, directory: Path) -> None:
        self.source = directory / "in.txt"
        self.sink = directory / "out.txt"

    def source_config(self) -> dict[str, str]:
        return {"connector.class": "FileStreamSource", "file": str(self.source), "topic": "lines", "name": "lines-in"}

    def sink_config(self) -> dict[str, str]:
        return {"connector.class": "FileStreamSink", "file": str(self.sink), "topics": "words", "name": "words-out"}


def produce(bootstrap: str, topic: str, *values: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for value in values:
            producer.send(topic, value=value.encode())


def consume(bootstrap: str, topic: str, count: int) -> list[str]:
    found: list[str] = []
    with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:

        def enough() -> bool:
            found.extend((record.value or b"").decode() for record in consumer.poll(0.1))
            return len(found) >= count

        wait_until(enough, f"{count} records in {topic}")
    return found


def run(scenario: Callable[[Cluster], Awaitable[None]], bootstrap: str) -> None:
    async def whole() -> None:
        cluster = Cluster(bootstrap, "connect")
        try:
            await scenario(cluster)
        finally:
            await cluster.close()

    asyncio.run(whole())


def worker_directory(tmp_path: Path, name: str = "kafka-connect") -> Path:
    directory = tmp_path / name
    directory.mkdir()
    return directory


def test_kafka_connect_continues_from_our_topics(broker: Broker, jars: KafkaJars, tmp_path: Path, soak: bool) -> None:
    bootstrap = broker.bootstrap_servers
    files = Files(tmp_path)
    files.source.write_text("one\ntwo\nthree\n")
    produce(bootstrap, "words", "red", "green", "blue")

    async def ours(cluster: Cluster) -> None:
        """Store connectors that have read one line and written one word."""
        [worker] = await cluster.start("w1", group_id="connect-cluster")
        await worker.create("lines-in", files.source_config(), TargetState.STOPPED)
        await worker.create("words-out", files.sink_config(), TargetState.STOPPED)
        read = ConnectorOffset({"filename": str(files.source)}, {"position": len("one\n")})
        await worker.alter_offsets("lines-in", [read])
        written = ConnectorOffset({"kafka_topic": "words", "kafka_partition": 0}, {"kafka_offset": 1})
        await worker.alter_offsets("words-out", [written])
        for name in ("lines-in", "words-out"):
            await worker.resume(name)

    run(ours, bootstrap)
    with KafkaConnect(jars, worker_directory(tmp_path), bootstrap) as theirs:
        assert consume(bootstrap, "lines", 2) == ["two", "three"]
        wait_until(lambda: files.sink.exists() and files.sink.read_text() == "green\nblue\n", "the sink continues")
        _, info = theirs.request("GET", "/connectors/lines-in")
        assert info["config"] == files.source_config()


def test_we_continue_from_the_topics_of_kafka_connect(broker: Broker, jars: KafkaJars, tmp_path: Path) -> None:
    bootstrap = broker.bootstrap_servers
    files = Files(tmp_path)
    files.source.write_text("one\ntwo\n")
    produce(bootstrap, "words", "red", "green")
    with KafkaConnect(jars, worker_directory(tmp_path), bootstrap) as theirs:
        for config in (files.source_config(), files.sink_config()):
            assert theirs.request("POST", "/connectors", {"name": config["name"], "config": config})[0] == 201
        wait_until(lambda: theirs.request("GET", "/connectors/lines-in/offsets")[1].get("offsets"))
        wait_until(lambda: theirs.request("GET", "/connectors/words-out/offsets")[1].get("offsets"))

    async def ours(cluster: Cluster) -> None:
        [worker] = await cluster.start("w1", group_id="connect-cluster")
        assert await worker.connectors() == ["lines-in", "words-out"]
        info = await worker.connector_info("lines-in")
        assert (info.config, info.tasks) == (files.source_config(), [TaskId("lines-in", 0)])
        assert info.type is ConnectorType.SOURCE
        assert (await worker.offsets("lines-in")).offsets == [
            ConnectorOffset({"filename": str(files.source)}, {"position": len("one\ntwo\n")})
        ]
        assert (await worker.offsets("words-out")).offsets == [
            ConnectorOffset({"kafka_topic": "words", "kafka_partition": 0}, {"kafka_offset": 2})
        ]
        assert (await worker.active_topics("lines-in")).topics == ["lines"]
        await worker._settled()
        assert (await worker.status("words-out")).connector.state in (State.RUNNING, State.UNASSIGNED)

    run(ours, bootstrap)


def wait_for_work(connect: KafkaConnect, files: Files, text: str) -> None:
    """Wait until the source has stored that it has read this text, and the sink that it has written it."""

    def stored(name: str) -> list[object]:
        return [one["offset"] for one in connect.request("GET", f"/connectors/{name}/offsets")[1].get("offsets", [])]

    def done() -> bool:
        lines = text.count("\n")
        offsets = stored("lines-in"), stored("words-out")
        if offsets != ([{"position": len(text)}], [{"kafka_offset": lines}]):
            states = [connect.request("GET", f"/connectors/{name}/status")[1] for name in ("lines-in", "words-out")]
            raise NotYet(f"offsets {offsets}, states {states}")
        return files.sink.read_text() == text

    wait_until(done, "source and sink have worked")


def test_connectors_go_there_and_back_and_no_record_is_lost_or_doubled(
    broker: Broker, jars: KafkaJars, tmp_path: Path, soak: bool
) -> None:
    """Kafka Connect, then Moldau, then Kafka Connect again, the last one with its exactly-once sources."""
    if not soak:
        pytest.skip("three workers one after another, one of them on Spark: with make soak")
    bootstrap = broker.bootstrap_servers
    files = Files(tmp_path)
    expected = ""
    first = KafkaConnect(jars, worker_directory(tmp_path, "first"), bootstrap)
    second = MoldauConnect(worker_directory(tmp_path, "second"), bootstrap)
    third = KafkaConnect(
        jars, worker_directory(tmp_path, "third"), bootstrap, {"exactly.once.source.support": "enabled"}
    )
    for number, connect in enumerate((first, second, third)):
        with connect:
            if number == 0:
                for config in (files.source_config(), files.sink_config()):
                    assert connect.request("POST", "/connectors", {"name": config["name"], "config": config})[0] == 201
            expected += f"line {number}a\nline {number}b\n"
            files.source.write_text(expected)
            produce(bootstrap, "words", f"line {number}a", f"line {number}b")
            wait_for_work(connect, files, expected)
    assert consume(bootstrap, "lines", 6) == expected.splitlines()
    assert files.sink.read_text() == expected
