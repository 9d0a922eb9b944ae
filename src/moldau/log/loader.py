"""Loading a log from its directory, with recovery after an unclean shutdown.

After a clean shutdown the files are taken as they are. After any other shutdown, everything from the recovery point on
may be torn: those segments are read batch by batch and truncated at the first invalid batch, and their indexes, epochs
and producer state are rebuilt. Bytes below the recovery point were durable once, so damage there is a disk error: it is
reported and never served, but the valid batches after it are kept.

Nothing here runs on the event loop. The scan of a segment is in `recover`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from posixpath import join

from moldau.host.event_log import event_logger
from moldau.host.fs import FileSystem
from moldau.log import file_names
from moldau.log.checkpoints import BadCheckpointError
from moldau.log.config import MAX_LONG, LogConfig
from moldau.log.directory import LogDirectory
from moldau.log.epochs import LeaderEpochs
from moldau.log.errors import DamagedLog
from moldau.log.producer_state import BadSnapshotError, ProducerStates
from moldau.log.recovery import recover_segment, rewrite_segments, set_segment_aside
from moldau.log.scan import headers
from moldau.log.segment import Segment
from moldau.records import parse_marker

logger = event_logger(__name__)

LARGE_RECOVERY = 256 * 1024 * 1024
"""Number of bytes to scan from which recovery logs its progress."""


@dataclass(slots=True)
class Loaded:
    """The content of a log as found on disk."""

    topic_id: bytes
    segments: list[Segment]
    unsealed: list[Segment]
    """Complete segments that were recovered: their indexes are in memory and not on disk yet."""
    start_offset: int
    end_offset: int
    recovery_point: int
    epochs: LeaderEpochs
    producers: ProducerStates
    stray_snapshot: int | None


def load(
    directory: str,
    data_dir: LogDirectory,
    config: LogConfig,
    now_ms: int,
    *,
    clean: bool,
    recovery_point: int,
    start_offset: int,
) -> Loaded:
    """Read a partition's directory, with recovery if the last shutdown was not clean. OSError if the disk fails."""
    fs = data_dir.fs
    complete_swaps(fs, directory)
    segments = [Segment.open(fs, directory, base, None, data_dir.index_cache) for base in _sweep(fs, directory)]
    for segment in segments:
        segment.count_entries_on_disk()
        segment.created_ms = now_ms
    epochs, epochs_whole = _load_epochs(fs, directory)
    producers: ProducerStates | None = None
    end_offset, begin = start_offset, len(segments)
    if clean and segments:
        try:
            last = segments[-1].last_header()
            end_offset = segments[-1].base_offset if last is None else last.last_offset + 1
            segments[-1].largest_timestamp()  # the next append compares with it
        except DamagedLog as damage:
            # Everything was durable at the clean shutdown, so this is a disk error and not a torn end.
            logger.error("damaged log although the last shutdown was clean, recovering it", extra=damage.facts)
            clean, recovery_point = False, MAX_LONG
    if not clean and segments:
        begin = _first_to_recover(fs, segments, recovery_point)
        epochs.truncate_end(segments[begin].base_offset)
        producers = rebuild_producers(fs, directory, segments, start_offset, segments[begin].base_offset, {})
        if data_dir.disk_failed_before:
            rewrite_segments(fs, directory, segments[begin:])
        end_offset = _recover(segments, begin, config, recovery_point, epochs, producers, fs)
    if segments and end_offset < start_offset:
        logger.error(
            "log ends before its start offset, its segments are set aside",
            extra={"directory": directory, "end_offset": end_offset, "start_offset": start_offset},
        )
        _set_aside(fs, segments)
    if not segments:
        segments.append(Segment.create(fs, directory, start_offset, data_dir.index_cache, now_ms))
        end_offset, producers = start_offset, ProducerStates(start_offset)
    start_offset = max(start_offset, segments[0].base_offset)
    if not epochs_whole or start_offset < epochs.earliest_start < end_offset:
        epochs = _rebuild_epochs(segments, epochs)
    epochs.truncate_end(end_offset)
    epochs.truncate_start(start_offset)
    if producers is None:
        producers = rebuild_producers(fs, directory, segments, start_offset, end_offset, {})
    return Loaded(
        load_topic_id(fs, directory),
        segments,
        segments[begin:-1],
        start_offset,
        end_offset,
        end_offset if clean else min(recovery_point, end_offset),
        epochs,
        producers,
        _tidy_snapshots(fs, directory, segments, end_offset if clean else -1),
    )


def _first_to_recover(fs: FileSystem, segments: list[Segment], recovery_point: int) -> int:
    """The index of the segment that contains the recovery point.

    If the recovery point is exactly the base offset of a segment, the segment before it may have been active when the
    recovery point was saved. Only a snapshot at its end proves that its indexes were written since.
    """
    begin = max((number for number, one in enumerate(segments) if one.base_offset <= recovery_point), default=0)
    at_beginning = begin > 0 and segments[begin].base_offset == recovery_point
    return begin - 1 if at_beginning and _read_snapshot(fs, segments[begin]) is None else begin


def _recover(
    segments: list[Segment],
    begin: int,
    config: LogConfig,
    recovery_point: int,
    epochs: LeaderEpochs,
    producers: ProducerStates,
    fs: FileSystem,
) -> int:
    """Scan from segment `begin` on, truncate torn bytes, set later segments aside; return the log end offset."""
    to_scan = sum(segment.file.size for segment in segments[begin:])
    if to_scan >= LARGE_RECOVERY:
        logger.info(
            "recovering a log",
            extra={"path": segments[begin].file.path, "megabytes": to_scan >> 20, "recovery_point": recovery_point},
        )
    expected = segments[begin].base_offset
    for number in range(begin, len(segments)):
        segment = segments[number]
        gap = expected < segment.base_offset and segment.base_offset > recovery_point
        if gap and _read_snapshot(fs, segment) is None:
            # Compaction leaves gaps, but only before a segment with a snapshot. Here a power loss took the end of one
            # segment and left the next segment.
            logger.error(
                "offsets are missing before a segment",
                extra={"path": segment.file.path, "first": expected, "last": segment.base_offset - 1},
            )
            _set_aside(fs, segments, keep=number)
            break
        following = segments[number + 1].base_offset if number + 1 < len(segments) else None
        expected = max(expected, segment.base_offset)
        expected, cut = recover_segment(
            segment, expected, following, recovery_point, config.index_interval_bytes, epochs, producers, fs
        )
        if cut:
            _set_aside(fs, segments, keep=number + 1)
            break
    return expected


def _set_aside(fs: FileSystem, segments: list[Segment], keep: int = 0) -> None:
    for segment in segments[keep:]:
        set_segment_aside(fs, segment)
    del segments[keep:]


# -- files -----------------------------------------------------------------------------------------------------------


def _sweep(fs: FileSystem, directory: str) -> list[int]:
    """Remove the files of unfinished operations; return the base offsets of the remaining segments."""
    found = fs.listdir(directory)
    for name in found:
        if name.endswith((file_names.TEMPORARY, file_names.DELETED, file_names.CLEANED)):
            fs.remove(join(directory, name), missing_ok=True)
    bases = sorted(base for name in found if (base := file_names.base_offset_of(name, file_names.LOG)) is not None)
    known = set(bases)
    for name in found:
        for suffix in (file_names.INDEX, file_names.TIME_INDEX, file_names.TXN_INDEX):
            base = file_names.base_offset_of(name, suffix)
            if base is not None and base not in known:
                logger.warning("index without a log is removed", extra={"path": join(directory, name)})
                fs.remove(join(directory, name), missing_ok=True)
    return bases


def complete_swaps(fs: FileSystem, directory: str) -> None:
    """Complete the swaps of the cleaner: a `.swap` segment replaces all segments whose offsets it covers.

    A `.swap` file at or after a `.cleaned` file belongs to a cleaning that had not decided yet; it is removed.
    """
    found = fs.listdir(directory)
    swaps = [name for name in found if name.endswith(file_names.LOG + file_names.SWAP)]
    cleaned = [_base(name, file_names.CLEANED) for name in found if name.endswith(file_names.CLEANED)]
    for name in swaps:
        base = _base(name, file_names.SWAP)
        path = join(directory, name)
        if base >= min(cleaned, default=base + 1):
            logger.warning("file of an unfinished cleaning is removed", extra={"path": path})
            fs.remove(path)
            continue
        last = _last_offset(fs, path, base)
        if last is None and fs.exists(path.removesuffix(file_names.SWAP)):
            fs.remove(path)  # damaged, and the segments that it should replace still exist
            continue
        last = base if last is None else last
        logger.info("cleaned segment replaces older ones", extra={"path": path, "first": base, "last": last})
        for other in found:
            covered = file_names.base_offset_of(other, file_names.LOG)
            if covered is not None and base <= covered <= last:
                for suffix in file_names.SEGMENT_SUFFIXES:
                    fs.remove(join(directory, file_names.segment_file(covered, suffix)), missing_ok=True)
        # Rename the log file last: until it has its final name, another crash makes the next start repeat all this.
        for suffix in reversed(file_names.SEGMENT_SUFFIXES):
            final = join(directory, file_names.segment_file(base, suffix))
            if fs.exists(final + file_names.SWAP):
                fs.rename(final + file_names.SWAP, final)
    for name in fs.listdir(directory):
        if name.endswith(file_names.SWAP):
            fs.remove(join(directory, name))
    if swaps:
        fs.sync_dir(directory)


def _last_offset(fs: FileSystem, path: str, base: int) -> int | None:
    """The last offset in a segment file, `base` if it is empty, None if it is damaged."""
    file = fs.open(path)
    last = base
    try:
        for _, header in headers(file, 0, file.size):
            last = header.last_offset
    except DamagedLog as damage:
        logger.error("damaged cleaned segment", extra=damage.facts)
        return None
    finally:
        file.close()
    return last


def _base(name: str, suffix: str) -> int:
    return int(name.removesuffix(suffix).partition(".")[0])


def load_topic_id(fs: FileSystem, directory: str) -> bytes:
    """The topic id in `partition.metadata`; sixteen zeros if there is none."""
    path = join(directory, file_names.PARTITION_METADATA)
    try:
        return file_names.decode_partition_metadata(fs.read_bytes(path))
    except FileNotFoundError:
        return file_names.NO_TOPIC_ID
    except ValueError as error:
        logger.error("topic id cannot be read", extra={"path": path, "reason": str(error)})
        return file_names.NO_TOPIC_ID


# -- leader epochs ---------------------------------------------------------------------------------------------------


def _load_epochs(fs: FileSystem, directory: str) -> tuple[LeaderEpochs, bool]:
    """The content of the checkpoint, and whether it is reliable; a missing file counts as empty."""
    path = join(directory, file_names.EPOCHS)
    try:
        return LeaderEpochs.decode(fs.read_bytes(path)), True
    except FileNotFoundError:
        return LeaderEpochs(), True
    except BadCheckpointError as error:
        logger.error(
            "leader epochs cannot be read, rebuilding them from the batches", extra={"path": path, "reason": str(error)}
        )
        return LeaderEpochs(), False


def _rebuild_epochs(segments: list[Segment], known: LeaderEpochs) -> LeaderEpochs:
    """Find the epochs before the first entry of the checkpoint in the batches.

    The first entry is too late if the log start offset has gone back to that of the last start offset checkpoint.
    """
    epochs = LeaderEpochs()
    try:
        for segment in segments:
            for _, header in headers(segment.file, 0, segment.file.size, segment.damaged):
                if known.entries() and header.base_offset >= known.earliest_start:
                    break
                if header.leader_epoch > epochs.latest:
                    epochs.assign(header.leader_epoch, header.base_offset)
    except DamagedLog as damage:
        logger.error("damaged log, its later leader epochs are not known", extra=damage.facts)
    for epoch, start in known.entries():
        epochs.assign(epoch, start)
    epochs.dirty = True
    return epochs


# -- producer state --------------------------------------------------------------------------------------------------


def _read_snapshot(fs: FileSystem, segment: Segment) -> ProducerStates | None:
    """The snapshot at the base offset of a segment, if it exists and is valid."""
    try:
        return ProducerStates.decode(fs.read_bytes(segment.path(file_names.SNAPSHOT)), segment.base_offset)
    except (FileNotFoundError, BadSnapshotError):
        return None


def list_snapshots(fs: FileSystem, directory: str) -> list[int]:
    """The offsets of the producer snapshots in a directory, in order."""
    return [
        offset
        for name in fs.listdir(directory)
        if (offset := file_names.base_offset_of(name, file_names.SNAPSHOT)) is not None
    ]


def rebuild_producers(
    fs: FileSystem,
    directory: str,
    segments: list[Segment],
    start_offset: int,
    end_offset: int,
    unwritten: Mapping[int, bytes],
) -> ProducerStates:
    """The state of all producers at `end_offset`: from the latest snapshot and the batches after it."""
    states = ProducerStates(start_offset)
    for offset in sorted({*list_snapshots(fs, directory), *unwritten}, reverse=True):
        if offset > end_offset:
            continue
        path = join(directory, file_names.segment_file(offset, file_names.SNAPSHOT))
        try:
            data = unwritten[offset] if offset in unwritten else fs.read_bytes(path)
            states = ProducerStates.decode(data, offset)
            break
        except (BadSnapshotError, FileNotFoundError) as error:
            logger.warning(
                "producer snapshot is not usable, trying an earlier one", extra={"path": path, "reason": str(error)}
            )
            fs.remove(path, missing_ok=True)
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else end_offset
        if following > states.end_offset and segment.base_offset < end_offset:
            _replay(segment, states, end_offset)
    states.end_offset = end_offset
    return states


def _replay(segment: Segment, states: ProducerStates, end_offset: int) -> None:
    found = segment.find(states.end_offset)
    try:
        for position, header in headers(
            segment.file, 0 if found is None else found[1], segment.file.size, segment.damaged
        ):
            if header.base_offset >= end_offset:
                return
            if header.base_offset >= states.end_offset:
                # The cleaner may have removed the record of a control batch; then there is no marker to apply.
                says = header.is_control and header.count
                batch = segment.file.read(position, header.size) if says else None
                states.replay(header, None if batch is None else parse_marker(batch))
    except DamagedLog as damage:
        logger.error("damaged log, producer state includes only the batches before it", extra=damage.facts)


def _tidy_snapshots(fs: FileSystem, directory: str, segments: list[Segment], end_offset: int) -> int | None:
    """Remove snapshots that belong to no segment, except the latest one up to `end_offset`, of a clean shutdown."""
    bases = {segment.base_offset for segment in segments}
    strays = [offset for offset in list_snapshots(fs, directory) if offset not in bases]
    kept = max((offset for offset in strays if offset <= end_offset), default=None)
    for offset in strays:
        if offset != kept:
            fs.remove(join(directory, file_names.segment_file(offset, file_names.SNAPSHOT)), missing_ok=True)
    return kept
