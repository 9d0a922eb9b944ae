"""The inner loops of compaction in plain Python: the offset map, and taking records out of a batch.

`_native.pyx` has the same names with the same results; this is what it is judged by, and what runs where no compiler
was at hand at installation.

A key is remembered by 128 bits of a keyed hash and nothing else, so that a map has room for millions. Two keys with
the same hash would be taken for one. With the key of the hash chosen at random for every map nobody can prepare such
a pair, and for the five million keys that 128 MB hold the chance of one is below 10^-25. (The twin uses SipHash here,
which is fast in C and slow in Python; any good keyed hash gives the same results.)
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from moldau.log.clean.model import ABSENT, NO_HORIZON, Sifted
from moldau.records import HEADER_SIZE, BatchError, RecordColumns, TimestampType, crc_ok, peek_header, walk
from moldau.records.model import CODEC_MASK, CONTROL_BIT, MAGIC, TRANSACTIONAL_BIT

SLOT_BYTES: Final = 192
"""What an entry takes at most: a digest of 16 bytes, an integer, and their places in a dictionary."""

SEED_BYTES: Final = 16

_INT64_MIN: Final = -(2**63)


class OffsetMap:
    """The last offset of each key, for at most `slots * load_factor` keys."""

    __slots__ = ("_offsets", "_seed", "capacity")

    def __init__(self, slots: int, load_factor: float, seed: bytes) -> None:
        if slots < 1 or not 0 < load_factor <= 1 or len(seed) != SEED_BYTES:
            raise ValueError(f"an offset map of {slots} slots, load factor {load_factor}, {len(seed)} bytes of seed")
        self.capacity = max(1, int(slots * load_factor))
        self._seed = seed
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, key: bytes, offset: int) -> bool:
        """Notes that `key` stands at `offset`, later than all before. False where there is no room for a new key."""
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
        """Notes all records of a batch that have a key, from `first_offset` on.

        Returns the offset of the first one that found no room, or -1. The batch must have passed `scan.batches`.
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
        """As `put_batch`, for as many plain batches as stand one after another from `at` on (see `is_plain`).

        Returns where it ended, the next offset that is expected there, and the offset that found no room, or -1: then
        it ended at the batch that has it.
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
    """Whether a whole, sound batch stands at `at` that the inner loops may go over on their own: uncompressed, not of
    a transaction, its offsets from `expected` on and before `end_offset`.

    Where it is not, the caller looks closer, one batch at a time: nothing is ever skipped because it is damaged.
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
    """Goes over the plain batches from `at` on of which nothing stays, and which no producer's sequence is read from.

    They end before `before` and hold no offset past `through`. Returns where it ended, and the next offset.
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
    """Takes out of a batch what a later record has replaced.

    `through` is the last offset that the map knows about: later records stay. Of the others, those without a key go,
    and those whose key stands at a later offset, and with `drop_deletes` those without a value. Where a record
    without a value stays and `horizon` is not NO_HORIZON, timestamps are written anew, relative to it.
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
    """The earliest timestamp by the records' own deltas, whoever's clock is shown to readers."""
    header = peek_header(batch)
    if header.timestamp_type is TimestampType.CREATE_TIME:
        return min(columns.timestamp[number] for number in kept)
    return min(header.base_timestamp + _delta(_record(columns, number))[0] for number in kept)


def _record(columns: RecordColumns, number: int) -> bytes:
    end = columns.record_at[number + 1] if number + 1 < len(columns) else len(columns.data)
    return bytes(columns.data[columns.record_at[number] : end])


def _delta(record: bytes) -> tuple[int, int, int]:
    """The timestamp delta of a record, where its body begins, and where the delta ends."""
    _, body = _read_varint(record, 0)
    delta, end = _read_varint(record, body + 1)
    return delta, body, end


def _rebase(record: bytes, shift: int) -> bytes:
    """The same record with another timestamp delta, and the length that this gives it."""
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


assert HEADER_SIZE == 61  # the twin has it as a number
