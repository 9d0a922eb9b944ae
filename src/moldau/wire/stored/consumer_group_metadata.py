"""The epoch of a consumer group in __consumer_offsets; key type 3.

Generated from definitions/stored/consumer_group_metadata.def; change that, not this.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Self

from moldau.wire.message import Message
from moldau.wire.primitives import NO_TAGS, Data, Write, read_string, read_tags, write_string, write_tags

unpack_i = Struct(">i").unpack_from
pack_i = Struct(">i").pack


class ConsumerGroupMetadataKey(Message):
    """ConsumerGroupMetadataKey, version 3."""

    __slots__ = ("group_id",)

    MIN_VERSION = 3
    MAX_VERSION = 3
    FLEXIBLE_FROM = None

    def __init__(
        self,
        *,
        group_id: str = "",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.group_id = group_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.group_id, pos = read_string(data, pos, False)
        self.unknown_tags = NO_TAGS
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.group_id, False)


class ConsumerGroupMetadataValue(Message):
    """ConsumerGroupMetadataValue, version 0."""

    __slots__ = ("epoch",)

    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        epoch: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.epoch = epoch
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.epoch,) = unpack_i(data, pos)
        pos += 4
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_i(self.epoch))
        write_tags(write, self.unknown_tags)
