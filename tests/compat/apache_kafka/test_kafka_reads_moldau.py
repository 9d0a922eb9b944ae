"""Logs written by Moldau: Kafka's own tool accepts them, and Kafka serves them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.compat.apache_kafka import corpus
from tests.compat.apache_kafka.corpus import Written
from tests.compat.apache_kafka.dumps import Dump, dump
from tests.compat.apache_kafka.jars import KafkaJars
from tests.compat.apache_kafka.processes import ApacheKafka, Moldau

pytestmark = [pytest.mark.needs_java, pytest.mark.needs_kcat, pytest.mark.timeout(600)]

TOPIC = "codecs"


@dataclass(frozen=True)
class LeftByMoldau:
    """A data directory, the partitions of one topic in it, and the records that the broker served from them."""

    data: Path
    everything: Written

    def partitions(self) -> list[Path]:
        return [self.data / f"{TOPIC}-{partition}" for partition in range(corpus.PARTITIONS)]

    def files(self) -> list[Path]:
        return [file for directory in self.partitions() for file in corpus.segment_files(directory)]


@pytest.fixture(scope="module", params=["clean stop", "kill -9 and recovery"])
def left_by_moldau(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LeftByMoldau:
    """The corpus, from a broker that was stopped cleanly, and from one that was killed and had to recover."""
    moldau = Moldau(tmp_path_factory.mktemp("moldau"))
    moldau.start()
    corpus.write_every_codec(moldau.bootstrap, TOPIC)
    corpus.write_idempotently(moldau.bootstrap, TOPIC)
    if request.param != "clean stop":
        moldau.kill()
        moldau.start()
    everything = corpus.read_topic(moldau.bootstrap, TOPIC)
    moldau.stop()
    return LeftByMoldau(moldau.data, everything)


def test_every_record_is_found_in_several_segments_without_a_complaint(
    jars: KafkaJars, left_by_moldau: LeftByMoldau
) -> None:
    found = _dump(jars, left_by_moldau.files(), "--deep-iteration", "--print-data-log")
    assert found.records == left_by_moldau.everything.records
    assert found.codecs == set(corpus.CODECS)
    assert len(found.offset_entries) > len(found.batches) / 2
    for directory in left_by_moldau.partitions():
        assert len(corpus.files_of(directory, ".log")) >= 3


@pytest.mark.parametrize("flag", ["--index-sanity-check", "--verify-index-only"])
def test_our_indexes_pass_kafkas_sanity_checks(jars: KafkaJars, left_by_moldau: LeftByMoldau, flag: str) -> None:
    _dump(jars, left_by_moldau.files(), flag)


def test_a_snapshot_contains_the_producers(jars: KafkaJars, left_by_moldau: LeftByMoldau) -> None:
    snapshots = [corpus.files_of(directory, ".snapshot")[-1] for directory in left_by_moldau.partitions()]
    (producer,) = _dump(jars, snapshots).producers
    told = {name: producer[name] for name in ("producerId", "producerEpoch", "firstSequence", "lastSequence")}
    assert told == {"producerId": "4711", "producerEpoch": "2", "firstSequence": "18", "lastSequence": "20"}


def test_apache_kafka_serves_the_directories_that_moldau_left(
    jars: KafkaJars, left_by_moldau: LeftByMoldau, tmp_path: Path
) -> None:
    kafka = ApacheKafka(jars, tmp_path)
    with kafka:
        corpus.create_topic(kafka.bootstrap, TOPIC, {})
    for directory in left_by_moldau.partitions():
        _put_in_place_of(directory, kafka.data / directory.name)
    with kafka:
        assert corpus.read_topic(kafka.bootstrap, TOPIC) == left_by_moldau.everything


def _dump(jars: KafkaJars, files: Sequence[Path], *flags: str) -> Dump:
    found = dump(jars, files, *flags)
    assert found.complaints == []
    return found


def _put_in_place_of(ours: Path, theirs: Path) -> None:
    """Put our partition in the place of Kafka's; the topic keeps the id of Kafka's metadata."""
    identity = (theirs / "partition.metadata").read_bytes()
    shutil.rmtree(theirs)
    shutil.copytree(ours, theirs)
    (theirs / "partition.metadata").write_bytes(identity)
