"""Cleaning jobs and their reports, as small values that are sent as JSON between broker and worker."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from moldau.wire.number_types import ProducerEpoch, ProducerId


class SourceSegment(NamedTuple):
    """A segment to clean."""

    base_offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Job:
    """The cleaning of one log, from its first segment up to the first one that must not be cleaned."""

    directory: str
    sources: list[SourceSegment]
    first_dirty_offset: int
    upper_offset: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    index_bytes: int
    index_interval_bytes: int
    aborted: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Aborted transactions that overlap these segments and whose marker is after them."""
    producers: list[tuple[ProducerId, ProducerEpoch, int]] = field(default_factory=list)
    """Active producers: id, epoch, and the last offset of the last data batch (-1 if none is known)."""
    dedupe_bytes: int = 128 << 20
    load_factor: float = 0.9
    read_bytes: int = 512 << 10
    bytes_per_second: float = float("inf")


class Replacement(NamedTuple):
    """A cleaned segment, complete and synced under its `.cleaned` names, and the segments that it replaces."""

    bases: list[int]
    size: int
    max_timestamp: int
    offset_of_max_timestamp: int
    index_entries: int
    time_entries: int


class Finished(NamedTuple):
    """The end of a job; all its replacements were reported before."""

    end_offset: int
    """The log is clean up to here. Less than the job's upper offset if the keys did not fit into the map."""
    keys: int
    bytes_read: int
    bytes_written: int
    bytes_left: int
    """The size of the segments up to there after the cleaning."""


class CleaningFailed(NamedTuple):
    """The job failed. `lasting` if a retry would fail the same way, because the log is damaged."""

    reason: str
    lasting: bool


Report = Replacement | Finished | CleaningFailed

_KINDS: dict[str, type[Replacement] | type[Finished] | type[CleaningFailed]] = {
    "replacement": Replacement,
    "finished": Finished,
    "failed": CleaningFailed,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def encode_job(job: Job) -> bytes:
    return json.dumps(asdict(job), separators=(",", ":")).encode()


def decode_job(data: bytes) -> Job:
    fields: dict[str, Any] = json.loads(data)
    fields["sources"] = [SourceSegment(*one) for one in fields["sources"]]
    fields["aborted"] = [tuple(one) for one in fields["aborted"]]
    fields["producers"] = [tuple(one) for one in fields["producers"]]
    return Job(**fields)


def encode_report(report: Report) -> bytes:
    return json.dumps([_NAMES[type(report)], *report], separators=(",", ":")).encode()


def decode_report(data: bytes) -> Report:
    name, *fields = json.loads(data)
    return _KINDS[name](*fields)
