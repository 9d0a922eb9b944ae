"""What a record batch is made of: the names that the reference, its native twin and their callers share.

Layout of format 2 (all integers big-endian), the only format that is read or written here:

    0   int64   base offset                 27  int64   base timestamp (delete horizon where bit 6 is set)
    8   int32   bytes after this field      35  int64   max timestamp
    12  int32   partition leader epoch      43  int64   producer id
    16  int8    magic                       51  int16   producer epoch
    17  uint32  CRC32C of byte 21 onwards   53  int32   base sequence
    21  int16   attributes                  57  int32   record count
    23  int32   last offset delta           61          records, compressed as a whole if at all

Base offset and leader epoch stand before the checksum's reach, so a broker stamps them without touching it.
"""

from array import array
from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

Bytes: TypeAlias = bytes | bytearray | memoryview
Headers: TypeAlias = Sequence[tuple[str, bytes | None]]

# base offset, length, leader epoch, magic, crc, attributes, last offset delta, base timestamp, max timestamp,
# producer id, producer epoch, base sequence, count
HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = HEADER.size
assert HEADER_SIZE == 61

LENGTH_END: Final = 12  # what the length field does not count: base offset and itself
MAGIC_AT: Final = 16
CRC_AT: Final = 17
CRC_FROM: Final = 21  # the checksum covers all from here
ATTRIBUTES_AT: Final = 21
MAX_TIMESTAMP_AT: Final = 35
COUNT_AT: Final = 57

MAGIC: Final = 2

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1

# Room for one batch once decompressed, where the caller sets no other bound. A batch on the wire is about a megabyte
# at most (message.max.bytes), so this leaves honest data a ratio of 64, and a bomb no more than this.
MAX_DECOMPRESSED: Final = 64 * 1024 * 1024


class Codec(IntEnum):
    """Bits 0 to 2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(IntEnum):
    """Bit 3 of a batch's attributes: who set the records' timestamps."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class Record(NamedTuple):
    """One record, for those who want objects: clients, tools and tests. The broker makes none."""

    offset: int
    timestamp: int = NO_TIMESTAMP
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()


class _AttributeBits:
    """What the attributes of a batch say, by name."""

    __slots__ = ()
    attributes: int

    @property
    def codec_id(self) -> int:
        """The codec's number as it stands there; it may be one that no `Codec` has."""
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
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # of records; nobody needs tuple.count here


class BatchHeader(_AttributeBits, _HeaderFields):
    """The 61 bytes before the records, as they stand: nothing here has been checked against the records."""

    __slots__ = ()

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta


class _InfoFields(NamedTuple):
    base_offset: int
    size: int  # the whole batch, header included
    leader_epoch: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int  # as the header claims it; compare max_record_timestamp
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # of records; nobody needs tuple.count here
    # From here on, what the records themselves say. A batch without records has NO_TIMESTAMP and -1.
    first_timestamp: int
    min_record_timestamp: int
    max_record_timestamp: int
    offset_delta_of_max_timestamp: int  # of the first record that has it


class BatchInfo(_AttributeBits, _InfoFields):
    """What `check_batch` learnt of a batch that passed it."""

    __slots__ = ()

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta


class RecordColumns:
    """Where everything is in a batch, an array a field and an element a record; no object a record.

    Positions index into `data`, which is the batch's records: a view of the caller's bytes where they were not
    compressed, else the decompressed copy. Record i, its length prefix included, ends where record i + 1 begins, the
    last one at the end of `data`. Sizes of -1 are nulls, whose position means nothing.
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
        self.offset = offset  # 'q', absolute
        self.timestamp = timestamp  # 'q'
        self.record_at = record_at  # the others 'i'
        self.key_at = key_at
        self.key_size = key_size
        self.value_at = value_at
        self.value_size = value_size
        self.headers_at = headers_at
        self.header_count = header_count

    def __len__(self) -> int:
        return len(self.offset)
