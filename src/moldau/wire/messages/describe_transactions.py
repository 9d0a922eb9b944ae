"""DescribeTransactions: describes transactions by their ids.

Generated from definitions/65_describe_transactions.def; change that, not this.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Self

from moldau.wire.message import Request, Response, WireStruct
from moldau.wire.primitives import (
    EMPTY,
    NO_TAGS,
    Data,
    Write,
    read_array,
    read_numbers,
    read_string,
    read_strings,
    read_tags,
    write_array,
    write_numbers,
    write_string,
    write_strings,
    write_tags,
)

unpack_h = Struct(">h").unpack_from
unpack_i = Struct(">i").unpack_from
unpack_iqqh = Struct(">iqqh").unpack_from
pack_h = Struct(">h").pack
pack_i = Struct(">i").pack
pack_iqqh = Struct(">iqqh").pack


class DescribeTransactionsRequest(Request):
    """DescribeTransactionsRequest, version 0."""

    __slots__ = ("transactional_ids",)

    API_KEY = 65
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        transactional_ids: list[str] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.transactional_ids = [] if transactional_ids is EMPTY else transactional_ids
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.transactional_ids, pos = read_strings(data, pos, True)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_strings(write, self.transactional_ids, True)
        write_tags(write, self.unknown_tags)


class DescribeTransactionsResponseTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("topic", "partitions")

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[int] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.topic, pos = read_string(data, pos, True)
        self.partitions, pos = read_numbers(data, pos, True, "i")
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.topic, True)
        write_numbers(write, self.partitions, True, "i")
        write_tags(write, self.unknown_tags)


class DescribeTransactionsResponseTransactionState(WireStruct):
    """An element of `transaction_states`."""

    __slots__ = (
        "error_code",
        "transactional_id",
        "transaction_state",
        "transaction_timeout_ms",
        "transaction_start_time_ms",
        "producer_id",
        "producer_epoch",
        "topics",
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        transactional_id: str = "",
        transaction_state: str = "",
        transaction_timeout_ms: int = 0,
        transaction_start_time_ms: int = 0,
        producer_id: int = 0,
        producer_epoch: int = 0,
        topics: list[DescribeTransactionsResponseTopic] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.error_code = error_code
        self.transactional_id = transactional_id
        self.transaction_state = transaction_state
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transaction_start_time_ms = transaction_start_time_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.error_code,) = unpack_h(data, pos)
        pos += 2
        self.transactional_id, pos = read_string(data, pos, True)
        self.transaction_state, pos = read_string(data, pos, True)
        self.transaction_timeout_ms, self.transaction_start_time_ms, self.producer_id, self.producer_epoch = (
            unpack_iqqh(data, pos)
        )
        pos += 22
        self.topics, pos = read_array(data, pos, version, True, DescribeTransactionsResponseTopic.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_h(self.error_code))
        write_string(write, self.transactional_id, True)
        write_string(write, self.transaction_state, True)
        write(
            pack_iqqh(
                self.transaction_timeout_ms, self.transaction_start_time_ms, self.producer_id, self.producer_epoch
            )
        )
        write_array(write, self.topics, version, True)
        write_tags(write, self.unknown_tags)


class DescribeTransactionsResponse(Response):
    """DescribeTransactionsResponse, version 0."""

    __slots__ = ("throttle_time_ms", "transaction_states")

    API_KEY = 65
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        transaction_states: list[DescribeTransactionsResponseTransactionState] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.transaction_states = [] if transaction_states is EMPTY else transaction_states
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.throttle_time_ms,) = unpack_i(data, pos)
        pos += 4
        self.transaction_states, pos = read_array(
            data, pos, version, True, DescribeTransactionsResponseTransactionState.read_from
        )
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_i(self.throttle_time_ms))
        write_array(write, self.transaction_states, version, True)
        write_tags(write, self.unknown_tags)
