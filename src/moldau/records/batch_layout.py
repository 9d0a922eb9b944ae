"""Record batch format: layout, constants and value types, shared by reference, native code and callers.

Layout of format 2 (all integers big-endian), the only format that is read or written here:

    0   int64   base offset                 27  int64   base timestamp (delete horizon where bit 6 is set)
    8   int32   bytes after this field      35  int64   max timestamp
    12  int32   partition leader epoch      43  int64   producer id
    16  int8    magic                       51  int16   producer epoch
    17  uint32  CRC32C of byte 21 onwards   53  int32   base sequence
    21  int16   attributes                  57  int32   record count
    23  int32   last offset delta           61          records, compressed as a whole if at all

The checksum does not cover base offset and leader epoch, so a broker sets them without computing it again.
"""

from array import array
from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from moldau.wire import number_types, producer_identity
from moldau.wire.number_types import LeaderEpoch, ProducerEpoch, ProducerId

Bytes: TypeAlias = bytes | bytearray | memoryview
Headers: TypeAlias = Sequence[tuple[str, bytes | None]]

# base offset, length, leader epoch, magic, crc, attributes, last offset delta, base timestamp, max timestamp,
# producer id, producer epoch, base sequence, count
HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = HEADER.size
assert HEADER_SIZE == 61

LENGTH_AT: Final = 8
LENGTH_END: Final = 12  # bytes not counted by the length field: the base offset and the length itself
LEADER_EPOCH_AT: Final = 12
MAGIC_AT: Final = 16
CRC_AT: Final = 17
CRC_FROM: Final = 21  # the checksum covers everything from here
ATTRIBUTES_AT: Final = 21
FLAGS_AT: Final = ATTRIBUTES_AT + 1  # the low byte of the attributes, which has every bit that is defined
LAST_OFFSET_DELTA_AT: Final = 23
BASE_TIMESTAMP_AT: Final = 27
MAX_TIMESTAMP_AT: Final = 35
PRODUCER_AT: Final = 43
PRODUCER_EPOCH_AT: Final = 51
BASE_SEQUENCE_AT: Final = 53
COUNT_AT: Final = 57

# Parts of the header, for loops that do not need all of it.
BATCH_STEP: Final = Struct(">qi4xb6xi")  # base offset, length, magic, last offset delta: enough to find the next batch
UP_TO_CRC: Final = Struct(">qiibI")  # base offset, length, leader epoch, magic, crc
AFTER_CRC: Final = Struct(">hiqqqhii")  # attributes to count: what the checksum covers before the records
PRODUCER: Final = Struct(">qh")  # producer id, producer epoch

MAGIC: Final = 2

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

NO_TIMESTAMP: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = number_types.NO_LEADER_EPOCH
NO_PRODUCER_ID: Final = producer_identity.NO_PRODUCER_ID
NO_PRODUCER_EPOCH: Final = producer_identity.NO_PRODUCER_EPOCH

# Default limit for the decompressed size of one batch. A batch on the wire is at most about a megabyte
# (message.max.bytes), so this allows honest data a ratio of 64 and limits the damage of a decompression bomb.
MAX_DECOMPRESSED: Final = 64 * 1024 * 1024


class Codec(IntEnum):
    """The codec of a batch: bits 0 to 2 of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(IntEnum):
    """The origin of the records' timestamps: bit 3 of a batch's attributes."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchRecord(NamedTuple):
    """One record as an object, for clients, tools and tests. The broker creates none."""

    offset: int
    timestamp: int = NO_TIMESTAMP
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()


class _AttributeBits:
    """Properties for the bits of a batch's attributes."""

    __slots__ = ()
    attributes: int

    @property
    def codec_id(self) -> int:
        """The codec number as stored; it may be one that `Codec` does not have."""
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType((self.attributes & LOG_APPEND_TIME_BIT) >> 3)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & DELETE_HORIZON_BIT)


class _HeaderFields(NamedTuple):
    base_offset: int
    size: int  # the whole batch, header included
    leader_epoch: LeaderEpoch
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    base_sequence: int
    count: int  # type: ignore[assignment]  # number of records; hides tuple.count


class BatchHeader(_AttributeBits, _HeaderFields):
    """The 61 bytes before the records, as stored: nothing has been checked against the records."""

    __slots__ = ()

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta


class _InfoFields(NamedTuple):
    base_offset: int
    size: int  # the whole batch, header included
    leader_epoch: LeaderEpoch
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int  # as claimed by the header; compare max_record_timestamp
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    base_sequence: int
    count: int  # type: ignore[assignment]  # number of records; hides tuple.count
    # From here on: taken from the records themselves. A batch without records has NO_TIMESTAMP and -1.
    first_timestamp: int
    min_record_timestamp: int
    max_record_timestamp: int
    offset_delta_of_max_timestamp: int  # of the first record with that timestamp


class BatchInfo(_AttributeBits, _InfoFields):
    """The facts about a batch that passed `check_batch`."""

    __slots__ = ()

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta


class RecordColumns:
    """Positions of all fields in a batch: one array per field, one element per record, and no object per record.

    Positions are indexes into `data`, the batch's records: a view of the caller's bytes if they were not compressed,
    otherwise the decompressed copy. Record i, including its length prefix, ends where record i + 1 starts; the last
    one ends at the end of `data`. A size of -1 is a null, whose position is meaningless.
    """

    __slots__ = (
        "data",
        "header_count",
        "headers_at",
        "key_at",
        "key_size",
        "offset",
        "record_at",
        "timestamp",
        "value_at",
        "value_size",
    )

    def __init__(
        self,
        data: memoryview,
        offset: "array[int]",
        timestamp: "array[int]",
        record_at: "array[int]",
        key_at: "array[int]",
        key_size: "array[int]",
        value_at: "array[int]",
        value_size: "array[int]",
        headers_at: "array[int]",
        header_count: "array[int]",
    ) -> None:
        self.data = data
        self.offset = offset  # 'q', absolute offset
        self.timestamp = timestamp  # 'q'
        self.record_at = record_at  # this one and the following are 'i'
        self.key_at = key_at
        self.key_size = key_size
        self.value_at = value_at
        self.value_size = value_size
        self.headers_at = headers_at
        self.header_count = header_count

    def __len__(self) -> int:
        return len(self.offset)
