"""A committed offset in __consumer_offsets; key types 0 and 1.

Generated from definitions/stored/offset_commit.def; change that, not this.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Self

from moldau.wire.message import Message
from moldau.wire.primitives import NO_TAGS, Data, Write, read_string, read_tags, write_string, write_tags

unpack_i = Struct(">i").unpack_from
unpack_q = Struct(">q").unpack_from
pack_i = Struct(">i").pack
pack_q = Struct(">q").pack


class OffsetCommitKey(Message):
    """OffsetCommitKey, version 0 to 1."""

    __slots__ = ("group", "topic", "partition")

    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = None

    def __init__(
        self,
        *,
        group: str = "",
        topic: str = "",
        partition: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.group = group
        self.topic = topic
        self.partition = partition
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.group, pos = read_string(data, pos, False)
        self.topic, pos = read_string(data, pos, False)
        (self.partition,) = unpack_i(data, pos)
        pos += 4
        self.unknown_tags = NO_TAGS
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.group, False)
        write_string(write, self.topic, False)
        write(pack_i(self.partition))


class OffsetCommitValue(Message):
    """OffsetCommitValue, version 0 to 4."""

    __slots__ = ("offset", "leader_epoch", "metadata", "commit_timestamp", "expire_timestamp")

    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        offset: int = 0,
        leader_epoch: int = -1,  # version >= 3
        metadata: str = "",
        commit_timestamp: int = 0,
        expire_timestamp: int = -1,  # version == 1
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.metadata = metadata
        self.commit_timestamp = commit_timestamp
        self.expire_timestamp = expire_timestamp
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 4
        (self.offset,) = unpack_q(data, pos)
        pos += 8
        if version >= 3:
            (self.leader_epoch,) = unpack_i(data, pos)
            pos += 4
        else:
            self.leader_epoch = -1
        self.metadata, pos = read_string(data, pos, flexible)
        (self.commit_timestamp,) = unpack_q(data, pos)
        pos += 8
        if version == 1:
            (self.expire_timestamp,) = unpack_q(data, pos)
            pos += 8
        else:
            self.expire_timestamp = -1
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 4
        write(pack_q(self.offset))
        if version >= 3:
            write(pack_i(self.leader_epoch))
        write_string(write, self.metadata, flexible)
        write(pack_q(self.commit_timestamp))
        if version == 1:
            write(pack_q(self.expire_timestamp))
        if flexible:
            write_tags(write, self.unknown_tags)
