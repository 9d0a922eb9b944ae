"""Recovery scan of one segment after a crash: keeps valid batches, truncates torn ones, fences damage.

Torn bytes are at or above the recovery point; a crash explains them, and they are truncated. Damaged bytes are below
the recovery point, where everything had been synced. If a valid batch follows, the damaged range is fenced and skipped.
Otherwise the bytes from the damage on are copied aside before they are truncated.
"""

from __future__ import annotations

from posixpath import basename

from moldau.host.event_log import event_logger
from moldau.host.fs import File, FileSystem
from moldau.log import file_names
from moldau.log.epochs import LeaderEpochs
from moldau.log.errors import DamagedLog
from moldau.log.index import SegmentIndex
from moldau.log.producer_state import ProducerStates
from moldau.log.scan import CHUNK, batches, header_at
from moldau.log.segment import MAX_RELATIVE_OFFSET, Segment
from moldau.records import HEADER_SIZE, BatchError, BatchHeader, Marker, crc_ok, parse_marker
from moldau.records.batch_layout import MAGIC, MAGIC_AT

logger = event_logger(__name__)

MAX_RESYNC_BYTES = 16 * 1024 * 1024
"""Limit of the search for a valid batch after damage."""


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
    """Scan a segment whose first offset is at least `expected` and which ends before `following`.

    Return the log end offset after it, and whether bytes were truncated. Indexes, aborted transactions, epochs and
    producers are updated as if every batch had just been appended.
    """
    _clear_indexes(segment)
    file = segment.file
    position = 0
    while True:
        try:
            for batch in batches(file, position, file.size):
                _check_order(file.path, batch.position, batch.header, expected, segment.base_offset, following)
                _apply_batch(segment, batch.position, batch.header, batch.data, index_interval, epochs, producers)
                expected = batch.header.last_offset + 1
                position = batch.position + batch.header.size
            return expected, False
        except DamagedLog as damage:
            if expected < recovery_point:
                after = _resync(file, damage.position, expected)
                if after is not None:
                    position, expected = after
                    segment.damaged = (*segment.damaged, (damage.position, position))
                    logger.error(
                        "damaged log below the recovery point, the damaged part is not served", extra=damage.facts
                    )
                    continue
            _truncate(segment, damage, expected, recovery_point, fs)
            return expected, True


def _clear_indexes(segment: Segment) -> None:
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
        raise DamagedLog(path, position, f"offset {header.base_offset} where at least {expected} was expected")
    if header.last_offset - base_offset > MAX_RELATIVE_OFFSET:
        raise DamagedLog(path, position, f"offset {header.last_offset} is too far from base offset {base_offset}")
    if following is not None and header.last_offset >= following:
        raise DamagedLog(path, position, f"offset {header.last_offset} belongs to the next segment")


def _apply_batch(
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
        logger.error("control batch is ignored", extra={"offset": header.base_offset, "reason": str(error)})
        return None


# -- damage ----------------------------------------------------------------------------------------------------------


def _resync(file: File, position: int, expected: int) -> tuple[int, int] | None:
    """The (position, first offset) of the next valid batch after damage at `position`, within the search limit."""
    data = file.read(position, MAX_RESYNC_BYTES)
    end = len(data)
    # If the header of the damaged batch still has the right length, the next batch starts after it.
    try:
        header = header_at(file.path, data, 0, position, file.size)
        found = _valid_at(data, header.size, expected)
        if found is not None:
            return position + header.size, found.base_offset
    except DamagedLog:
        pass
    at = data.find(MAGIC, MAGIC_AT + 1)
    while 0 <= at <= end - (HEADER_SIZE - MAGIC_AT):
        found = _valid_at(data, at - MAGIC_AT, expected)
        if found is not None:
            return position + at - MAGIC_AT, found.base_offset
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


def _truncate(segment: Segment, damage: DamagedLog, expected: int, recovery_point: int, fs: FileSystem) -> None:
    file = segment.file
    lost = file.size - damage.position
    if expected < recovery_point:
        aside = _copy_aside(file, damage.position, fs)
        logger.error(
            "damaged log below the recovery point, and nothing valid follows: truncated after making a copy",
            extra={**damage.facts, "recovery_point": recovery_point, "bytes": lost, "copy": aside},
        )
    else:
        logger.warning("torn end of a log is truncated", extra={**damage.facts, "bytes": lost, "offset": expected})
    file.truncate(damage.position)
    file.sync()


def _copy_aside(file: File, position: int, fs: FileSystem) -> str:
    path = f"{file.path}.{position}{file_names.ASIDE}"
    fs.remove(path, missing_ok=True)
    _copy(file, position, path, fs)
    return path


def _copy(file: File, position: int, path: str, fs: FileSystem) -> None:
    """Copy everything from `position` on to another file, and sync it."""
    copy = fs.create(path)
    while position < file.size:
        chunk = file.read(position, CHUNK)
        copy.append([chunk])
        position += len(chunk)
    copy.sync()
    copy.close()


def rewrite_segments(fs: FileSystem, directory: str, segments: list[Segment]) -> None:
    """Make segments durable whose fsync may have failed, by copying them into new files.

    After a failed fsync the kernel considers the bytes written: they can be read while the machine runs, a later
    fsync succeeds without writing them, and a power loss loses them. In a new file they are written again.
    """
    for segment in segments:
        file = segment.file
        path = file.path + file_names.TEMPORARY
        _copy(file, 0, path, fs)
        file.close()
        fs.rename(path, file.path)
    fs.sync_dir(directory)


def set_segment_aside(fs: FileSystem, segment: Segment) -> None:
    """Remove a segment from its log but keep its bytes: the file is renamed, unless it is empty."""
    path = segment.file.path
    if segment.file.size:
        logger.error(
            "segment after a truncated one is removed from the log",
            extra={"path": path, "bytes": segment.file.size, "kept_as": basename(path) + file_names.ASIDE},
        )
        segment.file.close()
        fs.rename(path, path + file_names.ASIDE)
    else:
        segment.file.remove()
    for suffix in (file_names.INDEX, file_names.TIME_INDEX, file_names.TXN_INDEX, file_names.SNAPSHOT):
        fs.remove(segment.path(suffix), missing_ok=True)
