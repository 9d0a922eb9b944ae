"""Logs compacted by Moldau, read by Kafka's own tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.host.clock import SeededRandomness
from moldau.host.fs import LocalFileSystem
from moldau.log.directory import LogDirectory
from moldau.log.log import Log
from moldau.records import Codec
from tests.compat.apache_kafka import corpus
from tests.compat.apache_kafka.dumps import dump
from tests.compat.apache_kafka.jars import KafkaJars
from tests.unit.log.clean.support import (
    DAY,
    NAME,
    NOW,
    TOPIC_ID,
    clean,
    committed,
    complete,
    end_transaction,
    put,
    with_settings,
)

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(300)]

CONFIG = with_settings(segment_bytes=20_000, max_message_bytes=20_000, index_interval_bytes=200)


def cleaned(directory: Path, times: tuple[int, ...]) -> Log:
    """A compacted log with replaced and deleted values, every codec, committed and aborted transactions, and batches
    that only keep a sequence number; it was cleaned at these times."""
    data_dir = LogDirectory(str(directory), LocalFileSystem(64), randomness=SeededRandomness(1))
    log = Log.create(NAME, TOPIC_ID, data_dir, CONFIG, NOW)
    for turn in range(60):
        codec = list(Codec)[turn % len(Codec)]
        put(log, *((f"{turn % 7}-{number}", "x" * 50) for number in range(8)), codec=codec, timestamp=NOW + turn)
        put(log, (f"{turn % 9}-0", None), ("again", f"{turn}"), timestamp=NOW + turn)
        put(log, ("again", "counted"), producer_id=5, producer_epoch=1, base_sequence=turn)
        put(log, (f"t{turn}", "t"), producer_id=7, producer_epoch=0, base_sequence=turn, transactional=True)
        end_transaction(log, 7, commit=turn % 3 > 0, timestamp=NOW + turn)
    put(log, ("again", "for the last time"))
    complete(log)
    put(log, ("last", "1"))
    expected = committed(log)
    for now_ms in times:
        outcome = clean(log, now_ms=now_ms)
        assert outcome.failure is None
        assert outcome.taken
        assert committed(log) == expected
    log.close(NOW)
    return log


@pytest.mark.parametrize(
    ("times", "deletes_left"), [((NOW + 100, NOW + 101), True), ((NOW + 100, NOW + 101, NOW + 102 + DAY), False)]
)
def test_cleaned_segments_and_their_indexes_are_in_order(
    jars: KafkaJars, tmp_path: Path, times: tuple[int, ...], deletes_left: bool
) -> None:
    log = cleaned(tmp_path, times)
    files = corpus.segment_files(Path(log.directory))
    found = dump(jars, files)
    assert found.complaints == []
    assert len(found.batches) > 50
    assert found.codecs == set(corpus.CODECS)
    assert any(int(batch["count"]) == 0 for batch in found.batches), "no header that keeps a sequence number"
    assert any(batch["deleteHorizonMs"] != "OptionalLong.empty" for batch in found.batches) is deletes_left
    assert found.offset_entries
    assert found.time_entries
    for flag in ("--index-sanity-check", "--verify-index-only"):
        assert dump(jars, files, flag).complaints == []
