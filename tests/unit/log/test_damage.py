"""Damaged bytes in stored segments: reported with file and position, never served."""

from __future__ import annotations

import logging

import pytest

from moldau.log.config import LogConfig
from moldau.log.dirs import LogDirs
from moldau.log.errors import DamagedLog, StorageError
from moldau.log.log import Log
from moldau.testing.faulty_fs import FaultyFileSystem
from moldau.wire.errors import ErrorCode
from tests.unit.log.support import (
    NAME,
    TOPIC_ID,
    append_all,
    close_dirs,
    file_system,
    flush,
    new_log,
    offsets,
    open_dirs,
    reload,
    split,
)

SIZE = 100  # bytes of each batch


def flushed_log() -> tuple[Log, str]:
    """Ten batches of one record and a hundred bytes each, all on disk."""
    log = new_log()
    append_all(log, 10, count=1, key=b"k", value=b"v" * 31)
    assert log.size_bytes == 10 * SIZE
    flush(log)
    return log, f"{log.directory}/{0:020d}.log"


def served(log: Log, offset: int) -> int:
    data = log.read(offset, 10_000, log.end_offset)
    assert data is not None
    return len(split(data))


def test_a_damaged_batch_below_the_recovery_point_is_fenced_in_and_the_rest_is_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log, path = flushed_log()
    file_system(log).disk.damage(path, 4 * SIZE + 70, b"\xff")
    with caplog.at_level(logging.ERROR):
        found = reload(log, recovery_point=10)
    assert f"path={path} position={4 * SIZE} " in caplog.text
    assert found.end_offset == 10
    assert served(found, 0) == 4
    assert served(found, 5) == 5
    with pytest.raises(DamagedLog) as refused:
        found.read(4, 1000, 10)
    assert (refused.value.path, refused.value.position) == (path, 4 * SIZE)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR


def test_damage_that_destroyed_a_header_is_skipped_to_the_next_valid_batch() -> None:
    log, path = flushed_log()
    file_system(log).disk.damage(path, 4 * SIZE, b"\0" * 150)  # two damaged headers
    found = reload(log, recovery_point=10)
    assert served(found, 0) == 4
    assert served(found, 6) == 4
    with pytest.raises(DamagedLog):
        found.read(5, 1000, 10)


def test_damage_without_valid_data_after_it_is_truncated_and_a_copy_is_kept() -> None:
    log, path = flushed_log()
    file_system(log).disk.damage(path, 7 * SIZE, b"\xee" * 300)
    found = reload(log, recovery_point=10)
    assert offsets(found) == list(range(7))
    assert found.data_dir.fs.read_bytes(f"{path}.{7 * SIZE}.aside") == b"\xee" * 300


def test_damage_above_the_recovery_point_is_a_torn_tail() -> None:
    log, path = flushed_log()
    file_system(log).disk.damage(path, 4 * SIZE + 70, b"\xff")
    found = reload(log, recovery_point=4)
    assert offsets(found) == list(range(4))
    assert not [name for name in found.data_dir.fs.listdir(found.directory) if name.endswith(".aside")]


def test_damage_after_a_clean_stop_is_never_treated_as_a_torn_tail() -> None:
    log, path = flushed_log()
    file_system(log).disk.damage(path, 8 * SIZE + 16, b"\x07")
    found = reload(log, clean=True)
    assert found.end_offset == 10
    assert served(found, 0) == 8
    assert served(found, 9) == 1
    with pytest.raises(DamagedLog):
        found.read(8, 1000, 10)


def test_known_damage_stays_fenced_in_over_a_clean_stop() -> None:
    fs = FaultyFileSystem()
    dirs = open_dirs(fs)
    log = dirs.create(NAME.topic, TOPIC_ID, NAME.partition, LogConfig())
    append_all(log, 10, count=1, key=b"k", value=b"v" * 31)
    flush(log)
    path = f"{log.directory}/{0:020d}.log"
    fs.disk.damage(path, 4 * SIZE + 70, b"\xff")
    save(dirs)
    fs = fs.after_kill()
    close_dirs(open_dirs(fs))
    found = open_dirs(fs).logs[NAME]
    assert served(found, 0) == 4
    with pytest.raises(DamagedLog):
        found.read(4, 1000, 10)


def save(dirs: LogDirs) -> None:
    for one in dirs.all:
        one.save_checkpoints()


def test_a_read_of_an_impossible_header_reports_its_position_and_serves_earlier_batches() -> None:
    log, path = flushed_log()
    file_system(log).disk.damage(path, 4 * SIZE + 16, b"\x09")  # the number of the format
    assert served(log, 0) == 4
    with pytest.raises(DamagedLog, match=f"at byte {4 * SIZE}"):
        log.read(4, 1000, 10)


@pytest.mark.parametrize(
    ("position", "data"),
    [
        (0, b"\xff" * 8),
        (0, b"\x7f"),
        (8, b"\xff\xff\xff\xff"),
        (8, b"\x7f\xff\xff\xff"),
        (8, b"\0\0\0\x10"),
        (23, b"\x80\0\0\0"),
    ],
    ids=[
        "negative offset",
        "offset past the end",
        "negative length",
        "length past the file",
        "length below a header",
        "last offset before the first",
    ],
)
def test_no_damage_to_a_header_crashes_a_read(position: int, data: bytes) -> None:
    log, path = flushed_log()
    file_system(log).disk.damage(path, 4 * SIZE + position, data)
    assert [served(log, offset) for offset in range(4)] == [4, 3, 2, 1]
    with pytest.raises(DamagedLog, match=f"at byte {4 * SIZE}"):
        log.read(4, 1000, 10)


def test_verify_reads_everything_and_finds_a_wrong_checksum() -> None:
    log, path = flushed_log()
    assert log.verify() == []
    file_system(log).disk.damage(path, 6 * SIZE + 80, b"\xff")
    (finding,) = log.verify()
    assert (finding.path, finding.position) == (path, 6 * SIZE)
    assert "checksum" in finding.reason


def test_a_log_that_changed_after_a_clean_stop_is_scanned_again(caplog: pytest.LogCaptureFixture) -> None:
    fs = FaultyFileSystem()
    dirs = open_dirs(fs)
    log = dirs.create(NAME.topic, TOPIC_ID, NAME.partition, LogConfig())
    append_all(log, 10, count=1, key=b"k", value=b"v" * 31)
    close_dirs(dirs)
    path = f"{log.directory}/{0:020d}.log"
    fs.write_atomically(path, fs.read_bytes(path)[:-150])
    found = open_dirs(fs).logs[NAME]
    assert found.end_offset == 10  # the size by the state file, until the log is used
    with caplog.at_level(logging.WARNING):
        assert offsets_after_opening(found) == list(range(8))
    assert "not as the last clean stop left it" in caplog.text


def offsets_after_opening(log: Log) -> list[int]:
    log.read(0, 10, log.end_offset)
    return offsets(log)


def test_an_older_segment_that_changed_after_a_clean_stop_is_not_served() -> None:
    fs = FaultyFileSystem()
    config = LogConfig(segment_bytes=300)
    dirs = open_dirs(fs, config)
    log = dirs.create(NAME.topic, TOPIC_ID, NAME.partition, config)
    append_all(log, 10, count=1, key=b"k", value=b"v" * 31)
    close_dirs(dirs)
    path = f"{log.directory}/{3:020d}.log"
    fs.write_atomically(path, fs.read_bytes(path)[:-150])
    found = open_dirs(fs, config).logs[NAME]
    assert served(found, 0) == 3
    with pytest.raises(DamagedLog, match="150 bytes instead of 300"):
        found.read(3, 1000, 10)
    assert served(found, 6) == 3


def test_a_missing_segment_file_fails_only_its_own_readers() -> None:
    log = new_log(config=LogConfig(segment_bytes=300))
    append_all(log, 10, count=1, key=b"k", value=b"v" * 31)
    for segment in log._segments.segments:
        segment.file.close()
    log.data_dir.fs.remove(f"{log.directory}/{3:020d}.log")
    with pytest.raises(StorageError) as refused:
        log.read(4, 1000, 10)
    assert not refused.value.fatal
    assert served(log, 0) == 3
    append_all(log, 1)
