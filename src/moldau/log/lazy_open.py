"""Reopening of logs after a clean shutdown: builds segments from the saved state and checks it against the disk."""

from __future__ import annotations

import errno
from posixpath import join

from moldau.host.fs import FileChanged
from moldau.log import file_names
from moldau.log.checkpoints import LogState, SegmentState
from moldau.log.directory import LogDirectory
from moldau.log.producer_state import ProducerStates
from moldau.log.segment import Segment


def segment_state(segment: Segment) -> SegmentState:
    return SegmentState(
        segment.base_offset,
        segment.file.size,
        segment.max_timestamp,
        segment.offset_of_max_timestamp,
        segment.on_disk_entries,
        segment.on_disk_times,
    )


def reopen(state: LogState, directory: str, data_dir: LogDirectory) -> tuple[list[Segment], ProducerStates]:
    """The segments and producers of a log; OSError or ValueError if the files differ from the saved state.

    The size of the last segment is checked now, the sizes of the others on their first read.
    """
    segments = [reopen_segment(one, directory, data_dir) for one in state.segments]
    active = segments[-1]
    active.first_timestamp = state.age_from
    found = data_dir.fs.size(active.file.path)
    if found != active.file.size:
        raise FileChanged(errno.EIO, f"has {found} bytes instead of {active.file.size}", active.file.path)
    by_base = {segment.base_offset: segment for segment in segments}
    for base, first, last in state.damaged:
        by_base[base].damaged = (*by_base[base].damaged, (first, last))
    if not state.producers:
        return segments, ProducerStates(state.end_offset)
    path = join(directory, file_names.segment_file(state.end_offset, file_names.SNAPSHOT))
    return segments, ProducerStates.decode(data_dir.fs.read_bytes(path), state.end_offset)


def reopen_segment(state: SegmentState, directory: str, data_dir: LogDirectory) -> Segment:
    """Open a segment from its saved state, without accessing the disk."""
    segment = Segment.open(data_dir.fs, directory, state.base_offset, state.size, data_dir.index_cache)
    segment.max_timestamp = segment.last_time_entry = state.max_timestamp
    segment.offset_of_max_timestamp = state.offset_of_max_timestamp
    segment.on_disk_entries = state.index_entries
    segment.on_disk_times = state.time_entries
    return segment
