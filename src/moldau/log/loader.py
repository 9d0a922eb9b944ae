"""What a directory holds, made into a log again; after a crash, what of it can be believed.

After a clean stop everything is as it was left. After any other, all from the recovery point on may be torn: those
segments are read batch by batch, cut at the first thing that is not a whole valid batch, and their indexes, epochs and
producer state made anew. Below the recovery point bytes were once safely on disk: damage there is the disk's, it is
reported and never served, but what stands behind it is not thrown away.

Nothing here runs on the loop. `recover` has the scan itself.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from posixpath import join

from moldau.host.fs import FileSystem
from moldau.log import names
from moldau.log.checkpoints import BadCheckpointError
from moldau.log.config import MAX_LONG, LogConfig
from moldau.log.epochs import LeaderEpochs
from moldau.log.errors import DamagedLog
from moldau.log.home import Home
from moldau.log.producer_state import BadSnapshotError, ProducerStates
from moldau.log.recover import recover_segment, set_segment_aside, write_anew
from moldau.log.scan import headers
from moldau.log.segment import Segment
from moldau.records import parse_marker

logger = logging.getLogger(__name__)

LARGE_RECOVERY = 256 * 1024 * 1024
"""Bytes to scan from which on recovery says what it is doing."""


@dataclass(slots=True)
class Loaded:
    """A log's content as found."""

    topic_id: bytes
    segments: list[Segment]
    unsealed: list[Segment]
    """Complete segments that were recovered: their indexes are in memory, and not on disk yet."""
    start_offset: int
    end_offset: int
    recovery_point: int
    epochs: LeaderEpochs
    producers: ProducerStates
    stray_snapshot: int | None


def load(
    directory: str,
    home: Home,
    config: LogConfig,
    now_ms: int,
    *,
    clean: bool,
    recovery_point: int,
    start_offset: int,
) -> Loaded:
    """Reads a partition's directory, recovering where the last stop was not clean. OSError where the disk fails."""
    fs = home.fs
    complete_swaps(fs, directory)
    segments = [Segment.open(fs, directory, base, None, home.index_cache) for base in _sweep(fs, directory)]
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
            segments[-1].largest_timestamp()  # the next batch is compared with it
        except DamagedLog as damage:
            # All of it was on disk once: what is wrong now the disk did, and nothing of it is a torn end.
            logger.error("%s, after a clean stop; the log is recovered", damage)
            clean, recovery_point = False, MAX_LONG
    if not clean and segments:
        begin = _first_to_recover(fs, segments, recovery_point)
        epochs.truncate_end(segments[begin].base_offset)
        producers = rebuild_producers(fs, directory, segments, start_offset, segments[begin].base_offset, {})
        if home.disk_failed_before:
            write_anew(fs, directory, segments[begin:])
        end_offset = _recover(segments, begin, config, recovery_point, epochs, producers, fs)
    if segments and end_offset < start_offset:
        logger.error(
            "%s ends at offset %d, before its start offset %d: its segments are set aside",
            directory, end_offset, start_offset,
        )  # fmt: skip
        _set_aside(fs, segments)
    if not segments:
        segments.append(Segment.create(fs, directory, start_offset, home.index_cache, now_ms))
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
    """The number of the segment that holds the recovery point.

    Where that is exactly the beginning of one, the segment before it may have been the active one when the recovery
    point was taken; only a snapshot at its end says that its indexes were written since.
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
    """Scans from segment `begin` on, cuts what is torn, sets aside what lies behind a cut; returns the log's end."""
    to_scan = sum(segment.file.size for segment in segments[begin:])
    if to_scan >= LARGE_RECOVERY:
        logger.info("recovering %s: %d MB from offset %d on", segments[begin], to_scan >> 20, recovery_point)
    expected = segments[begin].base_offset
    for number in range(begin, len(segments)):
        segment = segments[number]
        gap = expected < segment.base_offset and segment.base_offset > recovery_point
        if gap and _read_snapshot(fs, segment) is None:
            # Compaction leaves gaps, but only below a snapshot. Here a power loss took the end of one segment and
            # left the next.
            logger.error("offsets %d to %d are missing before %s", expected, segment.base_offset - 1, segment)
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
    """Removes what only an unfinished operation can have left; the base offsets of the segments that stay."""
    found = fs.listdir(directory)
    for name in found:
        if name.endswith((names.TEMPORARY, names.DELETED, names.CLEANED)):
            fs.remove(join(directory, name), missing_ok=True)
    bases = sorted(base for name in found if (base := names.base_offset_of(name, names.LOG)) is not None)
    known = set(bases)
    for name in found:
        for suffix in (names.INDEX, names.TIME_INDEX, names.TXN_INDEX):
            base = names.base_offset_of(name, suffix)
            if base is not None and base not in known:
                logger.warning("%s has an index but no log: %s is removed", directory, name)
                fs.remove(join(directory, name), missing_ok=True)
    return bases


def complete_swaps(fs: FileSystem, directory: str) -> None:
    """Finishes what a cleaner had begun: a `.swap` segment takes the place of all those whose offsets it covers.

    One at or behind a `.cleaned` file belongs to an operation that had not come that far, and goes.
    """
    found = fs.listdir(directory)
    swaps = [name for name in found if name.endswith(names.LOG + names.SWAP)]
    cleaned = [_base(name, names.CLEANED) for name in found if name.endswith(names.CLEANED)]
    for name in swaps:
        base = _base(name, names.SWAP)
        path = join(directory, name)
        if base >= min(cleaned, default=base + 1):
            logger.warning("%s belongs to an unfinished cleaning and is removed", path)
            fs.remove(path)
            continue
        last = _last_offset(fs, path, base)
        if last is None and fs.exists(path.removesuffix(names.SWAP)):
            fs.remove(path)  # damaged, and what it was to replace is still there
            continue
        last = base if last is None else last
        logger.info("%s takes the place of the segments from %d to %d", path, base, last)
        for other in found:
            covered = names.base_offset_of(other, names.LOG)
            if covered is not None and base <= covered <= last:
                for suffix in names.SEGMENT_SUFFIXES:
                    fs.remove(join(directory, names.segment_file(covered, suffix)), missing_ok=True)
        # The log last: as long as it has not its name, a crash here finds it again, and its indexes are not lost.
        for suffix in reversed(names.SEGMENT_SUFFIXES):
            final = join(directory, names.segment_file(base, suffix))
            if fs.exists(final + names.SWAP):
                fs.rename(final + names.SWAP, final)
    for name in fs.listdir(directory):
        if name.endswith(names.SWAP):
            fs.remove(join(directory, name))
    if swaps:
        fs.sync_dir(directory)


def _last_offset(fs: FileSystem, path: str, base: int) -> int | None:
    """The last offset in a segment file, `base` where it is empty, None where it is damaged."""
    file = fs.open(path)
    last = base
    try:
        for _, header in headers(file, 0, file.size):
            last = header.last_offset
    except DamagedLog as damage:
        logger.error("%s", damage)
        return None
    finally:
        file.close()
    return last


def _base(name: str, suffix: str) -> int:
    return int(name.removesuffix(suffix).partition(".")[0])


def load_topic_id(fs: FileSystem, directory: str) -> bytes:
    """As `partition.metadata` has it; sixteen zeros where it has none."""
    path = join(directory, names.PARTITION_METADATA)
    try:
        return names.decode_partition_metadata(fs.read_bytes(path))
    except FileNotFoundError:
        return names.NO_TOPIC_ID
    except ValueError as error:
        logger.error("%s cannot be read: %s", path, error)
        return names.NO_TOPIC_ID


# -- leader epochs ---------------------------------------------------------------------------------------------------


def _load_epochs(fs: FileSystem, directory: str) -> tuple[LeaderEpochs, bool]:
    """The checkpoint's content, and whether it can be relied upon; one that is missing is just empty."""
    path = join(directory, names.EPOCHS)
    try:
        return LeaderEpochs.decode(fs.read_bytes(path)), True
    except FileNotFoundError:
        return LeaderEpochs(), True
    except BadCheckpointError as error:
        logger.error("%s cannot be read (%s); it is made anew from the batches", path, error)
        return LeaderEpochs(), False


def _rebuild_epochs(segments: list[Segment], known: LeaderEpochs) -> LeaderEpochs:
    """Finds in the batches what the checkpoint does not say: all before its earliest entry.

    Its entries begin too late where the log's start has gone back, to what the last start offset checkpoint has.
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
        logger.error("%s; the epochs behind it are not known", damage)
    for epoch, start in known.entries():
        epochs.assign(epoch, start)
    epochs.dirty = True
    return epochs


# -- producer state --------------------------------------------------------------------------------------------------


def _read_snapshot(fs: FileSystem, segment: Segment) -> ProducerStates | None:
    """The snapshot at the beginning of a segment, if there is one that can be believed."""
    try:
        return ProducerStates.decode(fs.read_bytes(segment.path(names.SNAPSHOT)), segment.base_offset)
    except (FileNotFoundError, BadSnapshotError):
        return None


def list_snapshots(fs: FileSystem, directory: str) -> list[int]:
    """The offsets of the producer snapshots in a directory, in order."""
    return [
        offset for name in fs.listdir(directory) if (offset := names.base_offset_of(name, names.SNAPSHOT)) is not None
    ]


def rebuild_producers(
    fs: FileSystem,
    directory: str,
    segments: list[Segment],
    start_offset: int,
    end_offset: int,
    unwritten: Mapping[int, bytes],
) -> ProducerStates:
    """The state of all producers at `end_offset`: from the latest snapshot, and the batches since."""
    states = ProducerStates(start_offset)
    for offset in sorted({*list_snapshots(fs, directory), *unwritten}, reverse=True):
        if offset > end_offset:
            continue
        path = join(directory, names.segment_file(offset, names.SNAPSHOT))
        try:
            data = unwritten[offset] if offset in unwritten else fs.read_bytes(path)
            states = ProducerStates.decode(data, offset)
            break
        except (BadSnapshotError, FileNotFoundError) as error:
            logger.warning("%s is not usable (%s); an earlier one is taken", path, error)
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
                # A control batch without its record was emptied by a cleaner: it says nothing any more.
                says = header.is_control and header.count
                batch = segment.file.read(position, header.size) if says else None
                states.replay(header, None if batch is None else parse_marker(batch))
    except DamagedLog as damage:
        logger.error("%s; the state of producers is taken from what stands before", damage)


def _tidy_snapshots(fs: FileSystem, directory: str, segments: list[Segment], end_offset: int) -> int | None:
    """Removes snapshots that belong to no segment, save the one that a clean stop took, at `end_offset` at latest."""
    bases = {segment.base_offset for segment in segments}
    strays = [offset for offset in list_snapshots(fs, directory) if offset not in bases]
    kept = max((offset for offset in strays if offset <= end_offset), default=None)
    for offset in strays:
        if offset != kept:
            fs.remove(join(directory, names.segment_file(offset, names.SNAPSHOT)), missing_ok=True)
    return kept
