"""Check of the references before their use: a real Apache Kafka, and the tool that dumps its files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.compat.apache_kafka import corpus
from tests.compat.apache_kafka.corpus import LeftByKafka
from tests.compat.apache_kafka.dumps import dump
from tests.compat.apache_kafka.jars import KafkaJars

pytestmark = [pytest.mark.needs_java, pytest.mark.needs_kcat, pytest.mark.timeout(600)]


def test_apache_kafka_holds_every_record_of_the_corpus(left_by_kafka: LeftByKafka) -> None:
    assert left_by_kafka.everything.records == len(corpus.CODECS) * corpus.RECORDS_PER_CODEC + 3
    assert left_by_kafka.committed.records == 100
    assert left_by_kafka.uncommitted.records == 200


def test_the_corpus_fills_several_segments_and_leaves_every_kind_of_file(left_by_kafka: LeftByKafka) -> None:
    for directory in left_by_kafka.partitions("codecs"):
        assert len(corpus.files_of(directory, ".log")) >= 3
        assert corpus.files_of(directory, ".snapshot")
    aborted = [file for directory in left_by_kafka.partitions("transactions") for file in directory.glob("*.txnindex")]
    assert any(file.stat().st_size for file in aborted)


def test_the_dump_tool_accepts_files_of_apache_kafka(jars: KafkaJars, left_by_kafka: LeftByKafka) -> None:
    partitions = [*left_by_kafka.partitions("codecs"), *left_by_kafka.partitions("transactions")]
    found = dump(
        jars, [file for directory in partitions for file in corpus.segment_files(directory)], "--deep-iteration"
    )
    assert found.complaints == []
    control_records = 4 * corpus.PARTITIONS
    assert found.records == left_by_kafka.everything.records + left_by_kafka.uncommitted.records + control_records
    assert found.codecs == set(corpus.CODECS)


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex"])
def test_the_dump_tool_complains_about_a_damaged_file(
    jars: KafkaJars, left_by_kafka: LeftByKafka, tmp_path: Path, suffix: str
) -> None:
    """Otherwise a test that expects no complaint would prove nothing."""
    damaged = tmp_path / "codecs-0"
    shutil.copytree(left_by_kafka.partitions("codecs")[0], damaged)
    victim = corpus.files_of(damaged, suffix)[1]
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 0x55
    victim.write_bytes(content)
    assert dump(jars, corpus.segment_files(damaged), "--deep-iteration").complaints
