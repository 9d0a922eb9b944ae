"""InitProducerId: gives an idempotent or transactional producer its id and epoch, fencing its predecessor.

Generated from definitions/22_init_producer_id.def; change that, not this.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Self

from moldau.wire.message import Request, Response
from moldau.wire.primitives import (
    NO_TAGS,
    Data,
    Write,
    read_nullable_string,
    read_tags,
    write_nullable_string,
    write_tags,
)

unpack_i = Struct(">i").unpack_from
unpack_ihqh = Struct(">ihqh").unpack_from
unpack_qh = Struct(">qh").unpack_from
unpack_tt = Struct(">??").unpack_from
pack_i = Struct(">i").pack
pack_ihqh = Struct(">ihqh").pack
pack_qh = Struct(">qh").pack
pack_tt = Struct(">??").pack


class InitProducerIdRequest(Request):
    """InitProducerIdRequest, version 0 to 6."""

    __slots__ = (
        "transactional_id",
        "transaction_timeout_ms",
        "producer_id",
        "producer_epoch",
        "enable2_pc",
        "keep_prepared_txn",
    )

    API_KEY = 22
    MIN_VERSION = 0
    MAX_VERSION = 6
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        transactional_id: str | None = "",
        transaction_timeout_ms: int = 0,
        producer_id: int = -1,  # version >= 3
        producer_epoch: int = -1,  # version >= 3
        enable2_pc: bool = False,  # version >= 6
        keep_prepared_txn: bool = False,  # version >= 6
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.enable2_pc = enable2_pc
        self.keep_prepared_txn = keep_prepared_txn
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        self.transactional_id, pos = read_nullable_string(data, pos, flexible)
        (self.transaction_timeout_ms,) = unpack_i(data, pos)
        pos += 4
        if version >= 3:
            self.producer_id, self.producer_epoch = unpack_qh(data, pos)
            pos += 10
        else:
            self.producer_id = -1
            self.producer_epoch = -1
        if version >= 6:
            self.enable2_pc, self.keep_prepared_txn = unpack_tt(data, pos)
            pos += 2
        else:
            self.enable2_pc = False
            self.keep_prepared_txn = False
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 2
        write_nullable_string(write, self.transactional_id, flexible)
        write(pack_i(self.transaction_timeout_ms))
        if version >= 3:
            write(pack_qh(self.producer_id, self.producer_epoch))
        if version >= 6:
            write(pack_tt(self.enable2_pc, self.keep_prepared_txn))
        if flexible:
            write_tags(write, self.unknown_tags)


class InitProducerIdResponse(Response):
    """InitProducerIdResponse, version 0 to 6."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "producer_id",
        "producer_epoch",
        "ongoing_txn_producer_id",
        "ongoing_txn_producer_epoch",
    )

    API_KEY = 22
    MIN_VERSION = 0
    MAX_VERSION = 6
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = 0,
        ongoing_txn_producer_id: int = -1,  # version >= 6
        ongoing_txn_producer_epoch: int = -1,  # version >= 6
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.ongoing_txn_producer_id = ongoing_txn_producer_id
        self.ongoing_txn_producer_epoch = ongoing_txn_producer_epoch
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        self.throttle_time_ms, self.error_code, self.producer_id, self.producer_epoch = unpack_ihqh(data, pos)
        pos += 16
        if version >= 6:
            self.ongoing_txn_producer_id, self.ongoing_txn_producer_epoch = unpack_qh(data, pos)
            pos += 10
        else:
            self.ongoing_txn_producer_id = -1
            self.ongoing_txn_producer_epoch = -1
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 2
        write(pack_ihqh(self.throttle_time_ms, self.error_code, self.producer_id, self.producer_epoch))
        if version >= 6:
            write(pack_qh(self.ongoing_txn_producer_id, self.ongoing_txn_producer_epoch))
        if flexible:
            write_tags(write, self.unknown_tags)
