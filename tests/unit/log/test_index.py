"""Sparse indexes: Kafka's entries, quick lookups, validation, and rebuilding."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.log.config import LogConfig
from moldau.log.index import BadIndexError, IndexCache, SegmentIndex
from moldau.log.log import Log
from moldau.testing.faulty_fs import FaultyFileSystem
from tests.unit.log.support import (
    NAME,
    NOW,
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
    split,
)

SIZE = len(batch())
EVERY_THIRD = LogConfig(index_interval_bytes=2 * SIZE, message_timestamp_after_max_ms=10**9)


def entries(log: Log, base: int, suffix: str, layout: str) -> list[tuple[int, ...]]:
    return list(struct.iter_unpack(layout, log.data_dir.fs.read_bytes(f"{log.directory}/{base:020d}{suffix}")))


def test_an_entry_is_made_when_enough_bytes_have_passed_since_the_last_and_names_the_batch_before_it_is_written() -> (
    None
):
    log = new_log(config=EVERY_THIRD)
    append_all(log, 10)
    log.close(NOW)
    # Three batches exceed the interval, so the fourth gets the first entry. The first batch of a segment never has one.
    assert entries(log, 0, ".index", ">ii") == [(3, 3 * SIZE), (6, 6 * SIZE), (9, 9 * SIZE)]


def test_offsets_in_an_index_are_relative_to_the_segment_and_name_the_last_of_a_batch() -> None:
    log = new_log(config=LogConfig(index_interval_bytes=0))
    append_all(log, 2, count=5)
    log.roll(NOW)
    append_all(log, 3, count=5)
    log.close(NOW)
    assert [offset for offset, _ in entries(log, 10, ".index", ">ii")] == [9, 14]


def test_the_time_index_has_the_largest_timestamp_so_far_and_one_entry_at_the_end() -> None:
    log = new_log(config=EVERY_THIRD)
    for time in (5, 9, 2, 3, 9, 1, 4, 8, 30, 7):
        log.append(batch(timestamp=NOW + time), 0, NOW)
    log.close(NOW)
    # With the fourth batch the largest is 9, at offset 1; with the seventh it is unchanged; with the tenth it is 30.
    assert entries(log, 0, ".timeindex", ">qi") == [(NOW + 9, 1), (NOW + 30, 8)]


def test_the_roll_adds_a_time_entry_for_the_records_since_the_last_one() -> None:
    log = new_log(config=EVERY_THIRD)
    for time in (1, 2, 3, 4, 5):
        log.append(batch(timestamp=NOW + time), 0, NOW)
    log.roll(NOW)
    flush(log)
    assert entries(log, 0, ".timeindex", ">qi") == [(NOW + 4, 3), (NOW + 5, 4)]


def test_records_without_timestamps_leave_the_time_index_empty() -> None:
    log = new_log(config=EVERY_THIRD)
    append_all(log, 7, timestamp=-1, step=0)
    log.close(NOW)
    assert entries(log, 0, ".timeindex", ">qi") == []


def test_an_index_grows_over_restarts_as_without_restarts() -> None:
    whole = new_log(config=EVERY_THIRD)
    append_all(whole, 12)
    whole.close(NOW)
    log = new_log(config=EVERY_THIRD)
    append_all(log, 6)
    log.close(NOW)
    again = reload(log, clean=True)
    append_all(again, 6)
    again.close(NOW)
    # Bytes since the last entry are not remembered, as in Kafka: the count begins again.
    assert entries(again, 0, ".index", ">ii") == [(3, 3 * SIZE), (9, 9 * SIZE)]
    assert entries(whole, 0, ".index", ">ii") == [(3, 3 * SIZE), (6, 6 * SIZE), (9, 9 * SIZE)]
    assert [one[0] for one in entries(again, 0, ".timeindex", ">qi")] == [NOW]


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5000)), max_size=50),
    st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 50)), max_size=50),
)
def test_the_bytes_of_an_index_are_those_that_struct_would_make(
    steps: list[tuple[int, int]], time_steps: list[tuple[int, int]]
) -> None:
    index = SegmentIndex()
    offset = position = time = time_offset = 0
    for forward, size in steps:
        offset, position = offset + forward, position + size
        index.offsets.append(offset)
        index.positions.append(position)
    for forward, size in time_steps:
        time, time_offset = time + forward, time_offset + size
        index.add_time(time, time_offset)
    raw, raw_times = index.encode_offsets(), index.encode_times()
    assert raw == b"".join(struct.pack(">ii", *one) for one in zip(index.offsets, index.positions, strict=True))
    assert raw_times == b"".join(
        struct.pack(">qi", *one) for one in zip(index.timestamps, index.time_offsets, strict=True)
    )
    again = SegmentIndex.decode(raw, raw_times)
    again.check(position + 1, 10**6)
    assert (again.encode_offsets(), again.encode_times()) == (raw, raw_times)


@pytest.mark.parametrize(
    ("offsets_", "times"),
    [
        (b"\0" * 7, b""),
        (b"", b"\0" * 13),
        (struct.pack(">iiii", 5, 100, 5, 200), b""),
        (struct.pack(">iiii", 5, 100, 6, 100), b""),
        (struct.pack(">iiii", 5, 100, 0, 0), b""),
        (struct.pack(">ii", 5, 1000), b""),
        (struct.pack(">ii", 500, 10), b""),
        (b"", struct.pack(">qiqi", 10, 1, 10, 2)),
        (b"", struct.pack(">qiqi", 10, 2, 11, 1)),
        (b"", struct.pack(">qi", 10, 500)),
        (b"", struct.pack(">qi", -7, 1)),
    ],
)
def test_an_invalid_index_is_not_used(offsets_: bytes, times: bytes) -> None:
    with pytest.raises(BadIndexError):
        SegmentIndex.decode(offsets_, times).check(segment_size=1000, last_offset=100)


# -- lost and wrong indexes ------------------------------------------------------------------------------------------


def closed_log() -> Log:
    log = new_log(config=EVERY_THIRD)
    for number in range(30):
        log.append(batch(timestamp=NOW + number), 0, NOW)
    log.roll(NOW)
    append_all(log, 3, timestamp=NOW + 100)
    log.close(NOW)
    return log


def check_everything(log: Log) -> None:
    assert offsets(log) == list(range(33))
    for offset in range(33):
        data = log.read(offset, 1, 33)
        assert data is not None
        assert split(data)[0][:8] == offset.to_bytes(8, "big")
    for number in range(30):
        assert log.offset_for_timestamp(NOW + number) == (NOW + number, number, 0)
    found = log.max_timestamp_offset()
    assert found is not None
    assert found[:2] == (NOW + 100, 30)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("base", [0, 30])
@pytest.mark.parametrize("damage", ["gone", "empty", "torn", "zeros", "garbage"])
def test_a_lost_or_damaged_index_is_rebuilt_when_it_is_needed(suffix: str, base: int, damage: str) -> None:
    log = closed_log()
    fs = log.data_dir.fs
    path = f"{log.directory}/{base:020d}{suffix}"
    data = fs.read_bytes(path)
    if damage == "gone":
        fs.remove(path)
    else:
        changed = {
            "empty": b"",
            "torn": data[:-3],
            "zeros": bytes(len(data)),
            "garbage": b"\xa5" * len(data),
        }[damage]
        fs.write_atomically(path, changed)
    check_everything(reload(log, clean=True))
    check_everything(reload(log, clean=False, recovery_point=33))


@pytest.mark.parametrize(("suffix", "entry"), [(".index", 8), (".timeindex", 12)])
def test_an_index_that_lost_its_end_is_detected_by_the_data_of_the_clean_stop(suffix: str, entry: int) -> None:
    fs = FaultyFileSystem()
    dirs = open_dirs(fs, EVERY_THIRD)
    log = dirs.create(NAME.topic, TOPIC_ID, NAME.partition, EVERY_THIRD)
    for number in range(30):
        log.append(batch(timestamp=NOW + number), 0, NOW)
    log.roll(NOW)
    append_all(log, 3, timestamp=NOW + 100)
    close_dirs(dirs)
    path = f"{log.directory}/{0:020d}{suffix}"
    fs.write_atomically(path, fs.read_bytes(path)[: 2 * entry])
    check_everything(open_dirs(fs, EVERY_THIRD).logs[NAME])


def test_an_index_with_wrong_entries_is_detected() -> None:
    log = closed_log()
    entries_ = entries(log, 0, ".index", ">ii")
    wrong = b"".join(struct.pack(">ii", offset, position + SIZE) for offset, position in entries_)
    log.data_dir.fs.write_atomically(f"{log.directory}/{0:020d}.index", wrong)
    check_everything(reload(log, clean=True))


def test_a_read_that_cannot_wait_says_so_while_an_index_is_on_disk_only() -> None:
    log = closed_log()
    again = reload(log, clean=True)
    fs = file_system(again)
    fs.slow("*.index", 0)
    assert again.read(20, 100, 33, cached_only=True) is None
    assert again.read(20, 100, 33) is not None
    assert again.read(20, 100, 33, cached_only=True) is not None


def test_a_read_that_cannot_wait_says_so_while_its_bytes_are_on_disk_only() -> None:
    log = closed_log()
    again = reload(log, clean=True)
    fs = file_system(again)
    fs.slow("*.log", 0)
    assert again.read(31, 100, 33, cached_only=True) is None
    data = again.read(31, 100, 33)
    assert data is not None
    assert len(split(data)) == 1


# -- the cache -------------------------------------------------------------------------------------------------------


class Owner:
    base_offset = 0


def index_of(entries_: int) -> SegmentIndex:
    index = SegmentIndex()
    index.offsets.extend(range(entries_))
    index.positions.extend(range(entries_))
    return index


def test_the_cache_drops_the_least_recently_used_entry_at_its_limit() -> None:
    cache = IndexCache(limit=3 * 80)
    owners = [Owner() for _ in range(4)]
    for owner in owners[:3]:
        cache.put(owner, index_of(10))
    assert cache.get(owners[0]) is not None
    cache.put(owners[3], index_of(10))
    assert [cache.get(owner) is not None for owner in owners] == [True, False, True, True]
    assert cache.used_bytes == 240
    cache.put(owners[0], index_of(5))
    assert cache.used_bytes == 200
    cache.drop(owners[0])
    cache.drop(owners[0])
    assert cache.used_bytes == 160


def test_one_index_larger_than_the_bound_is_still_usable() -> None:
    cache = IndexCache(limit=10)
    owner = Owner()
    cache.put(owner, index_of(100))
    assert cache.get(owner) is not None
