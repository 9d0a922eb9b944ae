"""Compaction loops in plain Python: the offset map, and the removal of records from a batch.

`_native.pyx` has the same names and must give the same results: parity tests compare the two. This module also runs
where no compiler was available at installation.

The map stores only 128 bits of a keyed hash per key, so that it has room for millions of keys. Two keys with the same
hash would be treated as one. The hash key is chosen at random for every map, so nobody can prepare such a pair. For the
five million keys that fit into 128 MB the probability of one is below 10^-25. (`_native` uses SipHash, which is fast in
C and slow in Python; any good keyed hash gives the same results.)
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from moldau.log.clean.engine_interface import ABSENT, NO_HORIZON, Sifted
from moldau.records import HEADER_SIZE, BatchError, RecordColumns, TimestampType, crc_ok, peek_header, walk
from moldau.records.batch_layout import CODEC_MASK, CONTROL_BIT, MAGIC, TRANSACTIONAL_BIT

SLOT_BYTES: Final = 192
"""The maximal size of an entry: a digest of 16 bytes, an integer, and their slots in a dictionary."""

SEED_BYTES: Final = 16

_INT64_MIN: Final = -(2**63)


class OffsetMap:
    """The last offset of each key, for at most `slots * load_factor` keys."""

    __slots__ = ("_offsets", "_seed", "capacity")

    def __init__(self, slots: int, load_factor: float, seed: bytes) -> None:
        if slots < 1 or not 0 < load_factor <= 1 or len(seed) != SEED_BYTES:
            raise ValueError(f"invalid offset map: {slots} slots, load factor {load_factor}, {len(seed)} bytes of seed")
        self.capacity = max(1, int(slots * load_factor))
        self._seed = seed
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, key: bytes, offset: int) -> bool:
        """Record `offset`, larger than all before, as the last one of `key`. False if a new key has no room."""
        digest = self._digest(key)
        if len(self._offsets) >= self.capacity and digest not in self._offsets:
            return False
        self._offsets[digest] = offset
        return True

    def get(self, key: bytes) -> int:
        """The last offset of `key`, or ABSENT."""
        return self._offsets.get(self._digest(key), ABSENT)

    def _digest(self, key: bytes) -> bytes:
        return blake2b(key, digest_size=16, key=self._seed).digest()

    def put_batch(self, batch: memoryview, first_offset: int) -> int:
        """Record all records of a batch that have a key, from `first_offset` on.

        Returns the offset of the first record that found no room, or -1. The batch must have passed `scan.batches`.
        """
        columns = walk(batch)
        data = columns.data
        for offset, at, size in zip(columns.offset, columns.key_at, columns.key_size, strict=True):
            if size >= 0 and offset >= first_offset and not self.put(bytes(data[at : at + size]), offset):
                return offset
        return -1

    def put_run(
        self, chunk: bytearray, at: int, first_offset: int, expected: int, end_offset: int
    ) -> tuple[int, int, int]:
        """Like `put_batch`, for all consecutive plain batches from `at` on (see `is_plain`).

        Returns the end position, the next expected offset, and the offset that found no room, or -1. If there was no
        room, the end position is the start of that batch.
        """
        while is_plain(chunk, at, expected, end_offset):
            header = peek_header(chunk, at)
            refused = self.put_batch(memoryview(chunk)[at : at + header.size], first_offset)
            if refused >= 0:
                return at, expected, refused
            at += header.size
            expected = header.last_offset + 1
        return at, expected, -1


def is_plain(chunk: bytearray, at: int, expected: int, end_offset: int) -> bool:
    """Whether a whole valid batch is at `at` that the inner loops may process on their own: uncompressed, not
    transactional, with offsets from `expected` up to `end_offset`.

    If not, the caller checks this batch on its own: no batch is ever skipped because it is damaged.
    """
    try:
        header = peek_header(chunk, at)
        return (
            header.magic == MAGIC
            and not header.attributes & (CODEC_MASK | TRANSACTIONAL_BIT | CONTROL_BIT)
            and header.last_offset_delta >= 0
            and expected <= header.base_offset
            and header.last_offset < end_offset
            and crc_ok(chunk, at, header.size)
            and walk(chunk, at) is not None
        )
    except BatchError:
        return False


def skip_run(
    chunk: bytearray, at: int, offsets: OffsetMap, through: int, expected: int, end_offset: int, before: int
) -> tuple[int, int]:
    """Skip the plain batches from `at` on of which no record is kept and which hold no producer sequence.

    They end before `before` and hold no offset above `through`. Returns the end position and the next offset.
    """
    while is_plain(chunk, at, expected, end_offset):
        header = peek_header(chunk, at)
        if header.producer_id >= 0 or at + header.size >= before or header.last_offset > through:
            break
        columns = walk(chunk, at)
        keys = zip(columns.offset, columns.key_at, columns.key_size, strict=True)
        if any(
            size >= 0 and offsets.get(bytes(columns.data[at_ : at_ + size])) <= offset for offset, at_, size in keys
        ):
            break
        at += header.size
        expected = header.last_offset + 1
    return at, expected


def sift(batch: memoryview, offsets: OffsetMap, through: int, drop_deletes: bool, horizon: int) -> Sifted:
    """Remove the records of a batch that later records have replaced.

    `through` is the last offset that the map covers: later records are kept. Of the others, these are removed: records
    without a key, records whose key has a later offset, and with `drop_deletes` tombstones. If a tombstone is kept and
    `horizon` is not NO_HORIZON, timestamps are rewritten relative to it.
    """
    header = peek_header(batch)
    columns = walk(batch)
    kept = [number for number in range(len(columns)) if _stays(columns, number, offsets, through, drop_deletes)]
    if not kept:
        return Sifted(0, None if header.count == 0 else b"", -1, False)
    times = [columns.timestamp[number] for number in kept]
    rebased = (
        horizon != NO_HORIZON
        and any(columns.value_size[number] < 0 for number in kept)
        and _earliest(batch, columns, kept) - horizon >= _INT64_MIN
    )
    if len(kept) == len(columns) and not rebased:
        return Sifted(len(kept), None, max(times), False)
    out = bytearray()
    for number in kept:
        record = _record(columns, number)
        out += _rebase(record, header.base_timestamp - horizon) if rebased else record
    return Sifted(len(kept), bytes(out), max(times), rebased)


def _stays(columns: RecordColumns, number: int, offsets: OffsetMap, through: int, drop_deletes: bool) -> bool:
    if columns.offset[number] > through:
        return True
    size, at = columns.key_size[number], columns.key_at[number]
    if size < 0 or (drop_deletes and columns.value_size[number] < 0):
        return False
    return offsets.get(bytes(columns.data[at : at + size])) <= columns.offset[number]


def _earliest(batch: memoryview, columns: RecordColumns, kept: list[int]) -> int:
    """The earliest timestamp by the records' own deltas, also for LogAppendTime."""
    header = peek_header(batch)
    if header.timestamp_type is TimestampType.CREATE_TIME:
        return min(columns.timestamp[number] for number in kept)
    return min(header.base_timestamp + _delta(_record(columns, number))[0] for number in kept)


def _record(columns: RecordColumns, number: int) -> bytes:
    end = columns.record_at[number + 1] if number + 1 < len(columns) else len(columns.data)
    return bytes(columns.data[columns.record_at[number] : end])


def _delta(record: bytes) -> tuple[int, int, int]:
    """The timestamp delta of a record, the start of its body, and the end of the delta."""
    _, body = _read_varint(record, 0)
    delta, end = _read_varint(record, body + 1)
    return delta, body, end


def _rebase(record: bytes, shift: int) -> bytes:
    """The same record with another timestamp delta and the resulting length."""
    delta, body, end = _delta(record)
    changed = record[body : body + 1] + _varint(delta + shift) + record[end:]
    return _varint(len(changed)) + changed


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


def _varint(number: int) -> bytes:
    value = number << 1 if number >= 0 else (~number << 1) | 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


assert HEADER_SIZE == 61  # `_native` has it as a literal
