"""Logs with a torn end after a crash: a clean prefix is recovered."""

from __future__ import annotations

import pytest

from moldau.log.config import LogConfig
from moldau.log.log import Log
from moldau.log.producer_state import ProducerStates
from moldau.records import BatchRecord
from tests.unit.log.support import NOW, append_all, batch, file_system, flush, new_log, offsets, read_all, reload


def small_log() -> Log:
    log = new_log()
    for number in range(4):
        log.append(batch(number + 1, producer_id=5, sequence=number * (number + 1) // 2), 2, NOW)
    return log


def boundaries(log: Log) -> dict[int, int]:
    """The end of each batch in the file, and the offset after it."""
    found = {0: 0}
    position = 0
    for number in range(4):
        position += len(batch(number + 1, producer_id=5))
        found[position] = (number + 1) * (number + 2) // 2
    return found


def active_path(log: Log) -> str:
    return f"{log.directory}/{0:020d}.log"


def test_every_length_of_a_torn_tail_leaves_a_clean_beginning() -> None:
    log = small_log()
    whole = read_all(log)
    ends = boundaries(log)
    data = log.data_dir.fs.read_bytes(active_path(log))
    for length in range(len(data) + 1):
        torn = small_log()
        torn.data_dir.fs.write_atomically(active_path(torn), data[:length])
        found = reload(torn)
        end = ends[max(one for one in ends if one <= length)]
        assert found.end_offset == end
        assert read_all(found) == [record for record in whole if record.offset < end]
        assert found.size_bytes == max(one for one in ends if one <= length)


@pytest.mark.parametrize("filler", [b"\0", b"\xff", b"\x02", b"\x7f"])
def test_garbage_after_the_last_batch_is_truncated(filler: bytes) -> None:
    for length in (1, 11, 12, 60, 61, 62, 500):
        log = small_log()
        fs = log.data_dir.fs
        fs.write_atomically(active_path(log), fs.read_bytes(active_path(log)) + filler * length)
        found = reload(log)
        assert found.end_offset == 10
        assert offsets(found) == list(range(10))


def test_a_copy_of_an_earlier_batch_after_the_last_one_is_truncated() -> None:
    log = small_log()
    fs = log.data_dir.fs
    data = fs.read_bytes(active_path(log))
    fs.write_atomically(active_path(log), data + data[:200])
    assert offsets(reload(log)) == list(range(10))


def test_a_recovered_log_works_like_an_undamaged_one() -> None:
    log = small_log()
    fs = log.data_dir.fs
    fs.write_atomically(active_path(log), fs.read_bytes(active_path(log))[:-1])
    found = reload(log)
    assert found.latest_epoch == 2
    result = found.append(batch(4, producer_id=5, sequence=6), 3, NOW)
    assert (result.first_offset, result.duplicate) == (6, False)
    assert found.append(batch(3, producer_id=5, sequence=3), 3, NOW).duplicate
    assert offsets(reload(found)) == list(range(10))
    assert found.epochs.entries() == [(2, 0), (3, 6)]


def test_a_tear_in_one_segment_takes_the_later_ones_out_of_the_log_but_keeps_their_files() -> None:
    log = new_log(config=LogConfig(segment_bytes=300))
    append_all(log, 12, count=1, value=b"x" * 20)
    bases = [name for name in log.data_dir.fs.listdir(log.directory) if name.endswith(".log")]
    assert len(bases) == 4
    second = f"{log.directory}/{bases[1]}"
    file_system(log).disk.damage(second, 250, b"\xff")
    found = reload(log)
    assert offsets(found) == list(range(5))
    assert sorted(name for name in found.data_dir.fs.listdir(found.directory) if name.endswith(".aside")) == [
        f"{bases[2]}.aside",
        f"{bases[3]}.aside",
    ]
    append_all(found, 3)
    assert offsets(reload(found)) == list(range(8))


def test_a_missing_segment_in_the_middle_removes_the_later_ones() -> None:
    log = new_log(config=LogConfig(segment_bytes=300))
    append_all(log, 12, count=1, value=b"x" * 20)
    log.data_dir.fs.remove(f"{log.directory}/{3:020d}.log")
    found = reload(log)
    assert offsets(found) == [0, 1, 2]


def test_a_gap_that_compaction_left_before_a_flushed_segment_stays() -> None:
    log = new_log(config=LogConfig(segment_bytes=300))
    append_all(log, 12, count=1, value=b"x" * 20)
    flush(log)
    log.data_dir.fs.remove(f"{log.directory}/{3:020d}.log")
    assert offsets(reload(log)) == [0, 1, 2, 6, 7, 8, 9, 10, 11]


def test_recovery_scans_from_the_segment_of_the_recovery_point_only() -> None:
    log = new_log(config=LogConfig(segment_bytes=300))
    append_all(log, 13, count=1, value=b"x" * 20)
    flush(log)
    append_all(log, 1)
    fs = file_system(log).after_kill()
    fs.calls.record = []
    found = reload(log, fs=fs, recovery_point=log.recovery_point)
    read = {path for call, path in fs.calls.record if call == "preadv" and path.endswith(".log")}
    assert read == {f"{log.directory}/{12:020d}.log"}
    assert offsets(found) == list(range(14))


def test_files_of_an_unfinished_operation_are_removed() -> None:
    log = small_log()
    fs = log.data_dir.fs
    for name in (
        "00000000000000000004.log.deleted",
        "00000000000000000007.index",
        "00000000000000000000.timeindex.tmp",
        "00000000000000000000.log.cleaned",
        "00000000000000000099.snapshot",
    ):
        fs.create(f"{log.directory}/{name}")
    found = reload(log)
    assert [name for name in fs.listdir(log.directory) if not name.startswith("00000000000000000000.")] == [
        "partition.metadata"
    ]
    assert offsets(found) == list(range(10))


def test_a_swap_that_was_interrupted_is_completed() -> None:
    log = new_log(config=LogConfig(segment_bytes=300))
    append_all(log, 9, count=1, value=b"x" * 20)
    flush(log)
    fs = log.data_dir.fs
    first, second = (f"{log.directory}/{base:020d}.log" for base in (0, 3))
    merged = fs.read_bytes(first) + fs.read_bytes(second)[:100]
    fs.write_atomically(f"{first}.swap", merged[: len(fs.read_bytes(first))] + fs.read_bytes(second))
    fs.create(first.replace(".log", ".index") + ".swap")
    found = reload(log)
    assert [name for name in fs.listdir(log.directory) if name.endswith(".log")] == [
        f"{0:020d}.log",
        f"{6:020d}.log",
    ]
    assert offsets(found) == list(range(9))


def test_an_unreadable_snapshot_is_rebuilt_from_the_log() -> None:
    log = new_log(config=LogConfig(segment_bytes=400))
    for number in range(10):
        log.append(batch(1, producer_id=9, sequence=number, value=b"x" * 30), 0, NOW)
    flush(log)
    fs = file_system(log)
    for name in fs.listdir(log.directory):
        if name.endswith(".snapshot"):
            fs.disk.damage(f"{log.directory}/{name}", 8, b"\xff\xff")
    found = reload(log, recovery_point=log.recovery_point)
    assert found.append(batch(1, producer_id=9, sequence=9), 0, NOW).duplicate
    assert isinstance(found.producers, ProducerStates)


def test_an_unreadable_epoch_checkpoint_is_rebuilt() -> None:
    log = new_log()
    for epoch in (1, 1, 4, 6):
        log.append(batch(2), epoch, NOW)
    flush(log)
    log.data_dir.fs.write_atomically(f"{log.directory}/leader-epoch-checkpoint", b"rubbish")
    found = reload(log, clean=True)
    assert found.epochs.entries() == [(1, 0), (4, 4), (6, 6)]


def test_records_before_a_start_offset_stay_hidden_after_recovery() -> None:
    log = small_log()
    found = reload(log, start_offset=4)
    records: list[BatchRecord] = read_all(found)
    assert [record.offset for record in records] == list(range(4, 10))
