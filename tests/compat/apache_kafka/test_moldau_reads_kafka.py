"""Logs written by Apache Kafka: read by `log dump`, and adopted as topics by `log adopt`."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from tests.compat.apache_kafka import corpus
from tests.compat.apache_kafka.corpus import LeftByKafka
from tests.compat.apache_kafka.dumps import dump
from tests.compat.apache_kafka.jars import KafkaJars
from tests.compat.apache_kafka.processes import Moldau, moldau_command

pytestmark = [pytest.mark.needs_java, pytest.mark.needs_kcat, pytest.mark.timeout(600)]

COMMAND_TIMEOUT_S = 120


def moldau(*arguments: str) -> str:
    command = moldau_command(*arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def log_dump(*arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in moldau("log", "dump", "--output", "json", *arguments).splitlines()]


@pytest.fixture(scope="module")
def adopted(left_by_kafka: LeftByKafka, tmp_path_factory: pytest.TempPathFactory) -> Moldau:
    """A broker's directory that has adopted every partition. The broker is not started yet."""
    broker = Moldau(tmp_path_factory.mktemp("moldau"))
    sources = [*left_by_kafka.partitions("codecs"), *left_by_kafka.partitions("transactions")]
    moldau("log", "adopt", "--data", str(broker.data), *map(str, sources))
    return broker


def test_log_dump_prints_what_kafkas_tool_prints_for_every_file(jars: KafkaJars, left_by_kafka: LeftByKafka) -> None:
    partitions = [*left_by_kafka.partitions("codecs"), *left_by_kafka.partitions("transactions")]
    files = [file for directory in partitions for file in corpus.segment_files(directory)]
    theirs = dump(jars, files)
    ours = log_dump(*map(str, files))

    names = ("baseOffset", "lastOffset", "count", "baseSequence", "producerId", "producerEpoch", "position", "crc")
    batches = [entry for entry in ours if "baseOffset" in entry]
    assert [[entry[name] for name in names] for entry in batches] == [
        [int(batch[name]) for name in names] for batch in theirs.batches
    ]
    assert [entry["codec"] for entry in batches] == [batch["compresscodec"] for batch in theirs.batches]

    offsets = [(entry["offset"], entry["position"]) for entry in ours if entry["file"].endswith(".index")]
    times = [(entry["timestamp"], entry["offset"]) for entry in ours if entry["file"].endswith(".timeindex")]
    assert offsets == theirs.offset_entries
    assert times == theirs.time_entries
    assert sum(entry["file"].endswith(".txnindex") for entry in ours) == len(theirs.aborted)
    assert sum(entry["file"].endswith(".snapshot") for entry in ours) == len(theirs.producers)


def test_log_dump_shows_every_record_that_a_consumer_of_apache_kafka_saw(left_by_kafka: LeftByKafka) -> None:
    seen = []
    for partition, directory in enumerate(left_by_kafka.partitions("codecs")):
        entries = log_dump("--records", *map(str, corpus.files_of(directory, ".log")))
        seen += [_as_consumed(partition, entry) for entry in entries if "record" in entry]
    assert hashlib.sha256("\n".join(seen).encode()).hexdigest() == left_by_kafka.everything.digest


def _as_consumed(partition: int, entry: dict[str, Any]) -> str:
    """A record in the output format of kcat; see corpus.py."""
    key, value = entry["key"], entry["value"]
    headers = ",".join(f"{name}={text}" for name, text in entry.get("headers", {}).items())
    sizes = [-1 if text is None else len(text) for text in (key, value)]
    fields = (partition, entry["record"], entry["timestamp"], sizes[0], key or "", headers, sizes[1], value or "")
    return "\t".join(map(str, fields))


def test_adopted_topics_are_served_with_unchanged_records(adopted: Moldau, left_by_kafka: LeftByKafka) -> None:
    with adopted as broker:
        assert corpus.read_topic(broker.bootstrap, "codecs") == left_by_kafka.everything


@pytest.mark.parametrize("level", ["committed", "uncommitted"])
def test_an_adopted_topic_hides_aborted_records_from_read_committed_consumers(
    adopted: Moldau, left_by_kafka: LeftByKafka, level: str
) -> None:
    expected = left_by_kafka.committed if level == "committed" else left_by_kafka.uncommitted
    with adopted as broker:
        assert corpus.read_topic(broker.bootstrap, "transactions", f"isolation.level=read_{level}") == expected


def test_an_adopted_topic_keeps_its_id_and_continues_after_its_last_record(
    left_by_kafka: LeftByKafka, tmp_path: Path
) -> None:
    partitions = left_by_kafka.partitions("transactions")
    moldau("log", "adopt", "--data", str(tmp_path / "data"), *map(str, partitions))
    with Moldau(tmp_path) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        found = admin.describe_topics(TopicCollection(["transactions"]))["transactions"].result(timeout=30)
        corpus.kcat(broker.bootstrap, "-P", "-t", "transactions", stdin="one more\n")
        after = corpus.read_topic(broker.bootstrap, "transactions", "isolation.level=read_uncommitted")
    # librdkafka prints ids in standard base64; Kafka's files have URL-safe base64.
    topic_id = str(found.topic_id).translate(str.maketrans("+/", "-_"))
    assert f"topic_id: {topic_id}" in (partitions[0] / "partition.metadata").read_text()
    assert after.records == left_by_kafka.uncommitted.records + 1


def test_the_same_partition_is_not_adopted_twice(adopted: Moldau, left_by_kafka: LeftByKafka) -> None:
    source = left_by_kafka.partitions("codecs")[0]
    command = moldau_command("log", "adopt", "--data", str(adopted.data), str(source))
    again = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False)
    assert again.returncode == 1
    assert "codecs" in again.stderr
