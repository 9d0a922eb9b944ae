"""AddOffsetsToTxn: adds a group's offset commits to a transaction.

Generated from definitions/25_add_offsets_to_txn.def; change that, not this.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Self

from moldau.wire.message import Request, Response
from moldau.wire.primitives import NO_TAGS, Data, Write, read_string, read_tags, write_string, write_tags

unpack_ih = Struct(">ih").unpack_from
unpack_qh = Struct(">qh").unpack_from
pack_ih = Struct(">ih").pack
pack_qh = Struct(">qh").pack


class AddOffsetsToTxnRequest(Request):
    """AddOffsetsToTxnRequest, version 0 to 4."""

    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "group_id")

    API_KEY = 25
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        group_id: str = "",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.group_id = group_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 3
        self.transactional_id, pos = read_string(data, pos, flexible)
        self.producer_id, self.producer_epoch = unpack_qh(data, pos)
        pos += 10
        self.group_id, pos = read_string(data, pos, flexible)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 3
        write_string(write, self.transactional_id, flexible)
        write(pack_qh(self.producer_id, self.producer_epoch))
        write_string(write, self.group_id, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class AddOffsetsToTxnResponse(Response):
    """AddOffsetsToTxnResponse, version 0 to 4."""

    __slots__ = ("throttle_time_ms", "error_code")

    API_KEY = 25
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 3
        self.throttle_time_ms, self.error_code = unpack_ih(data, pos)
        pos += 6
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 3
        write(pack_ih(self.throttle_time_ms, self.error_code))
        if flexible:
            write_tags(write, self.unknown_tags)
