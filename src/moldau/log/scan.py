"""Sequential scans over the batches of a segment file.

`headers` reads headers only, for lookups. `batches` also verifies checksums, for recovery and `verify`. Both raise
DamagedLog at the first bytes that cannot be a batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, NewType

from moldau.host.fs import File
from moldau.log.errors import DamagedLog
from moldau.records import HEADER_SIZE, BatchHeader, CorruptBatch, crc_ok, peek_header
from moldau.records.batch_layout import MAGIC

CHUNK = 256 * 1024
"""Bytes per read; a larger batch is read on its own."""


FilePosition = NewType("FilePosition", int)
"""A byte of a segment's file where a batch starts or ends. mypy keeps it apart from offsets: most functions that take a
position also take an offset, and a swap of the two would read or truncate at the wrong place."""
START_OF_FILE: Final = FilePosition(0)


class ScannedBatch(NamedTuple):
    """One batch of a scan: its position, header and bytes."""

    position: int
    header: BatchHeader
    data: memoryview


def headers(
    file: File, position: int, end: int, fenced: Sequence[tuple[int, int]] = ()
) -> Iterator[tuple[FilePosition, BatchHeader]]:
    """The (position, header) of each batch from `position` to `end`, without verifying checksums.

    Ranges in `fenced` are known to be damaged and are skipped.
    """
    chunk = bytearray()
    chunk_at = position
    while position < end:
        for first, last in fenced:
            if first <= position < last:
                position = last
        if position >= end:
            return
        if position + HEADER_SIZE > chunk_at + len(chunk):
            chunk_at = position
            chunk = file.read(position, min(CHUNK, end - position))
        header = header_at(file.path, chunk, position - chunk_at, position, end)
        yield FilePosition(position), header
        position += header.size


def batches(file: File, position: int, end: int) -> Iterator[ScannedBatch]:
    """Each batch from `position` to `end`, with its checksum verified."""
    chunk = bytearray()
    chunk_at = position
    while position < end:
        if position + HEADER_SIZE > chunk_at + len(chunk):
            chunk_at, chunk = position, file.read(position, min(CHUNK, end - position))
        header = header_at(file.path, chunk, position - chunk_at, position, end)
        if position + header.size > chunk_at + len(chunk):
            chunk_at, chunk = position, file.read(position, max(header.size, min(CHUNK, end - position)))
        at = position - chunk_at
        if not crc_ok(chunk, at, header.size):
            raise DamagedLog(file.path, position, f"the checksum of the batch at offset {header.base_offset} is wrong")
        yield ScannedBatch(position, header, memoryview(chunk)[at : at + header.size])
        position += header.size


def first_damage(file: File, base_offset: int) -> DamagedLog | None:
    """The first error in a segment that starts at `base_offset`: a checksum, a header, or the order of offsets."""
    expected = base_offset
    try:
        for batch in batches(file, 0, file.size):
            if batch.header.base_offset < expected:
                raise DamagedLog(file.path, batch.position, f"offset {batch.header.base_offset} after {expected - 1}")
            expected = batch.header.last_offset + 1
    except DamagedLog as damage:
        return damage
    return None


def header_at(path: str, chunk: bytearray, at: int, position: int, end: int) -> BatchHeader:
    """The header at `chunk[at:]`, which is byte `position` of the file; DamagedLog unless a batch can be there."""
    try:
        header = peek_header(chunk, at)
    except CorruptBatch as error:
        raise DamagedLog(path, position, str(error)) from None
    if header.magic != MAGIC:
        raise DamagedLog(path, position, f"message format {header.magic}")
    if header.size > end - position:
        raise DamagedLog(path, position, f"a batch of {header.size} bytes where {end - position} are left")
    if header.base_offset < 0 or header.last_offset_delta < 0:
        raise DamagedLog(path, position, f"offsets {header.base_offset} to {header.last_offset}")
    return header
