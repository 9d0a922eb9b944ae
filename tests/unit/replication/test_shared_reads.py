"""Reads shared between followers."""

from __future__ import annotations

from moldau.replication.shared_reads import KEPT_BYTES, LEAST_BYTES, SharedReads
from tests.unit.log.support import NOW, append_all, batch, file_system, new_log

BIG = LEAST_BYTES * 2


def test_data_read_for_one_follower_is_shared_with_another() -> None:
    log, reads = new_log(), SharedReads()
    append_all(log, 3, value=b"v" * BIG)
    first = reads.read(log, 1, 1 << 20, min_one=True)
    assert first is not None
    assert reads.read(log, 1, 1 << 20, min_one=True) is first
    assert bytes(first) == bytes(log.read(1, 1 << 20, log.end_offset) or b"")


def test_a_follower_with_a_smaller_limit_gets_less() -> None:
    log, reads = new_log(), SharedReads()
    append_all(log, 3, value=b"v" * BIG)
    whole = reads.read(log, 0, 1 << 20, min_one=True)
    some = reads.read(log, 0, BIG + 100, min_one=True)
    assert whole is not None
    assert some is not None
    assert len(some) < len(whole)


def test_a_truncated_log_is_read_again() -> None:
    log, reads = new_log(), SharedReads()
    append_all(log, 2, value=b"v" * BIG)
    reads.read(log, 1, 1 << 20, min_one=True)
    log.truncate_to(1, NOW)
    log.append(batch(value=b"w" * BIG), 3, NOW)
    again = reads.read(log, 1, 1 << 20, min_one=True)
    assert again is not None
    assert b"w" * BIG in bytes(again)


def test_the_size_of_shared_data_is_limited() -> None:
    log, reads = new_log(), SharedReads()
    size = 1 << 20
    append_all(log, KEPT_BYTES // size + 4, value=b"v" * (size - 200))
    for offset in range(log.end_offset):
        reads.read(log, offset, size, min_one=True)
    assert reads._kept_bytes == sum(len(records) for _, records in reads._kept.values()) <= KEPT_BYTES
    file_system(log).fail("preadv", 5, times=None)
    assert reads.read(log, log.end_offset - 1, size, min_one=True) is not None, "the latest data must be kept"
