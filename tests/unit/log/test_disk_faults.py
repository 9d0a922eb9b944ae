"""Disk faults: full, broken and read-only disks give errors, and acknowledged records are kept."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from moldau.host.fs import TornFile
from moldau.log.config import LogConfig
from moldau.log.dirs import LogDirs, LogDirsError
from moldau.log.errors import DirectoryOffline, StorageError
from moldau.log.log import Log
from moldau.log.log_dir import DataDirectory
from moldau.testing.faulty_fs import FaultyFileSystem
from moldau.wire.errors import ErrorCode
from moldau.wire.topic_partition import TopicPartition
from tests.unit.log.support import (
    NOW,
    ROOT,
    TOPIC_ID,
    append_all,
    batch,
    close_dirs,
    file_system,
    flush,
    new_log,
    offsets,
    open_dirs,
    reload,
    with_threads,
)

SMALL_SEGMENTS = LogConfig(segment_bytes=300)


def append(log: Log) -> None:
    log.append(batch(1, value=b"x" * 20), 0, NOW)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("partial", [0, 1, 61, 90])
def test_a_full_disk_at_any_write_fails_that_append_and_nothing_else(error: int, partial: int) -> None:
    for write in range(10):
        log = new_log(config=SMALL_SEGMENTS)
        fs = file_system(log)
        fs.fail("pwritev", error, path="*.log", after=write, partial=partial)
        append_all(log, write, count=1, value=b"x" * 20)
        with pytest.raises(StorageError) as refused:
            append(log)
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert not refused.value.fatal
        assert offsets(log) == list(range(write))
        append_all(log, 5, count=1, value=b"x" * 20)
        assert offsets(log) == list(range(write + 5))
        assert offsets(reload(log)) == list(range(write + 5))


def test_a_full_disk_while_a_segment_begins_fails_that_append_and_nothing_else() -> None:
    for create in range(3):
        log = new_log(config=SMALL_SEGMENTS)
        fs = file_system(log)
        append_all(log, 3, count=1, value=b"x" * 20)
        fs.fail("create", errno.ENOSPC, path=f"*{3:020d}*", after=create)
        with pytest.raises(StorageError):
            append(log)
        assert offsets(log) == [0, 1, 2]
        append(log)
        assert offsets(log) == [0, 1, 2, 3]
        assert offsets(reload(log)) == [0, 1, 2, 3]


def test_a_full_volume_takes_the_batches_that_fit_and_continues_when_there_is_room() -> None:
    log = new_log()
    disk = file_system(log).disk
    disk.capacity = disk.space(ROOT)[0] - disk.space(ROOT)[1] + 1000
    taken = 1000 // len(batch(1, value=b"x" * 20))
    append_all(log, taken, count=1, value=b"x" * 20)
    with pytest.raises(StorageError):
        append(log)
    assert offsets(log) == list(range(taken))
    disk.capacity += 10_000
    append(log)
    assert offsets(reload(log)) == list(range(taken + 1))


@pytest.mark.parametrize("error", [errno.EIO, errno.EROFS])
def test_a_broken_disk_takes_the_directory_offline(error: int) -> None:
    log = new_log()
    append(log)
    file_system(log).fail("pwritev", error, path="*.log")
    with pytest.raises(DirectoryOffline):
        append(log)
    with pytest.raises(DirectoryOffline):
        append(log)  # although the disk would accept it now
    with pytest.raises(DirectoryOffline):
        log.read(0, 100, 1)
    assert log.flush_job() is None


def test_a_failed_append_that_cannot_be_undone_takes_the_directory_offline() -> None:
    log = new_log()
    append(log)
    fs = file_system(log)
    fs.fail("pwritev", errno.ENOSPC, path="*.log", partial=40)
    fs.fail("ftruncate", errno.EIO, path="*.log")
    with pytest.raises(DirectoryOffline, match="could not be undone"):
        append(log)
    fs.heal()
    found = reload(log)
    assert offsets(found) == [0]
    append(found)
    assert offsets(found) == [0, 1]


def test_a_torn_file_takes_no_further_append() -> None:
    fs = FaultyFileSystem()
    file = fs.create("/f")
    file.append([b"good"])
    fs.fail("pwritev", errno.ENOSPC, partial=2)
    fs.fail("ftruncate", errno.EIO)
    with pytest.raises(TornFile):
        file.append([b"torn"])
    fs.heal()
    with pytest.raises(TornFile):
        file.append([b"more"])
    assert file.read(0, 100) == b"good"


def test_a_failed_fsync_is_never_followed_by_an_acknowledgement() -> None:
    log = new_log(config=LogConfig(flush_messages=1))
    append(log)
    flush(log)
    fs = file_system(log)
    fs.fail("fdatasync", errno.EIO, path="*.log")
    append(log)
    assert log.flush_barrier == 1
    job = log.flush_job()
    assert job is not None
    job.run()
    with pytest.raises(DirectoryOffline):
        log.flush_done(job, NOW)
    assert (log.flush_barrier, log.flushed_offset) == (1, 1)
    assert log.flush_job() is None
    job.run()  # also for a second attempt: the file remembers the failure
    assert job.error is not None
    after = reload(log, fs=fs.after_power_loss(1))
    assert offsets(after)[:1] == [0]


@pytest.mark.parametrize("seed", range(8))
def test_the_next_process_rewrites_data_after_a_failed_fsync(seed: int) -> None:
    fs = FaultyFileSystem()
    log = open_dirs(fs).create("t", TOPIC_ID, 0, SMALL_SEGMENTS)
    append_all(log, 2, count=1, value=b"x" * 20)
    flush(log)
    append_all(log, 4, count=1, value=b"x" * 20)
    fs.fail("fdatasync", errno.EIO, path="*.log")
    with pytest.raises(DirectoryOffline):
        flush(log)

    again = open_dirs(fs.after_kill(), SMALL_SEGMENTS)
    log = again.logs[TopicPartition("t", 0)]
    assert offsets(log) == list(range(6))
    append(log)
    flush(log)
    with_threads(again.write_checkpoints)
    assert log.recovery_point == 7

    assert isinstance(again.fs, FaultyFileSystem)
    last = open_dirs(again.fs.after_power_loss(seed), SMALL_SEGMENTS)
    assert offsets(last.logs[TopicPartition("t", 0)]) == list(range(7))


def test_a_disk_counts_as_failed_until_a_start_has_rewritten_everything() -> None:
    fs = FaultyFileSystem()
    append(log := open_dirs(fs).create("t", TOPIC_ID, 0, LogConfig()))
    fs.fail("fdatasync", errno.EIO, path="*.log")
    with pytest.raises(DirectoryOffline):
        flush(log)
    fs = fs.after_kill()
    fs.fail("fdatasync", errno.EIO, path="*.log.tmp")
    with pytest.raises(LogDirsError, match="no data directory can be used"):
        open_dirs(fs)
    assert fs.exists(f"{ROOT}/moldau-disk-failed")
    again = open_dirs(fs.after_kill())
    assert offsets(again.logs[TopicPartition("t", 0)]) == [0]
    assert not again.fs.exists(f"{ROOT}/moldau-disk-failed")


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_failed_fsync_is_fatal_whatever_its_number(error: int) -> None:
    log = new_log()
    append(log)
    file_system(log).fail("fdatasync", error, path="*.log")
    job = log.flush_job()
    assert job is not None
    job.run()
    with pytest.raises(DirectoryOffline):
        log.flush_done(job, NOW)


def test_a_directory_that_cannot_be_synced_is_a_failure_like_a_file() -> None:
    log = new_log()
    append(log)
    file_system(log).fail("fsync", errno.EIO, path=log.directory)
    job = log.flush_job()
    assert job is not None
    job.run()
    with pytest.raises(DirectoryOffline):
        log.flush_done(job, NOW)


def test_no_room_for_an_index_holds_the_flush_back_until_there_is_some() -> None:
    log = new_log(config=SMALL_SEGMENTS)
    append_all(log, 4, count=1, value=b"x" * 20)
    fs = file_system(log)
    fs.fail("pwritev", errno.ENOSPC, path="*.timeindex.*tmp")
    job = log.flush_job()
    assert job is not None
    job.run()
    with pytest.raises(StorageError) as refused:
        log.flush_done(job, NOW)
    assert not refused.value.fatal
    assert log.needs_flush(NOW)
    assert log.recovery_point == 0
    flush(log)
    assert log.recovery_point == 4
    assert not log.needs_flush(NOW)


@pytest.mark.parametrize("cut", [lambda log: log.truncate_to(2, NOW), lambda log: log.restart_at(2, NOW)])
def test_a_truncation_without_room_has_no_effect_and_can_be_repeated(cut: Callable[[Log], None]) -> None:
    fs = FaultyFileSystem()
    log = open_dirs(fs).create("t", TOPIC_ID, 0, LogConfig())
    append_all(log, 5, count=1)
    flush(log)
    fs.fail("pwritev", errno.ENOSPC, path="*checkpoint*")
    with pytest.raises(StorageError) as refused:
        cut(log)
    assert not refused.value.fatal
    assert offsets(log) == [0, 1, 2, 3, 4]  # and no reader waits for the end of a truncation
    assert log.offset_for_timestamp(NOW) is not None
    assert log.flushed_offset == 5
    cut(log)
    assert log.end_offset == 2


@pytest.mark.parametrize(("call", "path"), [("rename", "*.log"), ("ftruncate", "*"), ("preadv", "*.snapshot")])
def test_a_truncation_that_fails_halfway_leaves_no_reader_waiting(call: str, path: str) -> None:
    fs = FaultyFileSystem()
    log = open_dirs(fs).create("t", TOPIC_ID, 0, SMALL_SEGMENTS)
    for sequence in range(7):
        log.append(batch(1, value=b"x" * 20, producer_id=1, sequence=sequence), 0, NOW)
    flush(log)
    fs.fail(call, errno.EIO, path=path)
    with pytest.raises(DirectoryOffline):
        log.truncate_to(5, NOW)
    with pytest.raises(DirectoryOffline):
        log.read(1, 1000, 2)


# -- several directories ---------------------------------------------------------------------------------------------


def two_directories() -> tuple[LogDirs, Log, Log, list[str]]:
    dirs = open_dirs(FaultyFileSystem(), paths=("/one", "/two"))
    failed: list[str] = []

    def note(directory: DataDirectory) -> None:
        failed.append(directory.path)

    dirs.on_failure(note)
    logs = [dirs.create("t", TOPIC_ID, number, LogConfig()) for number in range(2)]
    first, second = sorted(logs, key=lambda log: log.data_dir.path)
    return dirs, first, second, failed


def test_a_failed_directory_leaves_the_others_alone_and_tells_its_listener() -> None:
    dirs, first, second, failed = two_directories()
    append(first)
    append(second)
    assert isinstance(dirs.fs, FaultyFileSystem)
    dirs.fs.fail("pwritev", errno.EIO, path="/one/*", times=None)
    with pytest.raises(DirectoryOffline):
        append(first)
    append(second)
    assert failed == ["/one"]
    assert dirs.any_offline
    assert [one.path for one in dirs.online] == ["/two"]
    assert dirs.create("t", TOPIC_ID, 7, LogConfig()).data_dir.path == "/two"
    with_threads(dirs.write_checkpoints)
    close_dirs(dirs)
    assert not dirs.fs.exists("/one/.kafka_cleanshutdown")
    assert dirs.fs.exists("/two/.kafka_cleanshutdown")


def test_all_logs_of_a_failed_directory_refuse() -> None:
    dirs = open_dirs(FaultyFileSystem())
    logs = [dirs.create("t", TOPIC_ID, number, LogConfig()) for number in range(3)]
    assert isinstance(dirs.fs, FaultyFileSystem)
    dirs.fs.fail("pwritev", errno.EIO, path="*t-1/*")
    with pytest.raises(DirectoryOffline):
        append(logs[1])
    for log in logs:
        with pytest.raises(DirectoryOffline):
            append(log)
    with pytest.raises(StorageError, match="offline"):
        dirs.create("t", TOPIC_ID, 9, LogConfig())


def test_a_directory_that_cannot_be_read_at_the_start_is_offline_and_the_other_serves() -> None:
    dirs, first, second, _ = two_directories()
    append(first)
    append(second)
    close_dirs(dirs)
    assert isinstance(dirs.fs, FaultyFileSystem)
    dirs.fs.fail("scan", errno.EIO, path="/one")
    again = open_dirs(dirs.fs, paths=("/one", "/two"))
    assert [log.data_dir.path for log in again.logs.values()] == ["/two"]


def test_a_partition_is_not_created_on_a_full_disk_and_is_when_there_is_room() -> None:
    fs = FaultyFileSystem()
    dirs = open_dirs(fs)
    for call in ("mkdir", "create", "pwritev", "rename"):
        fs.fail(call, errno.ENOSPC, path="*t-0*")
        with pytest.raises(StorageError) as refused:
            dirs.create("t", TOPIC_ID, 0, LogConfig())
        assert not refused.value.fatal
    log = dirs.create("t", TOPIC_ID, 0, LogConfig())
    append(log)
    assert offsets(log) == [0]
    assert list(dirs.logs) == [TopicPartition("t", 0)]


def test_a_stop_on_a_full_disk_is_not_a_clean_one() -> None:
    fs = FaultyFileSystem()
    dirs = open_dirs(fs)
    append(dirs.create("t", TOPIC_ID, 0, LogConfig()))
    fs.fail("pwritev", errno.ENOSPC, path="*.snapshot.*tmp", times=None)
    close_dirs(dirs)
    assert not fs.exists(f"{ROOT}/.kafka_cleanshutdown")
    fs.heal()
    again = open_dirs(fs.after_kill())
    assert offsets(again.logs[TopicPartition("t", 0)]) == [0]
