"""A transaction in __transaction_state; key type 0.

Generated from definitions/stored/transaction_log.def; change that, not this.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Self

from moldau.wire.message import Message, WireStruct
from moldau.wire.primitives import (
    EMPTY,
    NO_TAGS,
    Data,
    Write,
    read_nullable_array,
    read_numbers,
    read_string,
    read_tags,
    write_nullable_array,
    write_numbers,
    write_string,
    write_tags,
)

unpack_h = Struct(">h").unpack_from
unpack_q = Struct(">q").unpack_from
unpack_qhib = Struct(">qhib").unpack_from
unpack_qq = Struct(">qq").unpack_from
pack_h = Struct(">h").pack
pack_q = Struct(">q").pack
pack_qhib = Struct(">qhib").pack
pack_qq = Struct(">qq").pack


class TransactionLogKey(Message):
    """TransactionLogKey, version 0."""

    __slots__ = ("transactional_id",)

    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = None

    def __init__(
        self,
        *,
        transactional_id: str = "",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.transactional_id = transactional_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.transactional_id, pos = read_string(data, pos, False)
        self.unknown_tags = NO_TAGS
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.transactional_id, False)


class TransactionLogValueTopicPartitions(WireStruct):
    """An element of `transaction_partitions`."""

    __slots__ = ("topic", "partition_ids")

    def __init__(
        self,
        *,
        topic: str = "",
        partition_ids: list[int] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topic = topic
        self.partition_ids = [] if partition_ids is EMPTY else partition_ids
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 1
        self.topic, pos = read_string(data, pos, flexible)
        self.partition_ids, pos = read_numbers(data, pos, flexible, "i")
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 1
        write_string(write, self.topic, flexible)
        write_numbers(write, self.partition_ids, flexible, "i")
        if flexible:
            write_tags(write, self.unknown_tags)


class TransactionLogValue(Message):
    """TransactionLogValue, version 0 to 1."""

    __slots__ = (
        "producer_id",
        "previous_producer_id",
        "next_producer_id",
        "producer_epoch",
        "transaction_timeout_ms",
        "transaction_status",
        "transaction_partitions",
        "transaction_last_update_timestamp_ms",
        "transaction_start_timestamp_ms",
        "client_transaction_version",
    )

    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 1

    def __init__(
        self,
        *,
        producer_id: int = 0,
        previous_producer_id: int = -1,  # version >= 1, tag 0
        next_producer_id: int = -1,  # version >= 1, tag 1
        producer_epoch: int = 0,
        transaction_timeout_ms: int = 0,
        transaction_status: int = 0,
        transaction_partitions: list[TransactionLogValueTopicPartitions] | None = EMPTY,
        transaction_last_update_timestamp_ms: int = 0,
        transaction_start_timestamp_ms: int = 0,
        client_transaction_version: int = 0,  # version >= 1, tag 2
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.producer_id = producer_id
        self.previous_producer_id = previous_producer_id
        self.next_producer_id = next_producer_id
        self.producer_epoch = producer_epoch
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transaction_status = transaction_status
        self.transaction_partitions = [] if transaction_partitions is EMPTY else transaction_partitions
        self.transaction_last_update_timestamp_ms = transaction_last_update_timestamp_ms
        self.transaction_start_timestamp_ms = transaction_start_timestamp_ms
        self.client_transaction_version = client_transaction_version
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 1
        self.producer_id, self.producer_epoch, self.transaction_timeout_ms, self.transaction_status = unpack_qhib(
            data, pos
        )
        pos += 15
        self.transaction_partitions, pos = read_nullable_array(
            data, pos, version, flexible, TransactionLogValueTopicPartitions.read_from
        )
        self.transaction_last_update_timestamp_ms, self.transaction_start_timestamp_ms = unpack_qq(data, pos)
        pos += 16
        self.previous_producer_id = -1
        self.next_producer_id = -1
        self.client_transaction_version = 0
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                tags, pos = read_tags(data, pos)
                if (raw := tags.pop(0, None)) is not None:
                    (self.previous_producer_id,) = unpack_q(raw)
                if (raw := tags.pop(1, None)) is not None:
                    (self.next_producer_id,) = unpack_q(raw)
                if (raw := tags.pop(2, None)) is not None:
                    (self.client_transaction_version,) = unpack_h(raw)
                self.unknown_tags = tags
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 1
        write(pack_qhib(self.producer_id, self.producer_epoch, self.transaction_timeout_ms, self.transaction_status))
        write_nullable_array(write, self.transaction_partitions, version, flexible)
        write(pack_qq(self.transaction_last_update_timestamp_ms, self.transaction_start_timestamp_ms))
        if flexible:
            tags = dict(self.unknown_tags)
            if self.previous_producer_id != -1:
                tags[0] = pack_q(self.previous_producer_id)
            if self.next_producer_id != -1:
                tags[1] = pack_q(self.next_producer_id)
            if self.client_transaction_version != 0:
                tags[2] = pack_h(self.client_transaction_version)
            write_tags(write, tags)
