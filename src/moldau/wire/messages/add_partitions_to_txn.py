"""AddPartitionsToTxn: adds partitions to a transaction, or, between brokers, checks that they belong to it.

Generated from definitions/24_add_partitions_to_txn.def; change that, not this.
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
    read_tags,
    write_array,
    write_numbers,
    write_string,
    write_tags,
)

unpack_h = Struct(">h").unpack_from
unpack_i = Struct(">i").unpack_from
unpack_ih = Struct(">ih").unpack_from
unpack_qh = Struct(">qh").unpack_from
unpack_qht = Struct(">qh?").unpack_from
pack_h = Struct(">h").pack
pack_i = Struct(">i").pack
pack_ih = Struct(">ih").pack
pack_qh = Struct(">qh").pack
pack_qht = Struct(">qh?").pack


class AddPartitionsToTxnRequestTopic(WireStruct):
    """An element of `v3_and_below_topics` and `topics`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[int] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 3
        self.name, pos = read_string(data, pos, flexible)
        self.partitions, pos = read_numbers(data, pos, flexible, "i")
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 3
        write_string(write, self.name, flexible)
        write_numbers(write, self.partitions, flexible, "i")
        if flexible:
            write_tags(write, self.unknown_tags)


class AddPartitionsToTxnRequestTransaction(WireStruct):
    """An element of `transactions`."""

    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "verify_only", "topics")

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        verify_only: bool = False,
        topics: list[AddPartitionsToTxnRequestTopic] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.verify_only = verify_only
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.transactional_id, pos = read_string(data, pos, True)
        self.producer_id, self.producer_epoch, self.verify_only = unpack_qht(data, pos)
        pos += 11
        self.topics, pos = read_array(data, pos, version, True, AddPartitionsToTxnRequestTopic.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.transactional_id, True)
        write(pack_qht(self.producer_id, self.producer_epoch, self.verify_only))
        write_array(write, self.topics, version, True)
        write_tags(write, self.unknown_tags)


class AddPartitionsToTxnRequest(Request):
    """AddPartitionsToTxnRequest, version 0 to 5."""

    __slots__ = (
        "transactions",
        "v3_and_below_transactional_id",
        "v3_and_below_producer_id",
        "v3_and_below_producer_epoch",
        "v3_and_below_topics",
    )

    API_KEY = 24
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        transactions: list[AddPartitionsToTxnRequestTransaction] = EMPTY,  # version >= 4
        v3_and_below_transactional_id: str = "",  # version <= 3
        v3_and_below_producer_id: int = 0,  # version <= 3
        v3_and_below_producer_epoch: int = 0,  # version <= 3
        v3_and_below_topics: list[AddPartitionsToTxnRequestTopic] = EMPTY,  # version <= 3
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.transactions = [] if transactions is EMPTY else transactions
        self.v3_and_below_transactional_id = v3_and_below_transactional_id
        self.v3_and_below_producer_id = v3_and_below_producer_id
        self.v3_and_below_producer_epoch = v3_and_below_producer_epoch
        self.v3_and_below_topics = [] if v3_and_below_topics is EMPTY else v3_and_below_topics
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 3
        if version >= 4:
            self.transactions, pos = read_array(
                data, pos, version, flexible, AddPartitionsToTxnRequestTransaction.read_from
            )
        else:
            self.transactions = []
        if version <= 3:
            self.v3_and_below_transactional_id, pos = read_string(data, pos, flexible)
            self.v3_and_below_producer_id, self.v3_and_below_producer_epoch = unpack_qh(data, pos)
            pos += 10
            self.v3_and_below_topics, pos = read_array(
                data, pos, version, flexible, AddPartitionsToTxnRequestTopic.read_from
            )
        else:
            self.v3_and_below_transactional_id = ""
            self.v3_and_below_producer_id = 0
            self.v3_and_below_producer_epoch = 0
            self.v3_and_below_topics = []
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 3
        if version >= 4:
            write_array(write, self.transactions, version, flexible)
        if version <= 3:
            write_string(write, self.v3_and_below_transactional_id, flexible)
            write(pack_qh(self.v3_and_below_producer_id, self.v3_and_below_producer_epoch))
            write_array(write, self.v3_and_below_topics, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class AddPartitionsToTxnResponsePartition(WireStruct):
    """An element of `results_by_partition`."""

    __slots__ = ("partition_index", "partition_error_code")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        partition_error_code: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.partition_index = partition_index
        self.partition_error_code = partition_error_code
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 3
        self.partition_index, self.partition_error_code = unpack_ih(data, pos)
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
        write(pack_ih(self.partition_index, self.partition_error_code))
        if flexible:
            write_tags(write, self.unknown_tags)


class AddPartitionsToTxnResponseTopic(WireStruct):
    """An element of `results_by_topic_v3_and_below` and `topic_results`."""

    __slots__ = ("name", "results_by_partition")

    def __init__(
        self,
        *,
        name: str = "",
        results_by_partition: list[AddPartitionsToTxnResponsePartition] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.results_by_partition = [] if results_by_partition is EMPTY else results_by_partition
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 3
        self.name, pos = read_string(data, pos, flexible)
        self.results_by_partition, pos = read_array(
            data, pos, version, flexible, AddPartitionsToTxnResponsePartition.read_from
        )
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 3
        write_string(write, self.name, flexible)
        write_array(write, self.results_by_partition, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class AddPartitionsToTxnResponseTransaction(WireStruct):
    """An element of `results_by_transaction`."""

    __slots__ = ("transactional_id", "topic_results")

    def __init__(
        self,
        *,
        transactional_id: str = "",
        topic_results: list[AddPartitionsToTxnResponseTopic] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.transactional_id = transactional_id
        self.topic_results = [] if topic_results is EMPTY else topic_results
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.transactional_id, pos = read_string(data, pos, True)
        self.topic_results, pos = read_array(data, pos, version, True, AddPartitionsToTxnResponseTopic.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.transactional_id, True)
        write_array(write, self.topic_results, version, True)
        write_tags(write, self.unknown_tags)


class AddPartitionsToTxnResponse(Response):
    """AddPartitionsToTxnResponse, version 0 to 5."""

    __slots__ = ("throttle_time_ms", "error_code", "results_by_transaction", "results_by_topic_v3_and_below")

    API_KEY = 24
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,  # version >= 4
        results_by_transaction: list[AddPartitionsToTxnResponseTransaction] = EMPTY,  # version >= 4
        results_by_topic_v3_and_below: list[AddPartitionsToTxnResponseTopic] = EMPTY,  # version <= 3
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results_by_transaction = [] if results_by_transaction is EMPTY else results_by_transaction
        self.results_by_topic_v3_and_below = (
            [] if results_by_topic_v3_and_below is EMPTY else results_by_topic_v3_and_below
        )
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 3
        (self.throttle_time_ms,) = unpack_i(data, pos)
        pos += 4
        if version >= 4:
            (self.error_code,) = unpack_h(data, pos)
            pos += 2
            self.results_by_transaction, pos = read_array(
                data, pos, version, flexible, AddPartitionsToTxnResponseTransaction.read_from
            )
        else:
            self.error_code = 0
            self.results_by_transaction = []
        if version <= 3:
            self.results_by_topic_v3_and_below, pos = read_array(
                data, pos, version, flexible, AddPartitionsToTxnResponseTopic.read_from
            )
        else:
            self.results_by_topic_v3_and_below = []
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 3
        write(pack_i(self.throttle_time_ms))
        if version >= 4:
            write(pack_h(self.error_code))
            write_array(write, self.results_by_transaction, version, flexible)
        if version <= 3:
            write_array(write, self.results_by_topic_v3_and_below, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)
