"""Reads of a log: whole batches from the one with the offset, up to the visible end."""

from __future__ import annotations

import threading

import pytest

from moldau.log.config import LogConfig
from moldau.log.errors import LogError, OffsetNotInLog
from moldau.log.log import Log
from moldau.records import Codec, peek_header
from tests.unit.log.support import NOW, append_all, batch, file_system, flush, new_log, read_all, reload, split

TRIPLE = len(batch(3))


def three_a_batch(**settings: int) -> Log:
    """Offsets 0 to 29 in batches of three."""
    log = new_log(config=LogConfig(**settings))  # type: ignore[arg-type]
    append_all(log, 10, count=3)
    return log


def found(log: Log, offset: int, max_bytes: int, end_offset: int = 30, *, min_one: bool = True) -> list[int]:
    data = log.read(offset, max_bytes, end_offset, min_one=min_one)
    assert data is not None
    return [peek_header(one).base_offset for one in split(data)]


@pytest.mark.parametrize("offset", [6, 7, 8])
def test_a_read_from_inside_of_a_batch_returns_the_whole_batch(offset: int) -> None:
    assert found(three_a_batch(), offset, 1) == [6]


def test_as_many_whole_batches_as_fit_are_returned() -> None:
    log = three_a_batch()
    assert found(log, 0, TRIPLE) == [0]
    assert found(log, 0, 2 * TRIPLE - 1) == [0]
    assert found(log, 0, 2 * TRIPLE) == [0, 3]
    assert found(log, 4, 1_000_000) == [3, 6, 9, 12, 15, 18, 21, 24, 27]


def test_a_first_batch_that_is_too_large_is_returned_only_where_one_must_be() -> None:
    log = three_a_batch()
    assert found(log, 0, 0) == [0]
    assert found(log, 0, TRIPLE - 1, min_one=False) == []
    assert found(log, 0, TRIPLE, min_one=False) == [0]


def test_nothing_at_or_past_the_given_end_is_returned() -> None:
    log = three_a_batch()
    assert found(log, 0, 1_000_000, end_offset=9) == [0, 3, 6]
    assert found(log, 0, 1_000_000, end_offset=8) == [0, 3]
    assert found(log, 0, 1_000_000, end_offset=0) == []
    assert found(log, 9, 1_000_000, end_offset=9) == []
    assert found(log, 12, 1_000_000, end_offset=9) == []


def test_a_read_at_the_end_is_empty_and_beyond_it_out_of_range() -> None:
    log = three_a_batch()
    assert found(log, 30, 100) == []
    for offset in (31, -1):
        with pytest.raises(OffsetNotInLog):
            log.read(offset, 100, 30)


def test_a_read_ends_with_its_segment_and_the_next_begins_in_the_next() -> None:
    log = three_a_batch(segment_bytes=2 * TRIPLE)
    assert found(log, 0, 1_000_000) == [0, 3]
    assert found(log, 6, 1_000_000) == [6, 9]


def test_batches_far_apart_in_size_are_all_found_through_a_sparse_index() -> None:
    log = new_log(config=LogConfig(index_interval_bytes=1000))
    for number in range(60):
        log.append(batch(1, value=b"x" * (number * 97 % 5000)), 0, NOW)
    log.append(batch(1, value=b"x" * 300_000), 0, NOW)
    log.append(batch(1), 0, NOW)
    for recovered in (False, True):
        again = reload(log) if recovered else log
        for offset in range(62):
            for max_bytes in (1, 5_000, 400_000):
                assert found(again, offset, max_bytes, 62)[0] == offset


def test_a_read_at_an_offset_in_a_gap_returns_the_next_batch() -> None:
    log = new_log(config=LogConfig(segment_bytes=2 * TRIPLE))
    append_all(log, 10, count=3)
    flush(log)
    log.data_dir.fs.remove(f"{log.directory}/{12:020d}.log")
    again = reload(log)
    assert found(again, 13, 1) == [18]


def test_timestamps_are_found_in_compressed_batches_too() -> None:
    for codec in Codec:
        log = new_log()
        log.append(batch(10, timestamp=NOW, step=10, codec=codec), 4, NOW)
        assert log.offset_for_timestamp(NOW + 41) == (NOW + 50, 5, 4)
        assert log.offset_for_timestamp(NOW + 91) is None
        assert log.max_timestamp_offset() == (NOW + 90, 9, 4)


def test_an_empty_log_has_no_timestamps() -> None:
    log = new_log()
    assert log.offset_for_timestamp(0) is None
    assert log.max_timestamp_offset() is None


def test_the_first_of_several_records_with_the_largest_timestamp_is_named() -> None:
    log = new_log(config=LogConfig(segment_bytes=2 * TRIPLE))
    for time in (5, 9, 9, 3):
        log.append(batch(3, timestamp=NOW + time, step=0), 0, NOW)
    assert log.max_timestamp_offset() == (NOW + 9, 3, 0)


def test_few_descriptors_are_enough_for_many_segments() -> None:
    log = new_log(config=LogConfig(segment_bytes=TRIPLE))
    fs = file_system(log)
    fs.pool.limit = 2
    append_all(log, 20, count=3)
    assert len(read_all(log)) == 60
    assert len(fs.pool) <= 2


def test_readers_in_threads_see_only_whole_batches_while_the_log_is_written_rolled_cut_and_deleted() -> None:
    log = new_log(config=LogConfig(segment_bytes=6 * TRIPLE, index_interval_bytes=TRIPLE))
    append_all(log, 5, count=3)
    stop = threading.Event()
    wrong: list[str] = []

    def read() -> None:
        while not stop.is_set():
            offset = log.start_offset
            while offset < log.end_offset and not stop.is_set():
                try:
                    data = log.read(offset, 5 * TRIPLE, log.end_offset)
                except OffsetNotInLog:
                    break
                except LogError as error:
                    wrong.append(repr(error))
                    return
                bases = [peek_header(one).base_offset for one in split(data or memoryview(b""))]
                if not bases:
                    break
                if bases != [bases[0] + 3 * n for n in range(len(bases))] or bases[0] > offset:
                    wrong.append(f"{bases} at {offset}")
                    return
                offset = bases[-1] + 3

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        for turn in range(300):
            append_all(log, 3, count=3)
            if turn % 7 == 0:
                log.truncate_to(log.end_offset - 6, NOW)
            if turn % 11 == 0:
                log.delete_before(max(log.start_offset, log.end_offset - 60))
            if turn % 5 == 0:
                flush(log)
    finally:
        stop.set()
        for reader in readers:
            reader.join(10)
    assert wrong == []
