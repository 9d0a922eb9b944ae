"""Checkpoint files of a data directory: offsets, `meta.properties` and the clean shutdown state. Pure.

Encodes and decodes the content of the files; `dirs` and `log_dir` read and write them.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from moldau.log.file_names import parse_uuid, uuid_text
from moldau.wire.number_types import LeaderEpoch
from moldau.wire.topic_partition import TopicPartition

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
    """A checkpoint file with invalid content."""


# -- offset checkpoints --------------------------------------------------------------------------------------------


def encode_lines(lines: Iterable[str]) -> bytes:
    """Version, count, then the lines: the format of all of Kafka's checkpoints."""
    entries = list(lines)
    return "\n".join([_VERSION, str(len(entries)), *entries, ""]).encode()


def decode_lines(data: bytes, fields: int) -> list[list[str]]:
    """The fields of each line; BadCheckpointError if version, count or a line is wrong."""
    lines = data.decode("utf-8", "replace").split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    if not lines:
        raise BadCheckpointError("it is empty")
    if lines[0].strip() != _VERSION:
        raise BadCheckpointError(f"it has version {lines[0]!r}; {_VERSION} is known")
    entries = [line.split() for line in lines[2:]]
    if len(lines) < 2 or not lines[1].strip().isdigit() or int(lines[1]) != len(entries):
        raise BadCheckpointError(f"it has {len(entries)} entries, but its count is {lines[1:2]}")
    for entry in entries:
        if len(entry) != fields:
            raise BadCheckpointError(f"malformed line {' '.join(entry)!r}")
    return entries


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return encode_lines(f"{name.topic} {name.partition} {offset}" for name, offset in offsets.items())


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    """Decode an offset checkpoint; BadCheckpointError if it is invalid."""
    offsets: dict[TopicPartition, int] = {}
    for topic, partition, offset in decode_lines(data, 3):
        try:
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError as error:
            raise BadCheckpointError(f"malformed line {topic} {partition} {offset}") from error
    return offsets


# -- meta.properties -----------------------------------------------------------------------------------------------


class MetaProperties(NamedTuple):
    """The owner of a data directory."""

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
    """Decode version 1 or version 0 (`broker.id`); BadCheckpointError if a value is invalid."""
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


# -- clean shutdown ------------------------------------------------------------------------------------------------


def encode_clean_shutdown(broker_epoch: int = -1) -> bytes:
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


class SegmentState(NamedTuple):
    """The state of a segment that a clean shutdown saves."""

    base_offset: int
    size: int
    max_timestamp: int
    offset_of_max_timestamp: int
    index_entries: int
    time_entries: int


class LogState(NamedTuple):
    """The state of a log that a clean shutdown saves: enough that the next start opens no file."""

    name: TopicPartition
    topic_id: bytes
    start_offset: int
    end_offset: int
    last_stable_offset: int
    producers: int
    """The number of producers in the snapshot at the log end offset."""
    age_from: int
    """The timestamp from which the active segment's age counts."""
    segments: list[SegmentState]
    epochs: list[tuple[LeaderEpoch, int]]
    damaged: list[tuple[int, int, int]]
    """Ranges (segment, from, to) that recovery found damaged."""


def encode_clean_state(states: Iterable[LogState]) -> bytes:
    """One line of JSON per log, after a first line with version, count and the checksum of the others."""
    lines = [
        json.dumps([*state.name, uuid_text(state.topic_id), *state[2:]], separators=(",", ":")).encode()
        for state in states
    ]
    body = b"\n".join(lines)
    head = {"version": _CLEAN_STATE_VERSION, "count": len(lines), "crc32": zlib.crc32(body)}
    return json.dumps(head).encode() + b"\n" + body


def decode_clean_state(data: bytes) -> list[LogState]:
    """Decode the state file; BadCheckpointError unless all of it is valid."""
    head, _, body = data.partition(b"\n")
    try:
        about: dict[str, Any] = json.loads(head)
        if about["version"] != _CLEAN_STATE_VERSION or about["crc32"] != zlib.crc32(body):
            raise BadCheckpointError("another version, or a wrong checksum")
        # Parse all lines as one document: the parser's loop runs in C, a loop over lines would not.
        rows = json.loads(b"[" + body.replace(b"\n", b",") + b"]")
        if len(rows) != about["count"]:
            raise BadCheckpointError(f"{len(rows)} logs, but its count is {about['count']}")
        return [_log_state(row) for row in rows]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise BadCheckpointError(f"it cannot be read: {error}") from error


def _log_state(row: list[Any]) -> LogState:
    topic, partition, topic_id, start, end, stable, producers, age_from, segments, epochs, damaged = row
    return LogState(
        TopicPartition(topic, partition), parse_uuid(topic_id), start, end, stable, producers, age_from,
        [SegmentState(*segment) for segment in segments],
        [(epoch, offset) for epoch, offset in epochs],
        [(base, first, last) for base, first, last in damaged],
    )  # fmt: skip
