"""Data directories of a broker: ownership, contents, clean and unclean restarts."""

from __future__ import annotations

import errno
import gc
import logging
import tracemalloc

import pytest

from moldau.host.clock import SeededRandomness
from moldau.host.threads import Threads
from moldau.log.config import LogConfig
from moldau.log.dirs import LogDirs, LogDirsError
from moldau.log.errors import LogError, StorageError
from moldau.log.file_names import NO_TOPIC_ID
from moldau.log.log import Log
from moldau.testing.faulty_fs import FaultyFileSystem
from moldau.wire.errors import ErrorCode
from moldau.wire.topic_partition import TopicPartition
from tests.unit.log.support import (
    NAME,
    NOW,
    ROOT,
    TOPIC_ID,
    FixedClock,
    append_all,
    batch,
    close_dirs,
    flush,
    offsets,
    open_dirs,
    with_threads,
)


def unopened(fs: FaultyFileSystem, paths: tuple[str, ...] = (ROOT,), seed: int = 2) -> LogDirs:
    return LogDirs(list(paths), fs, FixedClock(), SeededRandomness(seed))


def create(dirs: LogDirs, partition: int = 0, topic: str = NAME.topic) -> Log:
    return dirs.create(topic, TOPIC_ID, partition, LogConfig())


# -- ownership -------------------------------------------------------------------------------------------------------


def test_a_directory_in_use_is_refused_with_the_process_that_holds_it() -> None:
    fs = FaultyFileSystem()
    first = unopened(fs)
    first.open()
    with pytest.raises(LogDirsError, match=r"/data is in use by process \d+"):
        unopened(fs).open()
    first.release()
    unopened(fs).open()


def test_a_refused_start_gives_back_the_directories_that_it_had() -> None:
    fs = FaultyFileSystem()
    other = unopened(fs, ("/two",))
    other.open()
    with pytest.raises(LogDirsError, match="/two"):
        unopened(fs, ("/one", "/two")).open()
    unopened(fs, ("/one",)).open()


def test_directories_remember_their_broker_and_cluster() -> None:
    fs = FaultyFileSystem()
    dirs = unopened(fs)
    assert dirs.open(7) == 7
    assert dirs.cluster_id is None
    dirs.remember_cluster("abc")
    dirs.release()
    again = unopened(fs)
    assert again.open() == 7
    assert again.cluster_id == "abc"
    with pytest.raises(LogDirsError, match="cluster abc"):
        again.remember_cluster("other")
    again.release()
    with pytest.raises(LogDirsError, match="belongs to broker 7, not 8"):
        unopened(fs).open(8)


def test_a_new_directory_gets_its_own_id() -> None:
    fs = FaultyFileSystem()
    dirs = unopened(fs, ("/one",))
    dirs.open(3)
    dirs.remember_cluster("abc")
    dirs.release()
    both = unopened(fs, ("/one", "/two"), seed=3)
    assert both.open() == 3
    both.remember_cluster("abc")
    ids = [one.meta.directory_id for one in both.all]
    assert len(set(ids)) == 2
    assert None not in ids


def test_directories_of_different_clusters_are_not_mixed() -> None:
    fs = FaultyFileSystem()
    for path, cluster in (("/one", "abc"), ("/two", "xyz")):
        dirs = unopened(fs, (path,))
        dirs.open()
        dirs.remember_cluster(cluster)
        dirs.release()
    with pytest.raises(LogDirsError, match="different clusters"):
        unopened(fs, ("/one", "/two")).open()


def test_the_same_directory_twice_or_none_is_refused() -> None:
    for paths in ((), ("/one", "/one")):
        with pytest.raises(LogDirsError):
            unopened(FaultyFileSystem(), paths)


# -- contents --------------------------------------------------------------------------------------------------------


def test_a_new_partition_goes_to_the_directory_with_the_fewest_partitions() -> None:
    dirs = open_dirs(FaultyFileSystem(), paths=("/one", "/two", "/three"))
    homes = [create(dirs, number).data_dir.path for number in range(6)]
    assert sorted(homes) == ["/one", "/one", "/three", "/three", "/two", "/two"]


def test_among_equal_directories_a_new_partition_goes_to_the_one_with_the_most_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dirs = open_dirs(FaultyFileSystem(), paths=("/one", "/two", "/three"))
    room = {"/one": 10, "/two": 30, "/three": 20}
    monkeypatch.setattr(dirs.fs, "free_bytes", room.__getitem__)
    assert [create(dirs, number).data_dir.path for number in range(4)] == ["/two", "/three", "/one", "/two"]


def test_a_partition_exists_once() -> None:
    dirs = open_dirs(FaultyFileSystem())
    create(dirs)
    with pytest.raises(LogError) as refused:
        create(dirs)
    assert refused.value.code == ErrorCode.TOPIC_ALREADY_EXISTS


def in_two_directories(records: dict[str, int]) -> FaultyFileSystem:
    """A partition that is in both directories, with this many records in each."""
    fs = FaultyFileSystem()
    for path, count in records.items():
        dirs = open_dirs(fs, paths=(path,))
        append_all(create(dirs), count)
        dirs.release()
    return fs


def test_a_partition_in_two_directories_is_refused_at_the_start() -> None:
    fs = in_two_directories({"/one": 1, "/two": 2})
    with pytest.raises(LogDirsError, match="two data directories: /one/topic-0 and /two/topic-0"):
        open_dirs(fs, paths=("/one", "/two"))


@pytest.mark.parametrize("records", [{"/one": 0, "/two": 2}, {"/one": 2, "/two": 0}, {"/one": 0, "/two": 0}])
def test_of_a_partition_in_two_directories_one_without_records_is_removed(records: dict[str, int]) -> None:
    fs = in_two_directories(records)
    dirs = open_dirs(fs, paths=("/one", "/two"))
    assert offsets(dirs.logs[NAME]) == list(range(max(records.values())))
    assert [one.path for one in dirs.all if NAME in one.hosted_logs] == [dirs.logs[NAME].data_dir.path]
    close_dirs(dirs)
    assert offsets(open_dirs(fs, paths=("/one", "/two")).logs[NAME]) == list(range(max(records.values())))


@pytest.mark.parametrize("call", ["mkdir", "create", "pwritev", "rename"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_log_that_could_not_be_created_leaves_nothing_and_can_be_created_elsewhere(call: str, error: int) -> None:
    fs = FaultyFileSystem()
    dirs = open_dirs(fs, paths=("/one", "/two"))
    fs.fail(call, error, path="*/topic-0*")
    with pytest.raises(StorageError):
        create(dirs)
    assert [path for path in ("/one", "/two") if str(NAME) in fs.directories(path)] == []
    (data_dir,) = {one.path for one in dirs.all if not one.online} or {create(dirs, 1).data_dir.path}
    log = create(dirs)
    assert log.data_dir.path != data_dir
    append_all(log, 2)
    close_dirs(dirs)
    assert offsets(open_dirs(fs, paths=("/one", "/two")).logs[NAME]) == [0, 1]


def test_existing_files_survive_a_failed_creation() -> None:
    fs = FaultyFileSystem()
    dirs = open_dirs(fs)
    fs.mkdir(f"{ROOT}/{NAME}")
    fs.fail("create", errno.ENOSPC, path="*/topic-0*")
    with pytest.raises(StorageError):
        create(dirs)
    assert str(NAME) in fs.directories(ROOT)


def test_a_log_is_found_by_topic_and_id_and_one_of_an_earlier_topic_is_moved_away() -> None:
    dirs = open_dirs(FaultyFileSystem())
    log = create(dirs)
    assert dirs.find(NAME.topic, 0, TOPIC_ID) is log
    assert dirs.find(NAME.topic, 1, TOPIC_ID) is None
    assert dirs.find(NAME.topic, 0, bytes(16)[:-1] + b"x") is None
    assert [name for name in dirs.fs.listdir(ROOT) if name.endswith("-stray")]
    assert dirs.logs == {}
    create(dirs)


def test_a_log_without_an_id_takes_the_given_one() -> None:
    fs = FaultyFileSystem()
    dirs = open_dirs(fs)
    log = create(dirs)
    append_all(log, 1)
    fs.remove(f"{log.directory}/partition.metadata")
    dirs.release()
    again = open_dirs(fs.after_kill())
    assert again.logs[NAME].topic_id == NO_TOPIC_ID
    assert again.find(NAME.topic, 0, TOPIC_ID) is again.logs[NAME]
    close_dirs(again)
    assert open_dirs(fs).logs[NAME].topic_id == TOPIC_ID


def test_logs_of_unknown_topics_are_named() -> None:
    dirs = open_dirs(FaultyFileSystem())
    log = create(dirs)
    assert dirs.logs_not_in({TOPIC_ID: "topic"}) == []
    assert dirs.logs_not_in({}) == [(log.directory, NAME.topic, 0, TOPIC_ID)]


def test_a_deleted_log_is_renamed_at_once_and_removed_after_the_delay() -> None:
    fs = FaultyFileSystem()
    clock = FixedClock()
    dirs = open_dirs(fs, clock=clock)
    log = create(dirs)
    append_all(log, 3)
    dirs.delete(log)
    assert dirs.logs == {}
    (doomed,) = fs.directories(ROOT)
    assert doomed.startswith("topic-0.")
    assert doomed.endswith("-delete")
    with pytest.raises(StorageError):
        log.append(batch(), 0, NOW)
    with_threads(dirs.write_checkpoints)
    assert fs.directories(ROOT) == [doomed]
    clock.ms += 60_001
    with_threads(dirs.write_checkpoints)
    assert fs.directories(ROOT) == []
    create(dirs)  # the name can be used again


def test_a_deletion_interrupted_by_a_crash_is_finished_after_the_start() -> None:
    fs = FaultyFileSystem()
    dirs = open_dirs(fs)
    dirs.delete(create(dirs))
    again = open_dirs(fs.after_kill())
    assert again.logs == {}
    with_threads(again.write_checkpoints)
    assert again.fs.directories(ROOT) == []


def test_other_things_in_a_data_directory_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    fs = FaultyFileSystem()
    for directory in ("lost+found", "notes", "t-0.abc-future"):
        fs.mkdir(f"{ROOT}/{directory}")
    fs.create(f"{ROOT}/t-0.abc-future/{0:020d}.log")  # Kafka's
    with caplog.at_level(logging.WARNING):
        dirs = open_dirs(fs)
    assert dirs.logs == {}
    assert fs.directories(ROOT) == ["lost+found", "notes", "t-0.abc-future"]
    assert "mark=future" in caplog.text


# -- stops and starts ------------------------------------------------------------------------------------------------


def test_a_clean_stop_leaves_kafkas_checkpoints_and_the_mark() -> None:
    fs = FaultyFileSystem()
    dirs = open_dirs(fs)
    log = create(dirs)
    append_all(log, 5)
    log.delete_before(2)
    with_threads(lambda threads: dirs.close(threads, {NAME: 4}))
    assert fs.read_bytes(f"{ROOT}/recovery-point-offset-checkpoint") == b"0\n1\ntopic 0 5\n"
    assert fs.read_bytes(f"{ROOT}/log-start-offset-checkpoint") == b"0\n1\ntopic 0 2\n"
    assert fs.read_bytes(f"{ROOT}/replication-offset-checkpoint") == b"0\n1\ntopic 0 4\n"
    assert fs.read_bytes(f"{ROOT}/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":-1}'
    assert open_dirs(fs).high_watermarks() == {NAME: 4}


def test_the_mark_of_a_clean_stop_is_gone_while_the_broker_runs() -> None:
    fs = FaultyFileSystem()
    close_dirs(open_dirs(fs))
    assert fs.exists(f"{ROOT}/.kafka_cleanshutdown")
    open_dirs(fs)
    assert not fs.exists(f"{ROOT}/.kafka_cleanshutdown")
    assert not fs.exists(f"{ROOT}/moldau-clean-state")


def many(fs: FaultyFileSystem, count: int) -> LogDirs:
    dirs = open_dirs(fs)
    for number in range(count):
        append_all(create(dirs, number), 1)
    return dirs


def test_a_clean_start_opens_no_log() -> None:
    fs = FaultyFileSystem()
    close_dirs(many(fs, 20))
    fs.calls.record = []
    dirs = open_dirs(fs)
    assert len(dirs.logs) == 20
    assert not [path for _, path in fs.calls.record if "/topic-" in path]
    assert {log.end_offset for log in dirs.logs.values()} == {1}
    assert {log.size_bytes for log in dirs.logs.values()} == {len(batch())}
    assert {log.last_stable_offset for log in dirs.logs.values()} == {1}
    assert offsets(dirs.logs[TopicPartition("topic", 13)]) == [0]


def test_unused_logs_are_not_changed() -> None:
    fs = FaultyFileSystem()
    close_dirs(many(fs, 20))
    dirs = open_dirs(fs)
    append_all(dirs.logs[TopicPartition("topic", 3)], 1)
    offsets(dirs.logs[TopicPartition("topic", 4)])
    fs.calls.record = []
    close_dirs(dirs)
    touched = {path.split("/")[2] for call, path in fs.calls.record if "/topic-" in path and call != "preadv"}
    assert touched == {"topic-3"}
    again = open_dirs(fs)
    assert sum(log.end_offset for log in again.logs.values()) == 21


def test_a_cold_log_takes_less_than_4_kilobytes() -> None:
    fs = FaultyFileSystem()
    close_dirs(many(fs, 300))
    gc.collect()
    tracemalloc.start()
    dirs = open_dirs(fs)
    gc.collect()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(dirs.logs) == 300
    assert used / 300 < 4096


def test_a_log_that_the_state_file_does_not_know_is_looked_at() -> None:
    fs = FaultyFileSystem()
    other = open_dirs(fs, paths=("/other",))
    append_all(create(other, topic="copied"), 4)
    close_dirs(other)
    close_dirs(many(fs, 2))
    fs.rename("/other/copied-0", f"{ROOT}/copied-0")
    dirs = open_dirs(fs)
    assert offsets(dirs.logs[TopicPartition("copied", 0)]) == [0, 1, 2, 3]


def test_a_log_that_was_removed_after_the_clean_stop_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    fs = FaultyFileSystem()
    close_dirs(many(fs, 2))
    fs.remove_tree(f"{ROOT}/topic-1")
    with caplog.at_level(logging.ERROR):
        dirs = open_dirs(fs)
    assert list(dirs.logs) == [TopicPartition("topic", 0)]
    assert "/data/topic-1" in caplog.text


@pytest.mark.parametrize(
    "file", ["moldau-clean-state", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"]
)
@pytest.mark.parametrize("content", [b"", b"rubbish", None])
def test_a_start_without_one_of_its_files_finds_everything(file: str, content: bytes | None) -> None:
    fs = FaultyFileSystem()
    close_dirs(many(fs, 3))
    if content is None:
        fs.remove(f"{ROOT}/{file}")
    else:
        fs.write_atomically(f"{ROOT}/{file}", content)
    dirs = open_dirs(fs)
    assert {str(name): offsets(log) for name, log in dirs.logs.items()} == {f"topic-{n}": [0] for n in range(3)}


def test_a_state_file_without_the_mark_of_a_clean_stop_is_not_used() -> None:
    fs = FaultyFileSystem()
    close_dirs(many(fs, 1))
    fs.remove(f"{ROOT}/.kafka_cleanshutdown")
    path = f"{ROOT}/topic-0/{0:020d}.log"
    fs.write_atomically(path, fs.read_bytes(path)[:-1])
    assert open_dirs(fs).logs[NAME].end_offset == 0


def test_a_clean_stop_survives_a_power_loss_right_after_it() -> None:
    for seed in range(20):
        fs = FaultyFileSystem()
        close_dirs(many(fs, 10))  # enough logs to be synced together
        fs = fs.after_power_loss(seed)
        dirs = open_dirs(fs)
        assert len(dirs.logs) == 10
        for log in dirs.logs.values():
            assert offsets(log) == [0]
            assert log.offset_for_timestamp(NOW) == (NOW, 0, 0)


def test_many_logs_are_truncated_with_one_write_of_the_recovery_points() -> None:
    fs = FaultyFileSystem()
    dirs = many(fs, 5)
    for log in dirs.logs.values():
        append_all(log, 5)
        flush(log)
    fs.calls.record = []
    dirs.truncate([(log, 3) for log in dirs.logs.values()])
    writes = [path for call, path in fs.calls.record if call == "rename" and "recovery-point" in path]
    assert len(writes) == 1
    assert [offsets(log) for log in dirs.logs.values()] == [[0, 1, 2]] * 5


def test_temporary_files_of_a_crash_are_removed() -> None:
    fs = FaultyFileSystem()
    fs.mkdir(ROOT)
    fs.create(f"{ROOT}/recovery-point-offset-checkpoint.17.tmp")
    open_dirs(fs)
    assert not [name for name in fs.listdir(ROOT) if name.endswith(".tmp")]


# -- lost logs -------------------------------------------------------------------------------------------------------


HOSTED = [(NAME.topic, 0, TOPIC_ID), (NAME.topic, 1, TOPIC_ID)]


def left_behind(fs: FaultyFileSystem, *, boot_id: str | None, clean: bool) -> None:
    """A broker with one of the two logs that it should have, in a run of the machine, stopped or killed."""

    async def life(threads: Threads) -> None:
        dirs = unopened(fs)
        dirs.open()
        await dirs.load(threads)
        create(dirs)
        if boot_id is not None:
            await dirs.remember_boot(threads, boot_id)
        await dirs.write_checkpoints(threads)
        if clean:
            await dirs.close(threads)
        else:
            dirs.release()

    with_threads(life)


def found_lost(fs: FaultyFileSystem, boot_id: str) -> list[int]:
    async def start(threads: Threads) -> list[int]:
        dirs = unopened(fs)
        dirs.open()
        await dirs.load(threads)
        try:
            return [index for _, index in dirs.lost_ends(boot_id, HOSTED)]
        finally:
            dirs.release()

    return with_threads(start)


@pytest.mark.parametrize(
    ("before", "clean", "now", "lost"),
    [
        pytest.param("boot-1", True, "boot-1", [], id="a clean stop loses nothing"),
        pytest.param("boot-1", True, "boot-2", [], id="nor does a restart of the machine after it"),
        pytest.param("boot-1", False, "boot-1", [], id="a killed process loses nothing: the machine's memory has it"),
        pytest.param("boot-1", False, "boot-2", [0, 1], id="the machine stopped: anything not synced may be lost"),
        pytest.param(None, False, "boot-1", [0, 1], id="nobody knows when it was last used"),
        pytest.param("", False, "", [0, 1], id="a machine that does not tell its runs apart"),
    ],
)
def test_the_ends_of_logs_may_be_lost_when_the_machine_stopped(
    before: str | None, clean: bool, now: str, lost: list[int]
) -> None:
    fs = FaultyFileSystem()
    left_behind(fs, boot_id=before, clean=clean)
    assert found_lost(fs, now) == lost


@pytest.mark.parametrize("clean", [True, False])
def test_a_removed_log_is_lost_and_one_that_never_existed_is_not(clean: bool) -> None:
    fs = FaultyFileSystem()
    left_behind(fs, boot_id="boot-1", clean=clean)
    fs.remove_tree(f"{ROOT}/{NAME}")
    assert found_lost(fs, "boot-1") == [0]


def test_everything_of_a_disk_that_was_replaced_is_lost() -> None:
    assert found_lost(FaultyFileSystem(), "boot-1") == [0, 1]
