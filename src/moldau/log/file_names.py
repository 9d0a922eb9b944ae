"""Names of files and directories in a data directory, and the content of `partition.metadata`. Pure.

A partition's directory is `TOPIC-PARTITION`. It is renamed to `TOPIC-PARTITION.HEX-delete` before deletion, and to
`TOPIC-PARTITION.HEX-stray` if its topic is unknown; `TOPIC-PARTITION.HEX-future` is a copy on its way between disks.
Segment files are named by the segment's base offset, in twenty digits.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode

from moldau.wire.topic_partition import TopicPartition

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"
TEMPORARY = ".tmp"
ASIDE = ".aside"
"""Not in Kafka: bytes that recovery removed from a log and kept, because they may be of value."""

SEGMENT_SUFFIXES = (LOG, INDEX, TIME_INDEX, TXN_INDEX)

MOVED = "moved"
"""Not in Kafka: a file in a log that came from another data directory, while the old copy may still exist."""

EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"

MAX_DIRECTORY_NAME = 255
NO_TOPIC_ID = bytes(16)

_DIRECTORY = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>0|[1-9][0-9]{0,9})")
_MARKED = re.compile(r"(?P<name>\S+-[0-9]+)\.[0-9a-zA-Z]+-(?P<mark>delete|future|stray)")
_BASE = re.compile(r"[0-9]{20}")
_METADATA_LINE = re.compile(r"\s*([a-z_]+)\s*:\s*(\S+)\s*")


def parse_directory(name: str) -> TopicPartition | None:
    """The partition of a directory name; None if it is not a partition's, or is marked (delete, future, stray)."""
    match = _DIRECTORY.fullmatch(name)
    if match is None or marked_for(name) is not None:
        return None
    return TopicPartition(match["topic"], int(match["partition"]))


def marked_for(name: str) -> str | None:
    """`delete`, `future` or `stray` if the directory name has this mark."""
    match = _MARKED.fullmatch(name)
    return None if match is None else match["mark"]


def marked_directory(name: TopicPartition, unique: str, mark: str) -> str:
    """The directory name with a mark; a topic name near the limit is shortened to keep the name valid."""
    suffix = f"-{name.partition}.{unique}-{mark}"
    return name.topic[: MAX_DIRECTORY_NAME - len(suffix)] + suffix


def segment_file(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


def base_offset_of(name: str, suffix: str) -> int | None:
    """The offset in a file name such as `00000000000000000042.log`; None if the name has another form."""
    stem = name.removesuffix(suffix)
    if stem == name or _BASE.fullmatch(stem) is None:
        return None
    return int(stem)


def uuid_text(uuid: bytes) -> str:
    """A UUID as Kafka prints it: 22 characters of URL-safe base64."""
    return urlsafe_b64encode(uuid).decode("ascii").rstrip("=")


def parse_uuid(text: str) -> bytes:
    """The sixteen bytes of a UUID; ValueError if the text is not one."""
    if len(text) != 22:
        raise ValueError(f"{text!r} is not a base64 UUID of 22 characters")
    uuid = urlsafe_b64decode(text + "==")
    if len(uuid) != 16:
        raise ValueError(f"{text!r} is not a base64 UUID of 22 characters")
    return uuid


def encode_partition_metadata(topic_id: bytes) -> bytes:
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode("ascii")


def decode_partition_metadata(data: bytes) -> bytes:
    """The topic id; ValueError if the file is not of version 0 or has no topic id."""
    fields: dict[str, str] = {}
    for line in data.decode("ascii", "replace").splitlines():
        match = _METADATA_LINE.fullmatch(line)
        if match is not None:
            fields[match[1]] = match[2]
    if fields.get("version") != "0":
        raise ValueError(f"partition.metadata has version {fields.get('version')!r}; 0 is known")
    return parse_uuid(fields.get("topic_id", ""))
