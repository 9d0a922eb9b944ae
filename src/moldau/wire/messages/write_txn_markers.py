"""WriteTxnMarkers: writes commit or abort markers to the partitions of a transaction; sent by its coordinator.

Generated from definitions/27_write_txn_markers.def; change that, not this.
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

unpack_b = Struct(">b").unpack_from
unpack_i = Struct(">i").unpack_from
unpack_ih = Struct(">ih").unpack_from
unpack_q = Struct(">q").unpack_from
unpack_qht = Struct(">qh?").unpack_from
pack_b = Struct(">b").pack
pack_i = Struct(">i").pack
pack_ih = Struct(">ih").pack
pack_q = Struct(">q").pack
pack_qht = Struct(">qh?").pack


class WriteTxnMarkersRequestTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("name", "partition_indexes")

    def __init__(
        self,
        *,
        name: str = "",
        partition_indexes: list[int] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is EMPTY else partition_indexes
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.name, pos = read_string(data, pos, True)
        self.partition_indexes, pos = read_numbers(data, pos, True, "i")
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.name, True)
        write_numbers(write, self.partition_indexes, True, "i")
        write_tags(write, self.unknown_tags)


class WriteTxnMarkersRequestMarker(WireStruct):
    """An element of `markers`."""

    __slots__ = (
        "producer_id",
        "producer_epoch",
        "transaction_result",
        "topics",
        "coordinator_epoch",
        "transaction_version",
    )

    def __init__(
        self,
        *,
        producer_id: int = 0,
        producer_epoch: int = 0,
        transaction_result: bool = False,
        topics: list[WriteTxnMarkersRequestTopic] = EMPTY,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,  # version >= 2
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.transaction_result = transaction_result
        self.topics = [] if topics is EMPTY else topics
        self.coordinator_epoch = coordinator_epoch
        self.transaction_version = transaction_version
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.producer_id, self.producer_epoch, self.transaction_result = unpack_qht(data, pos)
        pos += 11
        self.topics, pos = read_array(data, pos, version, True, WriteTxnMarkersRequestTopic.read_from)
        (self.coordinator_epoch,) = unpack_i(data, pos)
        pos += 4
        if version >= 2:
            (self.transaction_version,) = unpack_b(data, pos)
            pos += 1
        else:
            self.transaction_version = 0
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_qht(self.producer_id, self.producer_epoch, self.transaction_result))
        write_array(write, self.topics, version, True)
        write(pack_i(self.coordinator_epoch))
        if version >= 2:
            write(pack_b(self.transaction_version))
        write_tags(write, self.unknown_tags)


class WriteTxnMarkersRequest(Request):
    """WriteTxnMarkersRequest, version 1 to 2."""

    __slots__ = ("markers",)

    API_KEY = 27
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 1

    def __init__(
        self,
        *,
        markers: list[WriteTxnMarkersRequestMarker] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.markers = [] if markers is EMPTY else markers
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.markers, pos = read_array(data, pos, version, True, WriteTxnMarkersRequestMarker.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_array(write, self.markers, version, True)
        write_tags(write, self.unknown_tags)


class WriteTxnMarkersResponsePartition(WireStruct):
    """An element of `partitions`."""

    __slots__ = ("partition_index", "error_code")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.partition_index, self.error_code = unpack_ih(data, pos)
        pos += 6
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_ih(self.partition_index, self.error_code))
        write_tags(write, self.unknown_tags)


class WriteTxnMarkersResponseTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[WriteTxnMarkersResponsePartition] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.name, pos = read_string(data, pos, True)
        self.partitions, pos = read_array(data, pos, version, True, WriteTxnMarkersResponsePartition.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.name, True)
        write_array(write, self.partitions, version, True)
        write_tags(write, self.unknown_tags)


class WriteTxnMarkersResponseMarker(WireStruct):
    """An element of `markers`."""

    __slots__ = ("producer_id", "topics")

    def __init__(
        self,
        *,
        producer_id: int = 0,
        topics: list[WriteTxnMarkersResponseTopic] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.producer_id = producer_id
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.producer_id,) = unpack_q(data, pos)
        pos += 8
        self.topics, pos = read_array(data, pos, version, True, WriteTxnMarkersResponseTopic.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_q(self.producer_id))
        write_array(write, self.topics, version, True)
        write_tags(write, self.unknown_tags)


class WriteTxnMarkersResponse(Response):
    """WriteTxnMarkersResponse, version 1 to 2."""

    __slots__ = ("markers",)

    API_KEY = 27
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 1

    def __init__(
        self,
        *,
        markers: list[WriteTxnMarkersResponseMarker] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.markers = [] if markers is EMPTY else markers
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.markers, pos = read_array(data, pos, version, True, WriteTxnMarkersResponseMarker.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_array(write, self.markers, version, True)
        write_tags(write, self.unknown_tags)
