"""Retention by time, size and log start offset, and the effect of deletion on readers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moldau.log.config import LogConfig
from moldau.log.errors import OffsetNotInLog
from moldau.log.log import Log
from tests.unit.log.support import NOW, append_all, batch, file_system, new_log, offsets, read_all, reload

HOUR = 3_600_000
SIZE = len(batch())


def four_segments(**settings: object) -> Log:
    """Offsets 0 to 7, two per segment, an hour apart; the active segment has 6 and 7."""
    log = new_log(config=replace(LogConfig(message_timestamp_after_max_ms=2**62), segment_bytes=2 * SIZE, **settings))  # type: ignore[arg-type]
    for number in range(8):
        log.append(batch(timestamp=NOW + number // 2 * HOUR), 0, NOW)
    return log


def base_offsets(log: Log, now_ms: int, high_watermark: int = 8) -> list[int]:
    return [segment.base_offset for segment in log.segments_to_delete(now_ms, high_watermark)]


def test_by_time_counted_from_the_largest_timestamp_of_a_segment() -> None:
    log = four_segments(retention_ms=HOUR)
    assert base_offsets(log, NOW + HOUR) == []
    assert base_offsets(log, NOW + HOUR + 1) == [0]
    assert base_offsets(log, NOW + 3 * HOUR) == [0, 2]
    assert log.delete_old_segments(NOW + 3 * HOUR, 8) == 2
    assert log.start_offset == 4
    assert offsets(log) == [4, 5, 6, 7]
    assert log.size_bytes == 4 * SIZE


def test_a_young_segment_keeps_the_later_ones() -> None:
    log = new_log(config=LogConfig(segment_bytes=SIZE, retention_ms=HOUR, message_timestamp_after_max_ms=2**62))
    for time in (0, 10 * HOUR, 0, 0):
        log.append(batch(timestamp=NOW + time), 0, NOW)
    assert base_offsets(log, NOW + 5 * HOUR, 4) == [0]


def test_by_the_time_of_the_last_write_where_records_have_no_timestamp() -> None:
    log = new_log(config=LogConfig(segment_bytes=SIZE, retention_ms=HOUR))
    append_all(log, 3, timestamp=-1, step=0)
    written = int(file_system(log).disk.now * 1000)
    assert base_offsets(log, written + HOUR, 3) == []
    assert base_offsets(log, written + HOUR + 1, 3) == [0, 1, 2]


def test_by_size_as_long_as_enough_is_left() -> None:
    assert base_offsets(four_segments(retention_bytes=8 * SIZE, retention_ms=-1), NOW) == []
    assert base_offsets(four_segments(retention_bytes=7 * SIZE, retention_ms=-1), NOW) == []
    assert base_offsets(four_segments(retention_bytes=6 * SIZE, retention_ms=-1), NOW) == [0]
    assert base_offsets(four_segments(retention_bytes=3 * SIZE, retention_ms=-1), NOW) == [0, 2]


def test_minus_one_keeps_everything_for_ever() -> None:
    assert base_offsets(four_segments(retention_ms=-1, retention_bytes=-1), NOW + 10**15) == []


def test_nothing_above_the_high_watermark_is_deleted() -> None:
    log = four_segments(retention_ms=HOUR)
    assert base_offsets(log, NOW + 100 * HOUR, high_watermark=3) == [0]


def test_a_compacted_topic_loses_only_records_before_the_log_start_offset() -> None:
    log = four_segments(retention_ms=HOUR, cleanup_policy="compact")
    assert base_offsets(log, NOW + 100 * HOUR) == []
    log.start_offset = 5
    assert base_offsets(log, NOW + 100 * HOUR) == [0, 2]


def test_when_all_records_expire_an_empty_segment_continues_the_offsets() -> None:
    log = four_segments(retention_ms=HOUR)
    assert log.delete_old_segments(NOW + 100 * HOUR, 8) == 4
    assert (log.start_offset, log.end_offset, log.size_bytes) == (8, 8, 0)
    assert log.delete_old_segments(NOW + 100 * HOUR, 8) == 0
    log.append(batch(timestamp=NOW + 100 * HOUR), 0, NOW)
    assert offsets(log) == [8]
    assert offsets(reload(log)) == [8]


def test_records_can_be_deleted_up_to_any_offset() -> None:
    log = four_segments(retention_ms=-1)
    log.delete_before(3)
    assert offsets(log) == [3, 4, 5, 6, 7]
    with pytest.raises(OffsetNotInLog):
        log.read(2, 100, 8)
    log.delete_before(1)  # an earlier offset changes nothing
    assert log.start_offset == 3
    log.delete_before(8)
    assert offsets(log) == []
    with pytest.raises(OffsetNotInLog):
        log.delete_before(9)
    append_all(log, 1)
    assert offsets(log) == [8]


def test_deleting_inside_of_a_batch_hides_its_first_records_from_lookups() -> None:
    log = new_log()
    log.append(batch(5, step=10), 0, NOW)
    log.delete_before(3)
    assert [record.offset for record in read_all(log)] == [3, 4]
    assert log.offset_for_timestamp(0) == (NOW + 30, 3, 0)


def test_files_of_dropped_segments_are_renamed_and_then_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    log = four_segments(retention_ms=HOUR)
    kept: list[str] = []
    monkeypatch.setattr(log.data_dir, "delete_later", lambda paths, _: kept.extend(paths))
    log.delete_old_segments(NOW + HOUR + 1, 8)
    assert all(path.endswith(".deleted") for path in kept)
    assert f"{log.directory}/{0:020d}.log.deleted" in kept
    assert all(log.data_dir.fs.exists(path) for path in kept)
    assert not [name for name in reload(log).data_dir.fs.listdir(log.directory) if name.endswith(".deleted")]


def test_a_reader_in_a_dropped_segment_reads_on(monkeypatch: pytest.MonkeyPatch) -> None:
    log = four_segments(retention_ms=HOUR)
    monkeypatch.setattr(log.data_dir, "delete_later", lambda *_: None)
    segment = log._segments.segments[0]
    log.delete_old_segments(NOW + HOUR + 1, 8)
    assert len(segment.file.read(0, 10_000)) == 2 * SIZE
