"""Segment rolls."""

from __future__ import annotations

from dataclasses import replace

from moldau.host.clock import Randomness
from moldau.log.config import LogConfig
from moldau.log.directory import LogDirectory
from moldau.log.log import Log
from moldau.testing.faulty_fs import FaultyFileSystem
from tests.unit.log.support import NAME, NOW, ROOT, TOPIC_ID, append_all, batch, flush, new_log, offsets, reload

HOUR = 3_600_000
NEVER_TOO_NEW = 2**62


def bases(log: Log) -> list[int]:
    return [int(name[:20]) for name in log.data_dir.fs.listdir(log.directory) if name.endswith(".log")]


def test_by_size_before_a_batch_that_would_not_fit() -> None:
    size = len(batch())
    log = new_log(config=LogConfig(segment_bytes=3 * size))
    append_all(log, 3)
    assert bases(log) == [0]
    append_all(log, 1)
    assert bases(log) == [0, 3]
    append_all(log, 3)
    assert bases(log) == [0, 3, 6]


def test_by_time_counted_in_the_records_own_timestamps() -> None:
    log = new_log(config=LogConfig(segment_ms=HOUR, message_timestamp_after_max_ms=NEVER_TOO_NEW))
    log.append(batch(2, timestamp=NOW, step=10), 0, NOW)
    log.append(batch(timestamp=NOW + 10 + HOUR), 0, NOW)
    assert bases(log) == [0]
    log.append(batch(timestamp=NOW - HOUR), 0, NOW + 5 * HOUR)  # the wall clock has no effect
    assert bases(log) == [0]
    log.append(batch(timestamp=NOW + 11 + HOUR), 0, NOW)
    assert bases(log) == [0, 4]


def test_by_the_clock_where_records_have_no_timestamp() -> None:
    log = new_log(config=LogConfig(segment_ms=HOUR))
    log.append(batch(timestamp=-1, step=0), 0, NOW)
    log.append(batch(timestamp=-1, step=0), 0, NOW + HOUR)
    assert bases(log) == [0]
    log.append(batch(timestamp=-1, step=0), 0, NOW + HOUR + 1)
    assert bases(log) == [0, 2]


def test_the_age_of_a_segment_is_known_after_a_restart() -> None:
    config = LogConfig(segment_ms=HOUR, message_timestamp_after_max_ms=NEVER_TOO_NEW)
    log = new_log(config=config)
    log.append(batch(timestamp=NOW), 0, NOW)
    for clean in (False, True):
        found = reload(log, clean=clean)
        found.append(batch(timestamp=NOW + HOUR + 1), 0, NOW)
        assert bases(found) == [0, 1]
        found.truncate_to(1, NOW)


class Fixed(Randomness):
    """Randomness that always returns the same value."""

    def random(self) -> float:
        return 0.5

    def uuid(self) -> bytes:
        return bytes(16)


def test_jitter_makes_a_segment_complete_earlier() -> None:
    fs = FaultyFileSystem()
    fs.mkdir(ROOT)
    config = LogConfig(segment_ms=HOUR, segment_jitter_ms=1000, message_timestamp_after_max_ms=NEVER_TOO_NEW)
    log = Log.create(NAME, TOPIC_ID, LogDirectory(ROOT, fs, randomness=Fixed()), config, NOW)
    log.append(batch(timestamp=NOW), 0, NOW)
    log.append(batch(timestamp=NOW + HOUR - 500), 0, NOW)
    assert bases(log) == [0]
    log.append(batch(timestamp=NOW + HOUR - 499), 0, NOW)
    assert bases(log) == [0, 2]


def test_by_a_full_offset_index() -> None:
    log = new_log(config=LogConfig(index_interval_bytes=0, segment_index_bytes=96))  # twelve offset entries
    append_all(log, 13, timestamp=NOW)
    assert bases(log) == [0]
    append_all(log, 1, timestamp=NOW)
    assert bases(log) == [0, 13]


def test_by_a_full_time_index() -> None:
    log = new_log(
        config=LogConfig(index_interval_bytes=0, segment_index_bytes=96)
    )  # seven time entries, one in reserve
    for number in range(8):
        log.append(batch(timestamp=NOW + number), 0, NOW)
    assert bases(log) == [0]
    log.append(batch(timestamp=NOW + 9), 0, NOW)
    assert bases(log) == [0, 8]


def test_a_full_index_rolls_the_segment_also_inside_one_append_of_a_follower() -> None:
    leader = new_log()
    append_all(leader, 30, timestamp=NOW)
    data = leader.read(0, 100_000, 30)
    assert data is not None
    log = new_log(config=LogConfig(index_interval_bytes=0, segment_index_bytes=96))  # twelve offset entries
    log.append_stamped(data, NOW)
    assert bases(log) == [0, 13, 26]
    assert offsets(log) == list(range(30))


def test_a_smaller_segment_size_applies_at_once() -> None:
    log = new_log()
    append_all(log, 5)
    log.config = replace(log.config, segment_bytes=len(batch()))
    append_all(log, 2)
    assert bases(log) == [0, 5, 6]


def test_an_empty_segment_is_not_rolled() -> None:
    log = new_log()
    log.roll(NOW)
    assert bases(log) == [0]
    append_all(log, 1)
    log.roll(NOW)
    log.roll(NOW)
    assert bases(log) == [0, 1]


def test_a_new_segment_has_index_files_and_a_complete_one_has_a_snapshot_after_its_flush() -> None:
    log = new_log()
    append_all(log, 2)
    log.roll(NOW)
    assert log.needs_flush(NOW)
    flush(log)
    assert not log.needs_flush(NOW)
    stems = [f"{0:020d}", f"{2:020d}"]
    assert log.data_dir.fs.listdir(log.directory) == sorted(
        [stem + suffix for stem in stems for suffix in (".index", ".log", ".timeindex")]
        + [stems[1] + ".snapshot", "leader-epoch-checkpoint", "partition.metadata"]
    )
    assert offsets(log) == [0, 1]
