"""ListTransactions: lists the transactions that a broker coordinates.

Generated from definitions/66_list_transactions.def; change that, not this.
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
    read_nullable_string,
    read_numbers,
    read_string,
    read_strings,
    read_tags,
    write_array,
    write_nullable_string,
    write_numbers,
    write_string,
    write_strings,
    write_tags,
)

unpack_ih = Struct(">ih").unpack_from
unpack_q = Struct(">q").unpack_from
pack_ih = Struct(">ih").pack
pack_q = Struct(">q").pack


class ListTransactionsRequest(Request):
    """ListTransactionsRequest, version 0 to 2."""

    __slots__ = ("state_filters", "producer_id_filters", "duration_filter", "transactional_id_pattern")

    API_KEY = 66
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        state_filters: list[str] = EMPTY,
        producer_id_filters: list[int] = EMPTY,
        duration_filter: int = -1,  # version >= 1
        transactional_id_pattern: str | None = None,  # version >= 2
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.state_filters = [] if state_filters is EMPTY else state_filters
        self.producer_id_filters = [] if producer_id_filters is EMPTY else producer_id_filters
        self.duration_filter = duration_filter
        self.transactional_id_pattern = transactional_id_pattern
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.state_filters, pos = read_strings(data, pos, True)
        self.producer_id_filters, pos = read_numbers(data, pos, True, "q")
        if version >= 1:
            (self.duration_filter,) = unpack_q(data, pos)
            pos += 8
        else:
            self.duration_filter = -1
        if version >= 2:
            self.transactional_id_pattern, pos = read_nullable_string(data, pos, True)
        else:
            self.transactional_id_pattern = None
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_strings(write, self.state_filters, True)
        write_numbers(write, self.producer_id_filters, True, "q")
        if version >= 1:
            write(pack_q(self.duration_filter))
        if version >= 2:
            write_nullable_string(write, self.transactional_id_pattern, True)
        write_tags(write, self.unknown_tags)


class ListTransactionsResponseTransactionState(WireStruct):
    """An element of `transaction_states`."""

    __slots__ = ("transactional_id", "producer_id", "transaction_state")

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        transaction_state: str = "",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.transaction_state = transaction_state
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.transactional_id, pos = read_string(data, pos, True)
        (self.producer_id,) = unpack_q(data, pos)
        pos += 8
        self.transaction_state, pos = read_string(data, pos, True)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.transactional_id, True)
        write(pack_q(self.producer_id))
        write_string(write, self.transaction_state, True)
        write_tags(write, self.unknown_tags)


class ListTransactionsResponse(Response):
    """ListTransactionsResponse, version 0 to 2."""

    __slots__ = ("throttle_time_ms", "error_code", "unknown_state_filters", "transaction_states")

    API_KEY = 66
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        unknown_state_filters: list[str] = EMPTY,
        transaction_states: list[ListTransactionsResponseTransactionState] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.unknown_state_filters = [] if unknown_state_filters is EMPTY else unknown_state_filters
        self.transaction_states = [] if transaction_states is EMPTY else transaction_states
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.throttle_time_ms, self.error_code = unpack_ih(data, pos)
        pos += 6
        self.unknown_state_filters, pos = read_strings(data, pos, True)
        self.transaction_states, pos = read_array(
            data, pos, version, True, ListTransactionsResponseTransactionState.read_from
        )
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_ih(self.throttle_time_ms, self.error_code))
        write_strings(write, self.unknown_state_filters, True)
        write_array(write, self.transaction_states, version, True)
        write_tags(write, self.unknown_tags)
