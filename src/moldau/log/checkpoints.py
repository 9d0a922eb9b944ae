"""The small text files of a data directory: offset checkpoints, `meta.properties`, the mark of a clean stop. Pure.

Everything here turns values into the bytes of a file and back; who reads and writes the files is `dirs`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from moldau.log.names import PartitionName, parse_uuid, uuid_text

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANED = "cleaner-offset-checkpoint"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
CLEAN_STATE = "moldau-clean-state"
BOOT_ID = "moldau-boot-id"
DISK_FAILED = "moldau-disk-failed"
LOCK = ".lock"

_VERSION = "0"
_CLEAN_STATE_VERSION = 1


class BadCheckpointError(ValueError):
    """A checkpoint file that does not say what one of its kind says."""


# -- offset checkpoints --------------------------------------------------------------------------------------------


def encode_lines(lines: Iterable[str]) -> bytes:
    """Version, count, then the lines: the form that all of Kafka's checkpoints have."""
    entries = list(lines)
    return "\n".join([_VERSION, str(len(entries)), *entries, ""]).encode()


def decode_lines(data: bytes, fields: int) -> list[list[str]]:
    """The fields of each line; BadCheckpointError where version, count or a line is wrong."""
    lines = data.decode("utf-8", "replace").split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    if not lines:
        raise BadCheckpointError("it is empty")
    if lines[0].strip() != _VERSION:
        raise BadCheckpointError(f"it has version {lines[0]!r}; {_VERSION} is known")
    entries = [line.split() for line in lines[2:]]
    if len(lines) < 2 or not lines[1].strip().isdigit() or int(lines[1]) != len(entries):
        raise BadCheckpointError(f"it has {len(entries)} entries where it says {lines[1:2]}")
    for entry in entries:
        if len(entry) != fields:
            raise BadCheckpointError(f"malformed line {' '.join(entry)!r}")
    return entries


def encode_offsets(offsets: Mapping[PartitionName, int]) -> bytes:
    return encode_lines(f"{name.topic} {name.partition} {offset}" for name, offset in offsets.items())


def decode_offsets(data: bytes) -> dict[PartitionName, int]:
    """BadCheckpointError where it is no offset checkpoint."""
    offsets: dict[PartitionName, int] = {}
    for topic, partition, offset in decode_lines(data, 3):
        try:
            offsets[PartitionName(topic, int(partition))] = int(offset)
        except ValueError as error:
            raise BadCheckpointError(f"malformed line {topic} {partition} {offset}") from error
    return offsets


# -- meta.properties -----------------------------------------------------------------------------------------------


class MetaProperties(NamedTuple):
    """Whose directory it is."""

    cluster_id: str | None
    node_id: int | None
    directory_id: bytes | None


def encode_meta_properties(meta: MetaProperties) -> bytes:
    lines = ["#", "version=1"]
    if meta.cluster_id is not None:
        lines.append(f"cluster.id={meta.cluster_id}")
    if meta.node_id is not None:
        lines.append(f"node.id={meta.node_id}")
    if meta.directory_id is not None:
        lines.append(f"directory.id={uuid_text(meta.directory_id)}")
    return ("\n".join(lines) + "\n").encode()


def decode_meta_properties(data: bytes) -> MetaProperties:
    """Of version 1, or of version 0 (`broker.id`); BadCheckpointError where a value is not what it must be."""
    fields: dict[str, str] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.lstrip().startswith(("#", "!")):
            fields[name.strip()] = value.strip().replace("\\", "")
    try:
        node = fields.get("node.id", fields.get("broker.id"))
        directory = fields.get("directory.id")
        return MetaProperties(
            fields.get("cluster.id") or None,
            int(node) if node else None,
            parse_uuid(directory) if directory else None,
        )
    except ValueError as error:
        raise BadCheckpointError(str(error)) from error


# -- the mark of a clean stop --------------------------------------------------------------------------------------


def encode_clean_shutdown(broker_epoch: int = -1) -> bytes:
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


class SegmentState(NamedTuple):
    """What a clean stop remembers of a segment."""

    base_offset: int
    size: int
    max_timestamp: int
    offset_of_max_timestamp: int
    index_entries: int
    time_entries: int


class LogState(NamedTuple):
    """What a clean stop remembers of a log: enough to open no file at the next start."""

    name: PartitionName
    topic_id: bytes
    start_offset: int
    end_offset: int
    last_stable_offset: int
    producers: int
    """How many producers the snapshot at the end offset holds."""
    age_from: int
    """The timestamp from which the active segment's age counts."""
    segments: list[SegmentState]
    epochs: list[tuple[int, int]]
    damaged: list[tuple[int, int, int]]
    """Ranges (segment, from, to) that recovery found broken."""


def encode_clean_state(states: Iterable[LogState]) -> bytes:
    """One line of JSON a log, under a first line with version, count and the checksum of the others."""
    lines = [
        json.dumps([*state.name, uuid_text(state.topic_id), *state[2:]], separators=(",", ":")).encode()
        for state in states
    ]
    body = b"\n".join(lines)
    head = {"version": _CLEAN_STATE_VERSION, "count": len(lines), "crc32": zlib.crc32(body)}
    return json.dumps(head).encode() + b"\n" + body


def decode_clean_state(data: bytes) -> list[LogState]:
    """BadCheckpointError where anything is not as `encode_clean_state` leaves it."""
    head, _, body = data.partition(b"\n")
    try:
        about: dict[str, Any] = json.loads(head)
        if about["version"] != _CLEAN_STATE_VERSION or about["crc32"] != zlib.crc32(body):
            raise BadCheckpointError("another version, or a wrong checksum")
        # All lines as one document: the parser's loop is in C, a loop over lines would not be.
        rows = json.loads(b"[" + body.replace(b"\n", b",") + b"]")
        if len(rows) != about["count"]:
            raise BadCheckpointError(f"{len(rows)} logs where it says {about['count']}")
        return [_log_state(row) for row in rows]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise BadCheckpointError(f"it cannot be read: {error}") from error


def _log_state(row: list[Any]) -> LogState:
    topic, partition, topic_id, start, end, stable, producers, age_from, segments, epochs, damaged = row
    return LogState(
        PartitionName(topic, partition), parse_uuid(topic_id), start, end, stable, producers, age_from,
        [SegmentState(*segment) for segment in segments],
        [(epoch, offset) for epoch, offset in epochs],
        [(base, first, last) for base, first, last in damaged],
    )  # fmt: skip
