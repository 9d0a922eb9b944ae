"""Records inside a batch, in plain Python: the format as one can read it, and the judge of the native twin.

`_native.pyx` has the same four names with the same results, byte for byte and error for error. This is also what runs
where no compiler was at hand at installation.

A record, after zig-zag varints (`varint`: 32 bits, `varlong`: 64):

    varint length of the rest | int8 attributes, unused | varlong timestamp delta | varint offset delta
    varint key length, -1 null | key | varint value length, -1 null | value
    varint header count | each: varint key length | key | varint value length, -1 null | value
"""

from array import array
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from moldau.records import codecs
from moldau.records.batch import check_header, open_batch
from moldau.records.errors import (
    BATCH_TRAILING,
    FIELD_PAST_RECORD,
    HEADER_COUNT,
    HEADER_KEY_LENGTH,
    HEADER_VALUE_LENGTH,
    KEY_LENGTH,
    NO_KEY,
    OFFSET_DELTA,
    OFFSET_ORDER,
    RECORD_LENGTH,
    RECORD_PAST_END,
    RECORD_TRAILING,
    TIMESTAMP_RANGE,
    TOO_FEW_RECORDS,
    VALUE_LENGTH,
    VARINT_PAST_END,
    VARINT_TOO_LONG,
    refusal,
)
from moldau.records.model import (
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    MAX_DECOMPRESSED,
    NO_TIMESTAMP,
    BatchHeader,
    BatchInfo,
    Bytes,
    Record,
    RecordColumns,
)

_INT32_MIN: Final = -(2**31)
_INT32_MAX: Final = 2**31 - 1
_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
_MOST_VARINTS: Final = 64


class _Fault(Exception):
    """A record that breaks the format; the walk, which knows the record's index, turns it into InvalidBatch."""

    def __init__(self, fault: int, found: int = 0, expected: int = 0) -> None:
        super().__init__(fault)
        self.fault = fault
        self.found = found
        self.expected = expected


class _Parsed(NamedTuple):
    """Where the fields of one record are."""

    start: int
    end: int
    timestamp_delta: int
    offset_delta: int
    key_at: int
    key_size: int
    value_at: int
    value_size: int
    headers_at: int
    header_count: int


# -- what the broker calls


def check_batch(
    buf: Bytes,
    pos: int,
    *,
    require_keys: bool = False,
    allow_control: bool = False,
    allow_gaps: bool = False,
    max_decompressed: int = MAX_DECOMPRESSED,
) -> BatchInfo:
    """Check everything about the batch at `pos`, down to the last record, and say what is in it.

    As a broker takes it from a client: offset deltas 0, 1, 2 … without a hole. `allow_gaps` is for batches that
    compaction has been through, `allow_control` for those the broker wrote itself.
    """
    header = open_batch(buf, pos)
    # Bytes, not a view, here and below: indexing them is twice as fast, which outweighs the copy.
    data = bytes(_records_of(buf, pos, header, allow_control, allow_gaps, max_decompressed))
    first = earliest = latest = NO_TIMESTAMP
    delta_of_latest = -1
    for parsed in _walk(data, header, require_keys, allow_gaps):
        timestamp = _timestamp(header, parsed)
        if delta_of_latest < 0:
            first = earliest = latest = timestamp
            delta_of_latest = parsed.offset_delta
        elif timestamp > latest:
            latest = timestamp
            delta_of_latest = parsed.offset_delta
        elif timestamp < earliest:
            earliest = timestamp
    return BatchInfo(
        header.base_offset, header.size, header.leader_epoch, header.attributes, header.last_offset_delta,
        header.base_timestamp, header.max_timestamp, header.producer_id, header.producer_epoch, header.base_sequence,
        header.count,
        first, earliest, latest, delta_of_latest,
    )  # fmt: skip


# -- what readers call


def walk(buf: Bytes, pos: int = 0, *, max_decompressed: int = MAX_DECOMPRESSED) -> RecordColumns:
    """Check the batch, as it may stand in any log, and say where everything in it is."""
    header = open_batch(buf, pos)
    data = _records_of(buf, pos, header, True, True, max_decompressed)
    parsed = list(_walk(bytes(data), header, False, True))
    return RecordColumns(
        data,
        array("q", [header.base_offset + one.offset_delta for one in parsed]),
        array("q", [_timestamp(header, one) for one in parsed]),
        *(array("i", [one[field] for one in parsed]) for field in (0, 4, 5, 6, 7, 8, 9)),
    )


def decode_batch(buf: Bytes, pos: int = 0, *, max_decompressed: int = MAX_DECOMPRESSED) -> list[Record]:
    """Check the batch, as it may stand in any log, and give its records."""
    header = open_batch(buf, pos)
    return list(records_of(bytes(_records_of(buf, pos, header, True, True, max_decompressed)), header))


def records_of(data: bytes, header: BatchHeader) -> Iterator[Record]:
    """The records in `data`, which is what stands behind `header`, decompressed; each is checked when asked for."""
    for one in _walk(data, header, False, True):
        yield Record(
            header.base_offset + one.offset_delta,
            _timestamp(header, one),
            None if one.key_size < 0 else data[one.key_at : one.key_at + one.key_size],
            None if one.value_size < 0 else data[one.value_at : one.value_at + one.value_size],
            _headers(data, one),
        )


def _records_of(
    buf: Bytes, pos: int, header: BatchHeader, allow_control: bool, allow_gaps: bool, max_decompressed: int
) -> memoryview:
    codec = check_header(
        header.base_offset,
        header.attributes,
        header.last_offset_delta,
        header.count,
        allow_control=allow_control,
        allow_gaps=allow_gaps,
    )
    return codecs.decompress(codec, memoryview(buf)[pos + HEADER_SIZE : pos + header.size], max_decompressed)


def _timestamp(header: BatchHeader, parsed: _Parsed) -> int:
    if header.attributes & LOG_APPEND_TIME_BIT:
        return header.max_timestamp
    return header.base_timestamp + parsed.timestamp_delta


def _headers(data: bytes, parsed: _Parsed) -> tuple[tuple[str, bytes | None], ...]:
    headers = []
    at = parsed.headers_at
    for _ in range(parsed.header_count):
        size, at = _varint(data, at, parsed.end)
        # Nobody promises that a key is UTF-8; what is not must survive being decoded and encoded again.
        name = data[at : at + size].decode("utf-8", "surrogateescape")
        at += size
        size, at = _varint(data, at, parsed.end)
        value = None if size < 0 else data[at : at + size]
        at += max(size, 0)
        headers.append((name, value))
    return tuple(headers)


# -- the walk


def _walk(data: bytes, header: BatchHeader, require_keys: bool, allow_gaps: bool) -> Iterator[_Parsed]:
    """Each record in turn, checked; in the end, that there is nothing but records."""
    at = 0
    end = len(data)
    lowest = _INT64_MIN - header.base_timestamp
    highest = _INT64_MAX - header.base_timestamp
    previous = -1
    for index in range(header.count):
        if at == end:
            raise refusal(TOO_FEW_RECORDS, index, index, header.count)
        try:
            parsed = _parse(data, at, end)
            delta = parsed.offset_delta
            if allow_gaps:
                if not previous < delta <= header.last_offset_delta:
                    raise _Fault(OFFSET_ORDER, delta, header.last_offset_delta)
            elif delta != index:
                raise _Fault(OFFSET_DELTA, delta, index)
            if not lowest <= parsed.timestamp_delta <= highest:
                raise _Fault(TIMESTAMP_RANGE, parsed.timestamp_delta, header.base_timestamp)
            if require_keys and parsed.key_size < 0:
                raise _Fault(NO_KEY)
        except _Fault as fault:
            raise refusal(fault.fault, index, fault.found, fault.expected) from None
        yield parsed
        previous = delta
        at = parsed.end
    if at != end:
        raise refusal(BATCH_TRAILING, header.count, end - at, header.count)


def _parse(data: bytes, start: int, data_end: int) -> _Parsed:
    length, at = _varint(data, start, data_end)
    if length < 0:
        raise _Fault(RECORD_LENGTH, length)
    if length > data_end - at:
        raise _Fault(RECORD_PAST_END, length, data_end - at)
    end = at + length
    if length < 1:
        raise _Fault(FIELD_PAST_RECORD, 1, 0)
    timestamp_delta, at = _varlong(data, at + 1, end)  # after the attributes, which mean nothing yet
    offset_delta, at = _varint(data, at, end)
    key_size, at = _varint(data, at, end)
    key_at = at
    at = _skip(key_size, at, end, KEY_LENGTH)
    value_size, at = _varint(data, at, end)
    value_at = at
    at = _skip(value_size, at, end, VALUE_LENGTH)
    header_count, at = _varint(data, at, end)
    headers_at = at
    # A header takes two bytes at least, so the count is bounded by what is there before anything loops over it.
    if header_count < 0 or header_count > (end - at) // 2:
        raise _Fault(HEADER_COUNT, header_count, end - at)
    for _ in range(header_count):
        size, at = _varint(data, at, end)
        if size < 0:
            raise _Fault(HEADER_KEY_LENGTH, size)
        at = _skip(size, at, end, HEADER_KEY_LENGTH)
        size, at = _varint(data, at, end)
        at = _skip(size, at, end, HEADER_VALUE_LENGTH)
    if at != end:
        raise _Fault(RECORD_TRAILING, end - at)
    return _Parsed(
        start, end, timestamp_delta, offset_delta, key_at, key_size, value_at, value_size, headers_at, header_count
    )


def _skip(size: int, at: int, end: int, fault: int) -> int:
    """The position after a field of `size` bytes, where -1 is a null."""
    if size < 0:
        if size < -1:
            raise _Fault(fault, size)
        return at
    if size > end - at:
        raise _Fault(FIELD_PAST_RECORD, size, end - at)
    return at + size


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    return _zigzag(data, at, end, 32)


def _varlong(data: bytes, at: int, end: int) -> tuple[int, int]:
    return _zigzag(data, at, end, 64)


def _zigzag(data: bytes, at: int, end: int, bits: int) -> tuple[int, int]:
    """The number at `at`, and the position after it. Longer spellings than needed are fine up to the type's bits."""
    value = 0
    shift = 0
    while True:
        if at >= end:
            raise _Fault(VARINT_PAST_END)
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= bits:
            raise _Fault(VARINT_TOO_LONG)
    if value >> bits:
        raise _Fault(VARINT_TOO_LONG)
    return (value >> 1) ^ -(value & 1), at


# -- writing


class RecordsBuilder:
    """Writes the records of one batch, one after another, uncompressed; `batch.seal` puts the header around them.

    The first record's timestamp is the base that the others are relative to, unless one is given.
    """

    __slots__ = ("_buffer", "base_timestamp", "count", "last_offset_delta", "max_timestamp")

    def __init__(self, base_timestamp: int | None = None) -> None:
        self._buffer = bytearray()
        self.base_timestamp = base_timestamp
        self.max_timestamp = NO_TIMESTAMP
        self.last_offset_delta = -1
        self.count = 0

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return len(self._buffer)

    def append(
        self,
        offset_delta: int,
        timestamp: int,
        key: Bytes | None,
        value: Bytes | None,
        headers: Iterable[tuple[str, Bytes | None]] = (),
    ) -> int:
        """Write one record; gives the size so far. Offset deltas must rise. ValueError leaves the builder as it was."""
        if not self.last_offset_delta < offset_delta <= _INT32_MAX:
            raise ValueError(f"offset delta {offset_delta} cannot follow {self.last_offset_delta}")
        base = timestamp if self.base_timestamp is None else self.base_timestamp
        if not (_INT64_MIN <= timestamp <= _INT64_MAX and _INT64_MIN <= timestamp - base <= _INT64_MAX):
            raise ValueError(f"timestamp {timestamp} does not fit 64 bits, or its distance from {base} does not")
        body = bytearray(b"\x00")
        _put_zigzag(body, timestamp - base)
        _put_zigzag(body, offset_delta)
        _put_bytes(body, key)
        _put_bytes(body, value)
        encoded = [(name.encode("utf-8", "surrogateescape"), content) for name, content in headers]
        _put_zigzag(body, len(encoded))
        for name, content in encoded:
            _put_bytes(body, name)
            _put_bytes(body, content)
        if len(self._buffer) + len(body) > _INT32_MAX - _MOST_VARINTS:
            raise ValueError("a batch is limited to 2 GiB")
        _put_zigzag(self._buffer, len(body))
        self._buffer += body
        self.max_timestamp = timestamp if self.count == 0 else max(self.max_timestamp, timestamp)
        self.base_timestamp = base
        self.last_offset_delta = offset_delta
        self.count += 1
        return len(self._buffer)

    def records(self) -> bytes:
        """What was written."""
        return bytes(self._buffer)


def _put_zigzag(out: bytearray, number: int) -> None:
    value = number << 1 if number >= 0 else (~number << 1) | 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _put_bytes(out: bytearray, content: Bytes | None) -> None:
    if content is None:
        out.append(1)  # -1
    else:
        _put_zigzag(out, content.nbytes if isinstance(content, memoryview) else len(content))
        out += content
