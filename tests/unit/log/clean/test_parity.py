"""Cleaner parity: the native inner loops equal the reference, byte for byte."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.log.clean import reference
from moldau.log.clean.engine_interface import NO_HORIZON
from moldau.records import BatchError, BatchRecord, Codec, TimestampType, encode_batch

native = pytest.importorskip("moldau.log.clean._native", reason="the native twin was not built")

needs_crc = pytest.mark.skipif(
    not pytest.importorskip("moldau.records._crc").AVAILABLE, reason="without the instruction nothing counts as plain"
)

SEED = bytes(range(16))
NOW = 1_700_000_000_000

keys = st.none() | st.sampled_from([b"", b"a", b"b", b"key-number-three", b"x" * 40])
values = st.none() | st.binary(max_size=20)
timestamps = st.integers(0, 5000).map(lambda ms: NOW + ms) | st.just(-1) | st.integers(-(2**62), 2**62)


@dataclass
class Given:
    data: memoryview
    records: list[BatchRecord]


@st.composite
def batches(draw: st.DrawFn) -> Given:
    base = draw(st.integers(0, 2**40))
    deltas = draw(st.lists(st.integers(1, 5), min_size=0, max_size=12))
    offset, records = base, []
    for delta in deltas:
        headers = draw(st.sampled_from([(), (("h", b"v"), ("n", None))]))
        records.append(BatchRecord(offset, draw(timestamps), draw(keys), draw(values), headers))
        offset += delta
    batch = encode_batch(
        records,
        base_offset=base,
        last_offset=offset,
        codec=draw(st.sampled_from(list(Codec))) if records else Codec.NONE,
        timestamp_type=draw(st.sampled_from(list(TimestampType))),
    )
    return Given(memoryview(batch), records)


def both(slots: int, load_factor: float = 0.9) -> tuple[reference.OffsetMap, reference.OffsetMap]:
    return reference.OffsetMap(slots, load_factor, SEED), native.OffsetMap(slots, load_factor, SEED)


@given(
    st.integers(1, 12),
    st.sampled_from([0.1, 0.5, 0.9, 1.0]),
    st.lists(st.tuples(st.binary(max_size=3), st.integers(0, 100))),
)
def test_maps_remember_and_refuse_the_same(slots: int, load: float, entries: list[tuple[bytes, int]]) -> None:
    readable, fast = both(slots, load)
    assert readable.capacity == fast.capacity
    for key, offset in entries:
        assert readable.put(key, offset) == fast.put(key, offset)
        assert len(readable) == len(fast)
    for key, _ in [*entries, (b"never put", 0)]:
        assert readable.get(key) == fast.get(key)


@given(batches(), st.integers(1, 8), st.integers(0, 60))
def test_maps_take_the_same_of_a_batch(given_: Given, slots: int, skip: int) -> None:
    readable, fast = both(slots)
    first = (given_.records[0].offset if given_.records else 0) + skip
    assert readable.put_batch(given_.data, first) == fast.put_batch(given_.data, first)
    assert len(readable) == len(fast)
    for record in given_.records:
        if record.key is not None:
            assert readable.get(record.key) == fast.get(record.key)


@given(
    batches(),
    st.lists(st.tuples(st.sampled_from([b"", b"a", b"b", b"key-number-three"]), st.integers(-20, 60)), max_size=4),
    st.integers(-5, 70),
    st.booleans(),
    st.just(NO_HORIZON) | st.integers(0, 2**63 - 1) | st.just(NOW + 86_400_000),
)
def test_both_leave_the_same_of_a_batch(
    given_: Given, known: list[tuple[bytes, int]], reach: int, drop_deletes: bool, horizon: int
) -> None:
    readable, fast = both(16)
    base = given_.records[0].offset if given_.records else 0
    for key, distance in known:
        readable.put(key, max(0, base + distance))
        fast.put(key, max(0, base + distance))
    arguments = (base + reach, drop_deletes, horizon)
    assert native.sift(given_.data, fast, *arguments) == reference.sift(given_.data, readable, *arguments)


@st.composite
def chunks(draw: st.DrawFn) -> tuple[bytearray, int]:
    """Batches one after another as in a log, perhaps with one that is transactional, compressed, out of place or
    damaged, and perhaps cut off at the end; and the offset after them."""
    chunk, offset = bytearray(), draw(st.integers(0, 50))
    for _ in range(draw(st.integers(0, 6))):
        count = draw(st.integers(1, 4))
        found = [BatchRecord(offset + number, NOW, draw(keys), draw(values)) for number in range(count)]
        batch = encode_batch(
            found,
            codec=draw(st.sampled_from([Codec.NONE] * 5 + [Codec.LZ4])),
            producer_id=draw(st.sampled_from([-1, -1, -1, 7])),
            transactional=draw(st.sampled_from([False] * 5 + [True])),
        )
        if draw(st.integers(0, 12)) == 0:
            batch[draw(st.integers(0, len(batch) - 1))] ^= draw(st.integers(1, 255))
        chunk += batch
        offset += count + draw(st.integers(0, 3))
    return chunk[: len(chunk) - draw(st.sampled_from([0, 0, 1, 70]))], offset


@needs_crc
@given(chunks(), st.integers(1, 8), st.integers(0, 60), st.integers(0, 20), st.integers(-3, 3))
def test_both_go_as_far_over_a_chunk_and_note_the_same(
    chunk: tuple[bytearray, int], slots: int, first: int, expected: int, end: int
) -> None:
    readable, fast = both(slots)
    arguments = (chunk[0], 0, first, expected, chunk[1] + end)
    assert native.OffsetMap.put_run(fast, *arguments) == readable.put_run(*arguments)
    for key in (b"", b"a", b"b", b"key-number-three", b"x" * 40):
        assert readable.get(key) == fast.get(key)


@needs_crc
@given(
    chunks(),
    st.lists(st.tuples(st.sampled_from([b"", b"a", b"b", b"x" * 40]), st.integers(0, 99)), max_size=8),
    st.integers(0, 80),
    st.integers(0, 20),
    st.integers(-3, 3),
    st.integers(0, 500),
)
def test_both_skip_the_same(
    chunk: tuple[bytearray, int], known: list[tuple[bytes, int]], through: int, expected: int, end: int, short: int
) -> None:
    readable, fast = both(16)
    for key, offset in known:
        readable.put(key, offset)
        fast.put(key, offset)
    rest = (through, expected, chunk[1] + end, len(chunk[0]) + 1 - short)
    assert native.skip_run(chunk[0], 0, fast, *rest) == reference.skip_run(chunk[0], 0, readable, *rest)


@given(batches(), st.data())
def test_both_refuse_damaged_records(given_: Given, data: st.DataObject) -> None:
    broken = bytearray(given_.data)
    if len(broken) == 61 or broken[22] & 7:
        return
    at = data.draw(st.integers(61, len(broken) - 1))
    broken[at] ^= data.draw(st.integers(1, 255))
    fast = native.OffsetMap(16, 0.9, SEED)
    # The reference checks the checksum. The caller of the native code has checked it before; the native code must only
    # not crash.
    try:
        native.sift(memoryview(broken), fast, 2**62, False, NOW)
        fast.put_batch(memoryview(broken), 0)
    except BatchError:
        pass


def test_bytes_that_are_not_one_batch_are_refused() -> None:
    batch = encode_batch([BatchRecord(0, NOW, b"k", b"v")])
    fast = native.OffsetMap(16, 0.9, SEED)
    for wrong in (b"", bytes(61), bytes(batch) + b"x", bytes(batch)[:-1]):
        with pytest.raises(ValueError, match="not one batch"):
            fast.put_batch(memoryview(wrong), 0)
        with pytest.raises(ValueError, match="not one batch"):
            native.sift(memoryview(wrong), fast, 0, False, NO_HORIZON)


def test_the_hash_is_siphash() -> None:
    key = bytes(range(16))
    # Published values of SipHash-2-4 with 128 bits: for no bytes, and for the byte 0.
    assert native.siphash128(key, b"").hex() == "a3817f04ba25a8e66df67214c7550293"
    assert native.siphash128(key, b"\0").hex() == "da87c1d86b99af44347659119b22fc45"
    assert len({native.siphash128(key, bytes(length)) for length in range(64)}) == 64


@pytest.mark.parametrize("kind", [reference.OffsetMap, native.OffsetMap])
def test_a_map_needs_slots_and_a_seed(kind: type[reference.OffsetMap]) -> None:
    for slots, load, seed in ((0, 0.9, SEED), (4, 0.0, SEED), (4, 1.5, SEED), (4, 0.9, b"short")):
        with pytest.raises(ValueError, match="offset map"):
            kind(slots, load, seed)


@pytest.mark.parametrize("kind", [reference.OffsetMap, native.OffsetMap])
def test_a_full_map_still_moves_the_keys_that_it_knows(kind: type[reference.OffsetMap]) -> None:
    full = kind(2, 1.0, SEED)
    assert full.put(b"a", 1)
    assert full.put(b"b", 2)
    assert not full.put(b"c", 3)
    assert full.put(b"a", 4)
    assert [full.get(key) for key in (b"a", b"b", b"c")] == [4, 2, -1]
