"""Records inside a batch in plain Python: the readable form of the format, and the reference for `_native.pyx`.

`_native.pyx` has the same four names with the same results, byte for byte and error for error. This module is also used
if no compiler was available at installation.

A record, with zig-zag varints (`varint`: 32 bits, `varlong`: 64):

    varint length of the rest | int8 attributes, unused | varlong timestamp delta | varint offset delta
    varint key length, -1 null | key | varint value length, -1 null | value
    varint header count | each: varint key length | key | varint value length, -1 null | value
"""

from array import array
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from moldau.records import codecs
from moldau.records.batch import check_header, open_batch
from moldau.records.batch_layout import (
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    MAX_DECOMPRESSED,
    NO_TIMESTAMP,
    BatchHeader,
    BatchInfo,
    BatchRecord,
    Bytes,
    RecordColumns,
)
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

_INT32_MIN: Final = -(2**31)
_INT32_MAX: Final = 2**31 - 1
_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
_MOST_VARINTS: Final = 64


class _Fault(Exception):
    """A record that breaks the format. The walk knows the record's index and converts it to InvalidBatch."""

    def __init__(self, fault: int, found: int = 0, expected: int = 0) -> None:
        super().__init__(fault)
        self.fault = fault
        self.found = found
        self.expected = expected


class _Parsed(NamedTuple):
    """The positions of the fields of one record."""

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


# -- checking


def check_batch(
    buf: Bytes,
    pos: int,
    *,
    require_keys: bool = False,
    allow_control: bool = False,
    allow_gaps: bool = False,
    max_decompressed: int = MAX_DECOMPRESSED,
) -> BatchInfo:
    """Check everything about the batch at `pos`, including all records, and return a summary.

    By default, the rules are those for a batch from a client: offset deltas 0, 1, 2 … without gaps. `allow_gaps` is for
    batches after compaction, `allow_control` for batches that the broker wrote itself.
    """
    header = open_batch(buf, pos)
    # Use bytes instead of a view, here and below: indexing is twice as fast, which outweighs the copy.
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


# -- reading


def walk(buf: Bytes, pos: int = 0, *, max_decompressed: int = MAX_DECOMPRESSED) -> RecordColumns:
    """Check a batch of any log, and return the positions of all its fields."""
    header = open_batch(buf, pos)
    data = _records_of(buf, pos, header, True, True, max_decompressed)
    parsed = list(_walk(bytes(data), header, False, True))
    return RecordColumns(
        data,
        array("q", [header.base_offset + one.offset_delta for one in parsed]),
        array("q", [_timestamp(header, one) for one in parsed]),
        *(array("i", [one[field] for one in parsed]) for field in (0, 4, 5, 6, 7, 8, 9)),
    )


def decode_batch(buf: Bytes, pos: int = 0, *, max_decompressed: int = MAX_DECOMPRESSED) -> list[BatchRecord]:
    """Check a batch of any log, and return its records."""
    header = open_batch(buf, pos)
    return list(records_of(bytes(_records_of(buf, pos, header, True, True, max_decompressed)), header))


def records_of(data: bytes, header: BatchHeader) -> Iterator[BatchRecord]:
    """The records in `data`, the decompressed bytes after `header`. Each one is checked when it is read."""
    for one in _walk(data, header, False, True):
        yield BatchRecord(
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
        # A key is not necessarily UTF-8. Other bytes must survive decoding and encoding.
        name = data[at : at + size].decode("utf-8", "surrogateescape")
        at += size
        size, at = _varint(data, at, parsed.end)
        value = None if size < 0 else data[at : at + size]
        at += max(size, 0)
        headers.append((name, value))
    return tuple(headers)


# -- walking over records


def _walk(data: bytes, header: BatchHeader, require_keys: bool, allow_gaps: bool) -> Iterator[_Parsed]:
    """Check and yield each record, and at the end check that no bytes are left."""
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
    timestamp_delta, at = _varlong(data, at + 1, end)  # after the attributes, which are unused
    offset_delta, at = _varint(data, at, end)
    key_size, at = _varint(data, at, end)
    key_at = at
    at = _skip(key_size, at, end, KEY_LENGTH)
    value_size, at = _varint(data, at, end)
    value_at = at
    at = _skip(value_size, at, end, VALUE_LENGTH)
    header_count, at = _varint(data, at, end)
    headers_at = at
    # A header needs at least two bytes, so this bounds the count before the loop.
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
    """The number at `at`, and the position after it. Non-minimal encodings are accepted, up to the type's bits."""
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
    """Writes the records of one batch, uncompressed; `batch.seal` adds the header.

    The timestamps are relative to the first record's timestamp, unless a base is given.
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
        """Write one record and return the size so far. Offset deltas must increase. After a ValueError, the builder is
        unchanged."""
        if not self.last_offset_delta < offset_delta <= _INT32_MAX:
            raise ValueError(f"offset delta {offset_delta} cannot follow {self.last_offset_delta}")
        base = timestamp if self.base_timestamp is None else self.base_timestamp
        if not (_INT64_MIN <= timestamp <= _INT64_MAX and _INT64_MIN <= timestamp - base <= _INT64_MAX):
            raise ValueError(f"timestamp {timestamp} does not fit 64 bits, or its difference from {base} does not")
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
        """The bytes written so far."""
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
