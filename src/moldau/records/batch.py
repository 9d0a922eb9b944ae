"""Batch header and checksum: reading, checking, stamping, sealing and recompressing whole batches.

Both the reference and the native code use this module. They handle the records inside a batch themselves.
"""

from struct import Struct
from typing import Final

from moldau.records import codecs
from moldau.records.batch_layout import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL_BIT,
    CRC_AT,
    CRC_FROM,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    LEADER_EPOCH_AT,
    LENGTH_AT,
    LENGTH_END,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MAGIC_AT,
    MAX_DECOMPRESSED,
    MAX_TIMESTAMP_AT,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Bytes,
    Codec,
    TimestampType,
)
from moldau.records.crc import crc32c
from moldau.records.errors import CorruptBatch, InvalidBatch

_BASE_OFFSET: Final = Struct(">q")
_LENGTH: Final = Struct(">i")
_LEADER_EPOCH: Final = Struct(">i")
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_MAX_TIMESTAMP: Final = Struct(">q")
_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1


def peek_header(buf: Bytes, pos: int = 0) -> BatchHeader:
    """Read the header at `pos` without verifying it, for log scans. CorruptBatch if there is none.

    The size in it is at least that of a header, so a scan always advances. The caller checks whether that many bytes
    exist.
    """
    left = max(len(buf) - pos, 0) if pos >= 0 else 0
    if left < HEADER_SIZE:
        raise cut_off(left)
    fields = HEADER.unpack_from(buf, pos)
    size = fields[1] + LENGTH_END
    if size < HEADER_SIZE:
        raise too_small(size)
    return BatchHeader(fields[0], size, *fields[2:])


def open_batch(buf: Bytes, pos: int, *, check_crc: bool = True) -> BatchHeader:
    """The header of a complete batch of format 2, with the right checksum if `check_crc` is set."""
    if 0 <= pos < len(buf) - MAGIC_AT:
        refuse_magic(buf[pos + MAGIC_AT])  # before the sizes, because old formats have other sizes
    header = peek_header(buf, pos)
    if header.size > len(buf) - pos:
        raise cut_short(header.size, len(buf) - pos)
    if check_crc:
        found = crc32c(memoryview(buf)[pos + CRC_FROM : pos + header.size])
        if found != header.crc:
            raise wrong_crc(found, header.crc)
    return header


def refuse_magic(magic: int) -> None:
    """Old formats are a client's choice: the error says so. Other numbers are damage."""
    if magic == MAGIC:
        return
    if magic in (0, 1):
        raise InvalidBatch(f"message format {magic} is not supported; format 2 (Kafka 0.11 and later) is")
    raise CorruptBatch(f"message format {magic} does not exist")


def cut_off(left: int) -> CorruptBatch:
    return CorruptBatch(f"a batch header takes {HEADER_SIZE} bytes; {left} are left")


def too_small(size: int) -> CorruptBatch:
    return CorruptBatch(f"a batch of {size} bytes is smaller than its header")


def cut_short(size: int, left: int) -> CorruptBatch:
    return CorruptBatch(f"the batch has {size} bytes; {left} are left")


def wrong_crc(found: int, stated: int) -> CorruptBatch:
    return CorruptBatch(f"the batch's CRC32C is {found:08x}; its header says {stated:08x}")


def check_header(
    base_offset: int,
    attributes: int,
    last_offset_delta: int,
    count: int,
    *,
    allow_control: bool,
    allow_gaps: bool,
) -> Codec:
    """Check the header on its own; return the codec."""
    codec = codecs.codec_of(attributes & CODEC_MASK)
    if attributes & CONTROL_BIT and not allow_control:
        raise InvalidBatch("control batches are the broker's own; clients cannot write them")
    if not 0 <= base_offset <= _INT64_MAX - last_offset_delta:
        raise InvalidBatch(f"base offset {base_offset} and last offset delta {last_offset_delta} are beyond 64 bits")
    if allow_gaps:
        # Compaction removes records and keeps the offsets; it may even leave a header without records.
        if last_offset_delta < 0 or not 0 <= count <= last_offset_delta + 1:
            raise InvalidBatch(f"{count} records do not fit a last offset delta of {last_offset_delta}")
    elif count < 1:
        raise InvalidBatch(f"the header counts {count} records")
    elif last_offset_delta != count - 1:
        raise InvalidBatch(f"the header counts {count} records and has a last offset delta of {last_offset_delta}")
    return codec


def crc_ok(buf: Bytes, pos: int, size: int) -> bool:
    """Whether the batch of `size` bytes at `pos` has the checksum that its header states."""
    if pos < 0 or size < HEADER_SIZE or len(buf) - pos < size:
        return False
    stated: int = _CRC.unpack_from(buf, pos + CRC_AT)[0]
    return crc32c(memoryview(buf)[pos + CRC_FROM : pos + size]) == stated


def reseal(buf: bytearray | memoryview, pos: int, size: int) -> None:
    """Compute the checksum again, after a change in place of bytes that it covers."""
    _CRC.pack_into(buf, pos + CRC_AT, crc32c(memoryview(buf)[pos + CRC_FROM : pos + size]))


def stamp(buf: bytearray | memoryview, pos: int, base_offset: int, leader_epoch: int) -> None:
    """Write the batch's base offset and leader epoch in place. The checksum does not cover these fields."""
    _BASE_OFFSET.pack_into(buf, pos, base_offset)
    _LEADER_EPOCH.pack_into(buf, pos + LEADER_EPOCH_AT, leader_epoch)


def set_timestamps(
    buf: bytearray | memoryview, pos: int, size: int, timestamp_type: TimestampType, max_timestamp: int
) -> None:
    """Set the timestamp type and the largest timestamp, and reseal.

    With LOG_APPEND_TIME the largest timestamp is that of every record.
    """
    (attributes,) = _ATTRIBUTES.unpack_from(buf, pos + ATTRIBUTES_AT)
    attributes &= ~LOG_APPEND_TIME_BIT
    if timestamp_type == TimestampType.LOG_APPEND_TIME:
        attributes |= LOG_APPEND_TIME_BIT
    _ATTRIBUTES.pack_into(buf, pos + ATTRIBUTES_AT, attributes)
    _MAX_TIMESTAMP.pack_into(buf, pos + MAX_TIMESTAMP_AT, max_timestamp)
    reseal(buf, pos, size)


def seal(
    records: Bytes,
    *,
    count: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    delete_horizon: bool = False,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """Build a whole batch around records that a builder wrote (not yet compressed)."""
    attributes = (
        codec
        | (LOG_APPEND_TIME_BIT if timestamp_type == TimestampType.LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL_BIT if transactional else 0)
        | (CONTROL_BIT if control else 0)
        | (DELETE_HORIZON_BIT if delete_horizon else 0)
    )
    body = records if codec == Codec.NONE else codecs.compress(codec, records, level)
    length = HEADER_SIZE - LENGTH_END + len(body)
    if length > _INT32_MAX:
        raise ValueError(f"a batch of {length + LENGTH_END} bytes exceeds the format's limit of 2 GiB")
    batch = bytearray(HEADER_SIZE)
    HEADER.pack_into(
        batch, 0, base_offset, length, leader_epoch, MAGIC, 0, attributes, last_offset_delta,
        base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, count,
    )  # fmt: skip
    batch += body
    reseal(batch, 0, len(batch))
    return batch


def recompress(
    buf: Bytes, pos: int, codec: Codec, level: int | None = None, max_decompressed: int = MAX_DECOMPRESSED
) -> bytearray:
    """The same batch with its records in another codec; everything else, including offsets, stays the same.

    The batch must have passed `check_batch`: only the codec is checked here.
    """
    header = peek_header(buf, pos)
    if header.size > len(buf) - pos:
        raise cut_short(header.size, len(buf) - pos)
    view = memoryview(buf)[pos : pos + header.size]
    if header.codec_id == codec:
        return bytearray(view)
    records = codecs.decompress(codecs.codec_of(header.codec_id), view[HEADER_SIZE:], max_decompressed)
    batch = bytearray(view[:HEADER_SIZE])
    batch += codecs.compress(codec, records, level)
    _LENGTH.pack_into(batch, LENGTH_AT, len(batch) - LENGTH_END)
    _ATTRIBUTES.pack_into(batch, ATTRIBUTES_AT, header.attributes & ~CODEC_MASK | codec)
    reseal(batch, 0, len(batch))
    return batch
