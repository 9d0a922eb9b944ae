"""Fetched partition: returns every record of an answer once and in order, and skips nothing that it cannot read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.consumer.decode import Record
from moldau.client.errors import CorruptRecord
from moldau.records.arrow import ArrowRows
from moldau.records.batch_layout import HEADER_SIZE, Codec
from tests.unit.client.consumer.batches import batch, marker, offsets_in, run_of


@pytest.mark.parametrize("codec", list(Codec))
def test_compressed_batches_are_read_whatever_the_codec(codec: Codec) -> None:
    run = run_of(batch(range(50), codec=codec) + batch(range(50, 60), codec=codec))
    assert offsets_in(run, limit=7) == list(range(60))
    assert (run.position, run.epoch) == (60, 5)


def test_records_before_the_position_are_skipped() -> None:
    run = run_of(batch(range(10, 20)), position=13)
    assert offsets_in(run, limit=3) == list(range(13, 20))


def test_the_removed_end_of_a_compacted_batch_is_skipped() -> None:
    run = run_of(batch([2, 5], base=0, last=9) + batch([], base=10, last=19) + batch([25], base=20, last=29))
    assert run.end == 30
    assert offsets_in(run) == [2, 5, 25]
    assert run.position == 30


def test_a_batch_that_is_cut_off_is_left_for_the_next_fetch() -> None:
    whole = batch(range(10))
    for cut in (1, HEADER_SIZE - 1, HEADER_SIZE, HEADER_SIZE + 1, len(whole) - 1):
        run = run_of(whole + batch(range(10, 20))[:cut])
        assert run.end == 10
        assert offsets_in(run) == list(range(10))


def test_control_batches_are_not_records() -> None:
    run = run_of(batch([0, 1], producer=1) + marker(2, 1, commit=True) + batch([3]))
    assert offsets_in(run) == [0, 1, 3]


class TestTransactions:
    log = (
        batch([0], producer=1)
        + batch([1], producer=2)
        + batch([2])
        + marker(3, 1, commit=False)
        + batch([4], producer=1)
        + batch([5], producer=2)
        + marker(6, 2, commit=True)
        + marker(7, 1, commit=True)
    )

    def test_aborted_records_are_left_out(self) -> None:
        assert offsets_in(run_of(self.log, aborted=[(1, 0)])) == [1, 2, 4, 5]

    def test_read_uncommitted_returns_aborted_records(self) -> None:
        assert offsets_in(run_of(self.log)) == [0, 1, 2, 4, 5]

    def test_the_position_is_after_the_last_marker(self) -> None:
        run = run_of(self.log, aborted=[(1, 0)])
        offsets_in(run)
        assert run.position == 8

    def test_a_transaction_that_began_before_the_fetch_is_known_by_its_first_offset(self) -> None:
        log = batch([10], producer=1) + marker(11, 1, commit=False) + batch([12])
        assert offsets_in(run_of(log, position=10, aborted=[(1, 3)])) == [12]

    def test_the_same_producer_may_abort_twice(self) -> None:
        log = (
            batch([0], producer=1)
            + marker(1, 1, commit=False)
            + batch([2], producer=1)
            + marker(3, 1, commit=True)
            + batch([4], producer=1)
            + marker(5, 1, commit=False)
        )
        assert offsets_in(run_of(log, aborted=[(1, 4), (1, 0)])) == [2]


class TestDamage:
    damaged = bytearray(batch(range(5, 10)))
    damaged[-1] ^= 0xFF

    def test_records_before_it_are_handed_out_first(self) -> None:
        run = run_of(batch(range(5)) + bytes(self.damaged))
        out: list[Record] = []
        with pytest.raises(CorruptRecord):
            run.take(out, 100)
        assert [record.offset for record in out] == list(range(5))

    def test_damage_is_reported_with_its_offset_every_time_and_never_skipped(self) -> None:
        run = run_of(bytes(self.damaged), position=5)
        for _ in range(3):
            with pytest.raises(CorruptRecord, match=r"offset 5 of partition 3 of topic 'orders'.*seek to offset 10"):
                run.take([], 100)
            assert run.position == 5

    def test_without_check_crcs_only_what_cannot_be_parsed_is_an_error(self) -> None:
        sound = bytearray(batch(range(3)))
        sound[17] ^= 0xFF  # changes the checksum itself
        assert offsets_in(run_of(bytes(sound), check_crcs=False)) == [0, 1, 2]

    def test_bytes_that_are_no_batch_are_an_error_and_not_an_end(self) -> None:
        run = run_of(batch(range(3)) + bytes(100))
        out: list[Record] = []
        with pytest.raises(CorruptRecord):
            run.take(out, 100)
        assert len(out) == 3 and run.position == 3

    def test_old_formats_are_named(self) -> None:
        old = bytearray(batch(range(3)))
        old[16] = 1
        with pytest.raises(CorruptRecord, match="message format 1 is not supported"):
            run_of(bytes(old)).take([], 1)


def test_rows_and_records_may_be_taken_in_turn() -> None:
    log = TestTransactions.log + batch(range(8, 20), codec=Codec.LZ4) + batch([22], base=20, last=29)
    expected = [1, 2, 4, 5, *range(8, 20), 22]
    for size in (1, 2, 3, 5):
        run = run_of(log, aborted=[(1, 0)])
        found: list[int] = []
        while not run.done:
            out: list[Record] = []
            run.take(out, size)
            found += [record.offset for record in out]
            rows = ArrowRows()
            assert run.take_rows(rows, size)
            found += rows.finish()["offset"].to_pylist()
        assert found == expected
        assert (run.position, run.epoch) == (30, 5)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3)), min_size=1, max_size=12), st.data())
def test_any_split_into_batches_and_takes_gives_the_same_records(
    sizes: list[tuple[int, int]], data: st.DataObject
) -> None:
    log, expected, offset = b"", [], 0
    for size, gap in sizes:
        offsets = list(range(offset, offset + size))
        offset += size + gap
        log += batch(offsets, base=offsets[0], last=offset - 1)
        expected += offsets
    start = data.draw(st.integers(0, offset - 1))
    cut = data.draw(st.integers(0, len(log)))
    run = run_of(log[:cut], position=start)
    found = offsets_in(run, limit=data.draw(st.integers(1, 5)))
    # All records up to the end that the object reports, and the next fetch begins exactly there.
    assert found == [one for one in expected if start <= one < run.end]
    assert run.position == run.end
