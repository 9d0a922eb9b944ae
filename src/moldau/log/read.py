"""Reads from a segment by offset or by timestamp, always in whole batches.

The bytes are returned exactly as they are in the file. Headers are checked, so that a batch is never split and no batch
beyond the allowed end or out of order is served. Checksums are not verified: clients do that.
"""

from __future__ import annotations

from typing import NamedTuple

from moldau.log.errors import DamagedLog
from moldau.log.scan import FilePosition, headers
from moldau.log.segment import Segment
from moldau.records import HEADER_SIZE, BatchError, RecordColumns, walk
from moldau.records.batch_layout import BATCH_STEP, LENGTH_END, MAGIC

LOOKAHEAD = 8 * 1024
"""Bytes read in addition to the requested ones: the index entry is up to a few batches before the wanted one."""

EMPTY = memoryview(b"")

_MIN_LENGTH = HEADER_SIZE - LENGTH_END


class TimestampOffset(NamedTuple):
    """A record found by its timestamp."""

    timestamp: int
    offset: int
    leader_epoch: int


class WouldBlock(Exception):
    """The disk would have to be read, and the caller asked for cached data only."""


def read_segment(
    segment: Segment,
    offset: int,
    max_bytes: int,
    end_offset: int,
    log_end_offset: int,
    *,
    min_one: bool,
    cached_only: bool,
) -> memoryview | None:
    """Whole batches from the one that contains `offset`, all below `end_offset`.

    None if the segment ends before `offset`. Raises WouldBlock only with `cached_only`.
    """
    found = segment.place_after_read(offset) if cached_only else None
    if found is None:
        found = segment.find(offset, cached_only=cached_only)
    if found is None:
        raise WouldBlock
    position: int
    entry_offset, position = found
    size = segment.file.size
    wanted = max_bytes + LOOKAHEAD
    chunk = _read(segment, position, wanted, cached_only)
    if entry_offset >= 0 and _last_offset(chunk) != entry_offset:
        # The index entry does not lead to the batch that it names.
        if cached_only:
            raise WouldBlock
        segment.drop_index()
        _, position = segment.find(offset) or (-1, 0)
        chunk = _read(segment, position, wanted, cached_only)

    # First find the batch that contains the offset ...
    at, previous, fenced = 0, -1, -1
    while True:
        for first, last in segment.damaged:
            if first <= position + at < last:
                at, fenced = last - position, first
        if at + HEADER_SIZE > len(chunk):
            position += at
            if position >= size:
                return None
            at, chunk = 0, _read(segment, position, wanted, cached_only)
        base, length, magic, delta = _step(segment, chunk, at, position)
        if (
            magic != MAGIC
            or not _MIN_LENGTH <= length <= size - position - at - LENGTH_END
            or delta < 0
            or not previous < base <= log_end_offset - 1 - delta
        ):
            raise DamagedLog(segment.file.path, position + at, "no batch of this log begins here")
        if base + delta >= offset:
            break
        at += LENGTH_END + length
        previous, fenced = base + delta, -1
    if fenced >= 0 and base > offset:
        raise DamagedLog(segment.file.path, fenced, f"recovery found the batch of offset {offset} damaged")
    if base + delta >= end_offset:
        return EMPTY
    if LENGTH_END + length > max_bytes:
        if not min_one:
            return EMPTY
        max_bytes = LENGTH_END + length
    if segment.damaged:
        size = min([size, *(first for first, _ in segment.damaged if first > position + at)])
    if at + max_bytes > len(chunk) and position + len(chunk) < size:
        position, at, chunk = position + at, 0, _read(segment, position + at, max_bytes, cached_only)
    # ... then walk over all batches that fit.
    limit = min(len(chunk), at + max_bytes, size - position)
    end, last_offset = _walk(chunk, at, limit, end_offset)
    if cached_only and last_offset >= 0:
        segment.remember_place(last_offset + 1, FilePosition(position + end))
    return memoryview(chunk)[at:end]


def _walk(chunk: bytearray, at: int, limit: int, end_offset: int) -> tuple[int, int]:
    """The end position of the last whole batch before `limit` and `end_offset`, and its last offset.

    An invalid header stops the walk too: the next read, which starts there, reports it.
    """
    step = BATCH_STEP.unpack_from
    previous = -1
    last_start = limit - HEADER_SIZE
    while at <= last_start:
        base, length, magic, delta = step(chunk, at)
        after = at + LENGTH_END + length
        last = base + delta
        if (
            after > limit
            or base <= previous
            or last >= end_offset
            or magic != MAGIC
            or delta < 0
            or length < _MIN_LENGTH
        ):
            break
        previous = last
        at = after
    return at, previous


def _step(segment: Segment, chunk: bytearray, at: int, position: int) -> tuple[int, int, int, int]:
    if at + HEADER_SIZE > len(chunk):
        raise DamagedLog(segment.file.path, position + at, f"{len(chunk) - at} bytes are not a whole header")
    base, length, magic, delta = BATCH_STEP.unpack_from(chunk, at)
    return base, length, magic, delta


def _read(segment: Segment, position: int, length: int, cached_only: bool) -> bytearray:
    if not cached_only:
        return segment.file.read(position, length)
    chunk = segment.file.read_cached(position, length)
    if chunk is None:
        raise WouldBlock
    return chunk


def _last_offset(chunk: bytearray) -> int:
    if len(chunk) < HEADER_SIZE:
        return -1
    base, _, _, delta = BATCH_STEP.unpack_from(chunk, 0)
    return int(base + delta)


def latest_from(segment: Segment, from_offset: int) -> int:
    """The largest timestamp of the records from `from_offset` on; -1 if there is none."""
    largest = segment.largest_timestamp()
    if from_offset <= segment.base_offset or find_timestamp(segment, largest, from_offset) is not None:
        return largest
    # The record with the largest timestamp is before `from_offset`: look at the remaining records.
    largest = -1
    for position, header in headers(segment.file, 0, segment.file.size, segment.damaged):
        if header.base_offset >= from_offset:
            largest = max(largest, header.max_timestamp)
        elif header.last_offset >= from_offset:
            columns = _columns(segment, position, header.size)
            times = zip(columns.offset, columns.timestamp, strict=True)
            largest = max(largest, *(time for offset, time in times if offset >= from_offset), -1)
    return largest


def find_timestamp(segment: Segment, timestamp: int, from_offset: int) -> TimestampOffset | None:
    """The first record, not before `from_offset`, whose timestamp is at least `timestamp`."""
    file = segment.file
    for position, header in headers(file, segment.find_time(timestamp), file.size, segment.damaged):
        if header.max_timestamp < timestamp or header.last_offset < from_offset:
            continue
        columns = _columns(segment, position, header.size)
        for offset, found in zip(columns.offset, columns.timestamp, strict=True):
            if found >= timestamp and offset >= from_offset:
                return TimestampOffset(found, offset, header.leader_epoch)
    return None


def _columns(segment: Segment, position: int, size: int) -> RecordColumns:
    """The records of one batch; DamagedLog if they cannot be decoded."""
    try:
        return walk(segment.file.read(position, size), 0)
    except BatchError as error:
        raise DamagedLog(segment.file.path, position, str(error)) from None
