"""Malformed batches: one test per rule, for both implementations."""

import struct
from types import ModuleType

import pytest

from moldau.records import (
    HEADER_SIZE,
    BatchRecord,
    Codec,
    CorruptBatch,
    InvalidBatch,
    MissingKey,
    UnsupportedCodec,
    encode_batch,
    reference,
    reseal,
    seal,
)

ENGINES = [pytest.param(reference, id="reference")]
try:
    from moldau.records import _native

    ENGINES.append(pytest.param(_native, id="native"))
except ImportError:
    pass

pytestmark = pytest.mark.parametrize("engine", ENGINES)

RECORDS = [BatchRecord(i, 1000 + i, b"key%d" % i, b"value%d" % i) for i in range(3)]


def zigzag(number: int) -> bytes:
    value = number << 1 if number >= 0 else (~number << 1) | 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def record_bytes(
    offset_delta: int = 0,
    timestamp_delta: bytes = b"\x00",
    key: bytes = b"\x06key",
    value: bytes = b"\x0avalue",
    headers: bytes = b"\x00",
) -> bytes:
    body = b"\x00" + timestamp_delta + zigzag(offset_delta) + key + value + headers
    return zigzag(len(body)) + body


def batch_of(*records: bytes, count: int | None = None, base_timestamp: int = 0) -> bytearray:
    count = len(records) if count is None else count
    return seal(
        b"".join(records),
        count=count,
        last_offset_delta=count - 1,
        base_timestamp=base_timestamp,
        max_timestamp=0,
    )


def resealed(batch: bytearray) -> bytearray:
    reseal(batch, 0, len(batch))
    return batch


def test_the_hand_made_record_is_sound(engine: ModuleType) -> None:
    batch = batch_of(record_bytes(0), record_bytes(1, headers=b"\x02\x02h\x01"))
    assert engine.decode_batch(batch) == [
        BatchRecord(0, 0, b"key", b"value"),
        BatchRecord(1, 0, b"key", b"value", (("h", None),)),
    ]
    assert engine.check_batch(batch, 0, require_keys=True).count == 2


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_refused_by_name(engine: ModuleType, magic: int) -> None:
    # A message of an old format may be smaller than a new header; it is recognised as well.
    message = bytearray(struct.pack(">qiIbb", 0, 14, 0, magic, 0) + b"\xff" * 8)
    with pytest.raises(InvalidBatch, match=f"format {magic} is not supported"):
        engine.check_batch(message, 0)
    batch = encode_batch(RECORDS)
    batch[16] = magic
    with pytest.raises(InvalidBatch, match=f"format {magic} is not supported"):
        engine.check_batch(batch, 0)


def test_a_format_that_does_not_exist_is_corruption(engine: ModuleType) -> None:
    batch = encode_batch(RECORDS)
    batch[16] = 3
    with pytest.raises(CorruptBatch, match="format 3 does not exist"):
        engine.check_batch(batch, 0)


def test_every_truncation_is_noticed(engine: ModuleType) -> None:
    batch = encode_batch(RECORDS)
    for size in range(len(batch)):
        with pytest.raises(CorruptBatch):
            engine.check_batch(batch[:size], 0)
    with pytest.raises(CorruptBatch):
        engine.check_batch(batch, len(batch))
    with pytest.raises(CorruptBatch):
        engine.check_batch(batch, -1)


def test_a_length_below_the_header_is_noticed(engine: ModuleType) -> None:
    for length in (-(2**31), -1, 0, HEADER_SIZE - 13):
        batch = encode_batch(RECORDS)
        batch[8:12] = struct.pack(">i", length)
        with pytest.raises(CorruptBatch, match="smaller than its header"):
            engine.check_batch(batch, 0)


def test_every_flipped_bit_under_the_checksum_is_noticed(engine: ModuleType) -> None:
    batch = encode_batch(RECORDS)
    for at in range(17, len(batch)):
        for bit in range(8):
            batch[at] ^= 1 << bit
            with pytest.raises(CorruptBatch, match="CRC32C"):
                engine.check_batch(batch, 0)
            batch[at] ^= 1 << bit


@pytest.mark.parametrize("codec_id", [5, 6, 7])
def test_a_codec_that_does_not_exist_is_refused(engine: ModuleType, codec_id: int) -> None:
    batch = encode_batch(RECORDS)
    batch[22] |= codec_id
    with pytest.raises(UnsupportedCodec, match=f"codec {codec_id}"):
        engine.check_batch(resealed(batch), 0)


def test_control_batches_of_clients_are_refused(engine: ModuleType) -> None:
    batch = encode_batch(RECORDS, control=True)
    with pytest.raises(InvalidBatch, match="control"):
        engine.check_batch(batch, 0)
    assert engine.check_batch(batch, 0, allow_control=True).is_control


@pytest.mark.parametrize(
    ("count", "last_offset_delta"),
    [(0, -1), (0, 0), (-1, -2), (3, 3), (3, 1), (3, -1), (2**31 - 1, 0), (-(2**31), 2**31 - 1)],
)
def test_count_and_last_offset_delta_must_agree(engine: ModuleType, count: int, last_offset_delta: int) -> None:
    batch = encode_batch(RECORDS)
    batch[23:27] = struct.pack(">i", last_offset_delta)
    batch[57:61] = struct.pack(">i", count)
    with pytest.raises(InvalidBatch, match="the header counts"):
        engine.check_batch(resealed(batch), 0)


@pytest.mark.parametrize("base_offset", [-1, -(2**63), 2**63 - 2])
def test_offsets_must_stay_within_64_bits(engine: ModuleType, base_offset: int) -> None:
    batch = encode_batch(RECORDS)
    batch[0:8] = struct.pack(">q", base_offset)
    with pytest.raises(InvalidBatch, match="beyond 64 bits"):
        engine.check_batch(batch, 0)


def test_fewer_records_than_counted_are_refused(engine: ModuleType) -> None:
    for count in (3, 2**31 - 1):
        with pytest.raises(InvalidBatch, match=f"after 2 of the {count}") as refused:
            engine.check_batch(batch_of(record_bytes(0), record_bytes(1), count=count), 0)
        assert refused.value.record_index is None


def test_more_records_than_counted_are_refused(engine: ModuleType) -> None:
    with pytest.raises(InvalidBatch, match="bytes are left after the 1 records"):
        engine.check_batch(batch_of(record_bytes(0), record_bytes(1), count=1), 0)
    with pytest.raises(InvalidBatch, match="1 bytes are left after the 1 records"):
        engine.check_batch(batch_of(record_bytes(0), b"\x00", count=1), 0)


RULES = [
    # offsets
    (record_bytes(0), "offset delta is 0 and should be 1"),
    (record_bytes(2), "offset delta is 2 and should be 1"),
    (record_bytes(-1), "offset delta is -1 and should be 1"),
    # the record's length
    (b"\x01", "its length is -1"),
    (zigzag(-(2**31)), "its length is -2147483648"),
    (zigzag(2**31 - 1), "its length is 2147483647, but only 0 bytes are left"),
    (b"\x00", "a field of 1 bytes does not fit the 0 left"),
    (b"\x02\x00", "a varint is cut off"),
    (b"\x80", "a varint is cut off"),
    (b"\xff\xff\xff\xff\x10", "longer than its type"),
    (b"\x80\x80\x80\x80\x80\x00", "longer than its type"),
    (record_bytes(1)[:-1], "its length is 14, but only 13 bytes are left"),
    (record_bytes(1, headers=b"\x00\x00\x00"), "2 bytes are left after its last field"),
    # timestamps
    (record_bytes(1, timestamp_delta=b"\xff" * 9 + b"\x02"), "longer than its type"),
    (record_bytes(1, timestamp_delta=b"\x80" * 10 + b"\x00"), "longer than its type"),
    # keys and values
    (record_bytes(1, key=b"\x03"), "key's length is -2"),
    (record_bytes(1, key=zigzag(-(2**31))), "key's length is -2147483648"),
    (record_bytes(1, key=b"\x7ekey"), "a field of 63 bytes does not fit the 10 left"),
    (record_bytes(1, key=zigzag(2**31 - 1)), "a field of 2147483647 bytes"),
    (record_bytes(1, key=b"\xff\xff\xff\xff\xff\x01"), "longer than its type"),
    (record_bytes(1, value=b"\x03"), "value's length is -2"),
    (record_bytes(1, value=b"\x0cvalue", headers=b""), "a field of 6 bytes does not fit the 5 left"),
    # headers
    (record_bytes(1, headers=b"\x01"), "number of headers is -1"),
    (record_bytes(1, headers=b"\x04\x02h\x01"), "number of headers is 2, in 3 bytes"),
    (record_bytes(1, headers=zigzag(2**31 - 1)), "number of headers is 2147483647, in 0 bytes"),
    (record_bytes(1, headers=b"\x02\x01\x01"), "header key's length is -1; header keys cannot be null"),
    (record_bytes(1, headers=b"\x02\x05\x01"), "header key's length is -3"),
    (record_bytes(1, headers=b"\x02\x02h\x03"), "header value's length is -2"),
    (record_bytes(1, headers=b"\x02\x02h\x08abc"), "a field of 4 bytes does not fit the 3 left"),
    (record_bytes(1, headers=b"\x02\x08abc"), "a field of 4 bytes does not fit the 3 left"),
]


@pytest.mark.parametrize(("second", "words"), RULES)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_broken_record_is_named_by_its_index(engine: ModuleType, second: bytes, words: str, codec: Codec) -> None:
    records = record_bytes(0) + second
    batch = seal(records, count=2, last_offset_delta=1, base_timestamp=0, max_timestamp=0, codec=codec)
    for function in (engine.check_batch, engine.decode_batch, engine.walk):
        if "should be 1" in words and function is not engine.check_batch:
            continue  # readers allow gaps of compaction, and have another message
        with pytest.raises(InvalidBatch, match=words) as refused:
            function(batch, 0)
        assert refused.value.record_index == 1
        assert str(refused.value).startswith("record 1: ")


@pytest.mark.parametrize(
    ("base", "delta"), [(1, 2**63 - 1), (-2, -(2**63)), (2**63 - 1, 1), (-(2**63), -1), (-1, -(2**63))]
)
def test_timestamps_must_stay_within_64_bits(engine: ModuleType, base: int, delta: int) -> None:
    batch = batch_of(record_bytes(0, timestamp_delta=zigzag(delta)), base_timestamp=base)
    with pytest.raises(InvalidBatch, match="beyond 64 bits"):
        engine.check_batch(batch, 0)


def test_the_extreme_timestamps_are_accepted(engine: ModuleType) -> None:
    for base, delta in ((0, 2**63 - 1), (-1, 2**63 - 1), (0, -(2**63)), (2**63 - 1, -(2**63))):
        batch = batch_of(record_bytes(0, timestamp_delta=zigzag(delta)), base_timestamp=base)
        assert engine.check_batch(batch, 0).max_record_timestamp == base + delta


def test_longer_encodings_of_a_number_are_accepted_as_in_kafka(engine: ModuleType) -> None:
    batch = batch_of(record_bytes(0, timestamp_delta=b"\x80" * 9 + b"\x00", key=b"\x86\x80\x80\x80\x00key"))
    assert engine.decode_batch(batch) == [BatchRecord(0, 0, b"key", b"value")]


def test_records_without_a_key_are_refused_where_keys_are_required(engine: ModuleType) -> None:
    batch = encode_batch([BatchRecord(0, 0, b"", b"v"), BatchRecord(1, 0, None, b"v"), BatchRecord(2, 0, None, b"v")])
    assert engine.check_batch(batch, 0).count == 3
    with pytest.raises(MissingKey, match="no key") as refused:
        engine.check_batch(batch, 0, require_keys=True)
    assert refused.value.record_index == 1


@pytest.mark.parametrize("deltas", [[1, 1], [2, 1], [0, 6], [-1, 0]])
def test_compacted_offsets_must_rise_within_the_batch(engine: ModuleType, deltas: list[int]) -> None:
    batch = seal(
        b"".join(record_bytes(delta) for delta in deltas),
        count=2,
        last_offset_delta=5,
        base_timestamp=0,
        max_timestamp=0,
    )
    for function in (engine.decode_batch, engine.walk):
        with pytest.raises(InvalidBatch, match="not between its neighbour's and the batch's last, 5"):
            function(batch)


def test_more_records_than_offsets_are_refused_even_with_gaps(engine: ModuleType) -> None:
    batch = seal(b"", count=7, last_offset_delta=5, base_timestamp=0, max_timestamp=0)
    with pytest.raises(InvalidBatch, match="7 records do not fit"):
        engine.check_batch(batch, 0, allow_gaps=True)


def test_header_keys_that_are_not_utf8_survive(engine: ModuleType) -> None:
    raw = batch_of(record_bytes(0, headers=b"\x02\x04\xff\xc3\x02x"))
    records = engine.decode_batch(raw)
    assert bytes(encode_batch(records))[HEADER_SIZE:] == bytes(raw)[HEADER_SIZE:]
