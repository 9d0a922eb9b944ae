"""Flushes: when one is due, which appends wait for it, and one flush for many appends."""

from __future__ import annotations

from moldau.log.config import LogConfig
from moldau.testing.faulty_fs import FaultyFileSystem
from tests.unit.log.support import NOW, append_all, file_system, flush, new_log, offsets, reload


def test_without_settings_nothing_is_held_back_and_nothing_is_due() -> None:
    log = new_log()
    append_all(log, 3)
    assert log.flush_barrier == log.end_offset == 3
    assert log.flushed_offset == 0
    assert not log.needs_flush(NOW + 10**12)


def test_with_flush_messages_1_a_record_is_shown_when_it_is_on_disk() -> None:
    log = new_log(config=LogConfig(flush_messages=1))
    append_all(log, 1)
    assert (log.flush_barrier, log.end_offset) == (0, 1)
    assert log.needs_flush(NOW)
    flush(log)
    assert log.flush_barrier == log.flushed_offset == 1
    assert not log.needs_flush(NOW)


def test_the_append_that_reaches_flush_messages_waits_for_the_flush_and_earlier_ones_stay_visible() -> None:
    log = new_log(config=LogConfig(flush_messages=5))
    append_all(log, 2, count=2)
    assert log.flush_barrier == 4
    assert not log.needs_flush(NOW)
    append_all(log, 1, count=3)
    assert (log.flush_barrier, log.end_offset) == (4, 7)
    append_all(log, 1)
    assert log.flush_barrier == 4
    flush(log)
    assert log.flush_barrier == 8


def test_appends_during_a_flush_share_the_next_one() -> None:
    log = new_log(config=LogConfig(flush_messages=1))
    append_all(log, 2)
    job = log.flush_job()
    assert job is not None
    append_all(log, 3)
    assert log.flush_job() is None  # one at a time
    job.run()
    log.flush_done(job, NOW)
    assert (log.flush_barrier, log.flushed_offset, log.end_offset) == (2, 2, 5)
    assert log.needs_flush(NOW)
    flush(log)
    assert log.flush_barrier == 5


def test_one_flush_is_one_fsync_of_the_log_however_many_batches_it_serves() -> None:
    log = new_log(config=LogConfig(flush_messages=1))
    append_all(log, 1)
    flush(log)
    calls = file_system(log).calls
    calls.record = []
    append_all(log, 50)
    flush(log)
    assert [call for call in calls.record if call[0] in ("fdatasync", "fsync")] == [
        ("fdatasync", f"{log.directory}/{0:020d}.log")
    ]


def test_flush_ms_asks_for_a_flush_when_the_time_has_passed_and_there_is_something_to_flush() -> None:
    log = new_log(config=LogConfig(flush_ms=1000))
    empty = log.flushes_by_time
    append_all(log, 1)
    assert (empty, log.flushes_by_time) == (False, True)
    assert log.flush_barrier == 1
    assert not log.needs_flush(NOW + 999)
    assert log.needs_flush(NOW + 1000)
    flush(log, NOW + 1000)
    assert not log.needs_flush(NOW + 5000)
    append_all(log, 1)
    assert not log.needs_flush(NOW + 1999)
    assert log.needs_flush(NOW + 2000)


def test_a_flush_does_not_acknowledge_records_truncated_meanwhile() -> None:
    log = new_log(config=LogConfig(flush_messages=1))
    append_all(log, 5)
    job = log.flush_job()
    assert job is not None
    log.truncate_to(2, NOW)
    append_all(log, 4)
    job.run()
    log.flush_done(job, NOW)
    assert log.flushed_offset == log.flush_barrier == 2
    flush(log)
    assert log.flush_barrier == 6


def test_a_segment_completed_during_a_flush_is_sealed_by_the_next() -> None:
    log = new_log()
    append_all(log, 2)
    log.roll(NOW)
    job = log.flush_job()
    assert job is not None
    append_all(log, 2)
    log.roll(NOW)
    job.run()
    log.flush_done(job, NOW)
    assert log.needs_flush(NOW)
    assert log.recovery_point == 2
    flush(log)
    assert log.recovery_point == 4


def test_retention_during_a_flush_does_not_disturb_it() -> None:
    log = new_log()
    append_all(log, 2)
    log.roll(NOW)
    job = log.flush_job()
    assert job is not None
    log.delete_before(2)
    job.run()
    log.flush_done(job, NOW)
    append_all(log, 1)
    assert offsets(log) == [2]
    assert offsets(reload(log)) == [2]


def test_a_record_found_after_a_crash_is_not_shown_before_it_is_on_disk() -> None:
    log = new_log(config=LogConfig(flush_messages=1))
    append_all(log, 2)
    flush(log)
    append_all(log, 1)
    found = reload(log, recovery_point=2)
    assert (found.end_offset, found.flush_barrier) == (3, 2)
    assert found.needs_flush(NOW)
    flush(found)
    assert found.flush_barrier == 3


def test_nothing_that_a_flush_promised_is_lost_with_the_power() -> None:
    for seed in range(40):
        fs = FaultyFileSystem()
        log = new_log(fs, LogConfig(segment_bytes=500))
        append_all(log, 7, value=b"x" * 50)
        flush(log)
        append_all(log, 5, value=b"y" * 50)
        found = reload(log, fs=fs.after_power_loss(seed), recovery_point=0)
        assert found.end_offset >= 7
        assert offsets(found) == list(range(found.end_offset))
