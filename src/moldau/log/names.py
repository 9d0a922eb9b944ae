"""What files and directories are called, and the small text in `partition.metadata`. Pure.

A partition lives in `TOPIC-PARTITION`; while its files wait to be removed, in `TOPIC-PARTITION.HEX-delete`; while it
moves between disks, in `TOPIC-PARTITION.HEX-future`; when nobody knows it any more, in `TOPIC-PARTITION.HEX-stray`.
A segment's files have its base offset, in twenty digits, as their name.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

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
"""Ours: what recovery took out of a log although it may hold something of value."""

SEGMENT_SUFFIXES = (LOG, INDEX, TIME_INDEX, TXN_INDEX)

MOVED = "moved"
"""Ours: in a log that has come from another data directory, as long as the old one may still be there."""

EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"

MAX_DIRECTORY_NAME = 255
NO_TOPIC_ID = bytes(16)

_DIRECTORY = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>0|[1-9][0-9]{0,9})")
_MARKED = re.compile(r"(?P<name>\S+-[0-9]+)\.[0-9a-zA-Z]+-(?P<mark>delete|future|stray)")
_BASE = re.compile(r"[0-9]{20}")
_METADATA_LINE = re.compile(r"\s*([a-z_]+)\s*:\s*(\S+)\s*")


class PartitionName(NamedTuple):
    """A topic's name and a partition's number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def parse_directory(name: str) -> PartitionName | None:
    """The partition that a directory of this name holds; None where it holds none, or one on its way out."""
    match = _DIRECTORY.fullmatch(name)
    if match is None or marked_for(name) is not None:
        return None
    return PartitionName(match["topic"], int(match["partition"]))


def marked_for(name: str) -> str | None:
    """`delete`, `future` or `stray` where the directory's name says so."""
    match = _MARKED.fullmatch(name)
    return None if match is None else match["mark"]


def marked_directory(name: PartitionName, unique: str, mark: str) -> str:
    """The directory's name while it waits for `mark`; a topic name near the limit is cut to keep it valid."""
    suffix = f"-{name.partition}.{unique}-{mark}"
    return name.topic[: MAX_DIRECTORY_NAME - len(suffix)] + suffix


def segment_file(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


def base_offset_of(name: str, suffix: str) -> int | None:
    """The offset in a file name such as `00000000000000000042.log`; None where it is not of that form."""
    stem = name.removesuffix(suffix)
    if stem == name or _BASE.fullmatch(stem) is None:
        return None
    return int(stem)


def uuid_text(uuid: bytes) -> str:
    """A UUID as Kafka prints it: 22 characters of URL-safe base64."""
    return urlsafe_b64encode(uuid).decode("ascii").rstrip("=")


def parse_uuid(text: str) -> bytes:
    """The sixteen bytes; ValueError where it is no such text."""
    if len(text) != 22:
        raise ValueError(f"{text!r} is not a base64 UUID of 22 characters")
    uuid = urlsafe_b64decode(text + "==")
    if len(uuid) != 16:
        raise ValueError(f"{text!r} is not a base64 UUID of 22 characters")
    return uuid


def encode_partition_metadata(topic_id: bytes) -> bytes:
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode("ascii")


def decode_partition_metadata(data: bytes) -> bytes:
    """The topic's id; ValueError where the file is not of version 0 or has none."""
    fields: dict[str, str] = {}
    for line in data.decode("ascii", "replace").splitlines():
        match = _METADATA_LINE.fullmatch(line)
        if match is not None:
            fields[match[1]] = match[2]
    if fields.get("version") != "0":
        raise ValueError(f"partition.metadata has version {fields.get('version')!r}; 0 is known")
    return parse_uuid(fields.get("topic_id", ""))
