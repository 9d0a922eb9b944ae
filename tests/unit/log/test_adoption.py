"""Adopted partition directories."""

from __future__ import annotations

import pytest

from moldau.log.adoption import adopt, find_partitions
from moldau.log.config import LogConfig
from moldau.log.log import Log
from moldau.wire.topic_partition import TopicPartition
from tests.unit.log.support import NOW, ROOT, TOPIC_ID, append_all, batch, file_system, flush, new_log, offsets, reload


def copied() -> Log:
    """A compacted log without the segment with offsets 3 to 5, as a Kafka without snapshots leaves it."""
    log = new_log(config=LogConfig(segment_bytes=3 * len(batch())))
    for number in range(9):
        log.append(batch(producer_id=6, sequence=number), 0, NOW)
    flush(log)
    fs = log.data_dir.fs
    fs.remove(f"{log.directory}/{3:020d}.log")
    for name in fs.listdir(log.directory):
        if name.endswith(".snapshot"):
            fs.remove(f"{log.directory}/{name}")
    return log


def test_a_directory_lists_its_partitions() -> None:
    log = copied()
    assert find_partitions(log.data_dir.fs, ROOT) == [log.directory]
    found = adopt(log.data_dir.fs, log.directory, NOW)
    assert found == (TopicPartition("topic", 0), TOPIC_ID, 0, 9, 6 * len(batch(producer_id=6)), ())


def test_gaps_of_compaction_survive_an_unclean_start_once_the_log_was_adopted() -> None:
    log = copied()
    adopt(log.data_dir.fs, log.directory, NOW)
    again = reload(log)
    assert offsets(again) == [0, 1, 2, 6, 7, 8]
    assert again.append(batch(producer_id=6, sequence=8), 0, NOW).duplicate


def test_damage_is_found_before_it_is_served() -> None:
    log = copied()
    path = f"{log.directory}/{6:020d}.log"
    file_system(log).disk.damage(path, 70, b"\xff")
    found = adopt(log.data_dir.fs, log.directory, NOW)
    assert [(one.path, one.position) for one in found.findings] == [(path, 0)]


def test_batches_of_an_old_format_are_a_finding_with_their_place() -> None:
    log = new_log()
    append_all(log, 3)
    path = f"{log.directory}/{0:020d}.log"
    file_system(log).disk.damage(path, len(batch()) + 16, b"\x01")
    (finding,) = adopt(log.data_dir.fs, log.directory, NOW).findings
    assert finding.position == len(batch())
    assert log.data_dir.fs.size(path) == 3 * len(batch())  # nothing was truncated
    assert "message format 1" in finding.reason


def test_another_directory_is_refused() -> None:
    with pytest.raises(ValueError, match="TOPIC-PARTITION"):
        adopt(new_log().data_dir.fs, ROOT, NOW)
