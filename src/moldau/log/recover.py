"""The scan of one segment after a crash: what is whole, what is torn, what is damaged.

Torn is what a crash explains: it lies at or above the recovery point and is cut off. Damaged is what it does not: it
lies below, where everything had been synced. Damage is fenced in and skipped, if a valid batch follows; if none does,
the bytes from there on are copied aside before they are cut.
"""

from __future__ import annotations

import logging
from posixpath import basename

from moldau.host.fs import File, FileSystem
from moldau.log import names
from moldau.log.epochs import LeaderEpochs
from moldau.log.errors import DamagedLog
from moldau.log.index import SegmentIndex
from moldau.log.producer_state import ProducerStates
from moldau.log.scan import CHUNK, MAGIC, batches, header_at
from moldau.log.segment import MAX_RELATIVE_OFFSET, Segment
from moldau.records import HEADER_SIZE, BatchError, BatchHeader, Marker, crc_ok, parse_marker

logger = logging.getLogger(__name__)

MAX_RESYNC_BYTES = 16 * 1024 * 1024
"""How far behind damage a valid batch is looked for."""

_MAGIC_AT = 16


def recover_segment(
    segment: Segment,
    expected: int,
    following: int | None,
    recovery_point: int,
    index_interval: int,
    epochs: LeaderEpochs,
    producers: ProducerStates,
    fs: FileSystem,
) -> tuple[int, bool]:
    """Scans a segment whose first offset is at least `expected` and which ends before `following`.

    Returns where the log goes on, and whether something was cut off. Indexes, aborted transactions, epochs and
    producers are as if every batch had just been appended.
    """
    _forget_indexes(segment)
    file = segment.file
    position = 0
    while True:
        try:
            for batch in batches(file, position, file.size):
                _check_order(file.path, batch.position, batch.header, expected, segment.base_offset, following)
                _take(segment, batch.position, batch.header, batch.data, index_interval, epochs, producers)
                expected = batch.header.last_offset + 1
                position = batch.position + batch.header.size
            return expected, False
        except DamagedLog as damage:
            if expected < recovery_point:
                after = _resync(file, damage.position, expected)
                if after is not None:
                    position, expected = after
                    segment.damaged = (*segment.damaged, (damage.position, position))
                    logger.error("%s; below the recovery point, so the disk lost it: it is not served", damage)
                    continue
            _cut(segment, damage, expected, recovery_point, fs)
            return expected, True


def _forget_indexes(segment: Segment) -> None:
    segment.tail = SegmentIndex()
    segment.on_disk_entries = segment.on_disk_times = segment.since_entry = 0
    segment.last_time_entry = segment.max_timestamp = segment.offset_of_max_timestamp = -1
    segment.first_timestamp = -1
    segment.damaged = ()
    segment.forget_aborted()


def _check_order(
    path: str, position: int, header: BatchHeader, expected: int, base_offset: int, following: int | None
) -> None:
    if header.base_offset < expected:
        raise DamagedLog(path, position, f"offset {header.base_offset} where {expected} or a later one must stand")
    if header.last_offset - base_offset > MAX_RELATIVE_OFFSET:
        raise DamagedLog(path, position, f"offset {header.last_offset} is too far from the segment's")
    if following is not None and header.last_offset >= following:
        raise DamagedLog(path, position, f"offset {header.last_offset} belongs to the next segment")


def _take(
    segment: Segment,
    position: int,
    header: BatchHeader,
    data: memoryview,
    index_interval: int,
    epochs: LeaderEpochs,
    producers: ProducerStates,
) -> None:
    segment.account(position, header.size, header.last_offset, header.max_timestamp, index_interval)
    if header.leader_epoch > epochs.latest:
        epochs.assign(header.leader_epoch, header.base_offset)
    aborted = producers.replay(header, _marker(header, data))
    if aborted is not None:
        segment.add_aborted(aborted)


def _marker(header: BatchHeader, data: memoryview) -> Marker | None:
    if not header.is_control or not header.count:
        return None
    try:
        return parse_marker(data)
    except BatchError as error:
        logger.error("the control batch at offset %d says nothing: %s", header.base_offset, error)
        return None


# -- damage ----------------------------------------------------------------------------------------------------------


def _resync(file: File, position: int, expected: int) -> tuple[int, int] | None:
    """The (position, first offset) of the next valid batch behind damage at `position`, if there is one near."""
    data = file.read(position, MAX_RESYNC_BYTES)
    end = len(data)
    # Where the damaged batch's header still tells its length, the next one is there.
    try:
        header = header_at(file.path, data, 0, position, file.size)
        found = _valid_at(data, header.size, expected)
        if found is not None:
            return position + header.size, found.base_offset
    except DamagedLog:
        pass
    at = data.find(MAGIC, _MAGIC_AT + 1)
    while 0 <= at <= end - (HEADER_SIZE - _MAGIC_AT):
        found = _valid_at(data, at - _MAGIC_AT, expected)
        if found is not None:
            return position + at - _MAGIC_AT, found.base_offset
        at = data.find(MAGIC, at + 1)
    return None


def _valid_at(data: bytearray, at: int, expected: int) -> BatchHeader | None:
    try:
        header = header_at("", data, at, at, len(data))
    except DamagedLog:
        return None
    if not expected <= header.base_offset <= expected + MAX_RELATIVE_OFFSET or not crc_ok(data, at, header.size):
        return None
    return header


def _cut(segment: Segment, damage: DamagedLog, expected: int, recovery_point: int, fs: FileSystem) -> None:
    file = segment.file
    lost = file.size - damage.position
    if expected < recovery_point:
        aside = _copy_aside(file, damage.position, fs)
        logger.error(
            "%s; below the recovery point %d, and nothing valid follows: %d bytes are cut off, a copy is %s",
            damage, recovery_point, lost, aside,
        )  # fmt: skip
    else:
        logger.warning("%s; the last %d bytes are torn and are cut off, at offset %d", damage, lost, expected)
    file.truncate(damage.position)
    file.sync()


def _copy_aside(file: File, position: int, fs: FileSystem) -> str:
    path = f"{file.path}.{position}{names.ASIDE}"
    fs.remove(path, missing_ok=True)
    _copy(file, position, path, fs)
    return path


def _copy(file: File, position: int, path: str, fs: FileSystem) -> None:
    """All from `position` on, in another file, on disk."""
    copy = fs.create(path)
    while position < file.size:
        chunk = file.read(position, CHUNK)
        copy.append([chunk])
        position += len(chunk)
    copy.sync()
    copy.close()


def write_anew(fs: FileSystem, directory: str, segments: list[Segment]) -> None:
    """Brings segments to disk whose fsync may have failed.

    After a failed fsync the kernel takes the bytes for written: they can be read as long as the machine runs, no later
    fsync says that they are missing, and a power loss takes them. In a new file they are new to it.
    """
    for segment in segments:
        file = segment.file
        path = file.path + names.TEMPORARY
        _copy(file, 0, path, fs)
        file.close()
        fs.rename(path, file.path)
    fs.sync_dir(directory)


def set_segment_aside(fs: FileSystem, segment: Segment) -> None:
    """Takes a segment out of its log without losing it: its file is renamed, unless there is nothing in it."""
    path = segment.file.path
    if segment.file.size:
        logger.error(
            "%s (%d bytes) lies behind a cut and is taken out of the log; it is kept as %s",
            path, segment.file.size, basename(path) + names.ASIDE,
        )  # fmt: skip
        segment.file.close()
        fs.rename(path, path + names.ASIDE)
    else:
        segment.file.remove()
    for suffix in (names.INDEX, names.TIME_INDEX, names.TXN_INDEX, names.SNAPSHOT):
        fs.remove(segment.path(suffix), missing_ok=True)
