"""A cleaning as values: what the broker asks of the worker, and what it hears back. Small, and JSON on the way."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple


class Source(NamedTuple):
    """A segment to be cleaned."""

    base_offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Job:
    """One log's cleaning, from its first segment up to the one that must not be touched."""

    directory: str
    sources: list[Source]
    first_dirty_offset: int
    upper_offset: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    index_bytes: int
    index_interval_bytes: int
    aborted: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Aborted transactions that touch these segments and whose marker stands behind them."""
    producers: list[tuple[int, int, int]] = field(default_factory=list)
    """Active producers: id, epoch, and the last offset of the last batch of data (-1 where none is known)."""
    dedupe_bytes: int = 128 << 20
    load_factor: float = 0.9
    read_bytes: int = 512 << 10
    bytes_per_second: float = float("inf")


class Replacement(NamedTuple):
    """A cleaned segment, complete and on disk under its `.cleaned` names, and the sources that it stands for."""

    bases: list[int]
    size: int
    max_timestamp: int
    offset_of_max_timestamp: int
    index_entries: int
    time_entries: int


class Finished(NamedTuple):
    """The end of a job; all its replacements were reported before."""

    end_offset: int
    """The log is clean up to here; less than the job's upper offset where the keys did not fit the map."""
    keys: int
    bytes_read: int
    bytes_written: int
    bytes_left: int
    """What the segments up to there take now."""


class Failed(NamedTuple):
    """The job was given up. `lasting` where another try would fail the same way: the log is damaged."""

    reason: str
    lasting: bool


Report = Replacement | Finished | Failed

_KINDS: dict[str, type[Replacement] | type[Finished] | type[Failed]] = {
    "replacement": Replacement,
    "finished": Finished,
    "failed": Failed,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def encode_job(job: Job) -> bytes:
    return json.dumps(asdict(job), separators=(",", ":")).encode()


def decode_job(data: bytes) -> Job:
    fields: dict[str, Any] = json.loads(data)
    fields["sources"] = [Source(*one) for one in fields["sources"]]
    fields["aborted"] = [tuple(one) for one in fields["aborted"]]
    fields["producers"] = [tuple(one) for one in fields["producers"]]
    return Job(**fields)


def encode_report(report: Report) -> bytes:
    return json.dumps([_NAMES[type(report)], *report], separators=(",", ":")).encode()


def decode_report(data: bytes) -> Report:
    name, *fields = json.loads(data)
    return _KINDS[name](*fields)
