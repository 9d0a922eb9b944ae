"""A member of a consumer group in __consumer_offsets; key type 5.

Generated from definitions/stored/consumer_group_member_metadata.def; change that, not this.
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
    content,
    read_array,
    read_bytes,
    read_nullable_string,
    read_nullable_struct,
    read_string,
    read_strings,
    read_tags,
    write_array,
    write_bytes,
    write_nullable_string,
    write_nullable_struct,
    write_string,
    write_strings,
    write_tags,
)

unpack_i = Struct(">i").unpack_from
pack_i = Struct(">i").pack


class ConsumerGroupMemberMetadataKey(Message):
    """ConsumerGroupMemberMetadataKey, version 5."""

    __slots__ = ("group_id", "member_id")

    MIN_VERSION = 5
    MAX_VERSION = 5
    FLEXIBLE_FROM = None

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.group_id, pos = read_string(data, pos, False)
        self.member_id, pos = read_string(data, pos, False)
        self.unknown_tags = NO_TAGS
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.group_id, False)
        write_string(write, self.member_id, False)


class ConsumerGroupMemberMetadataValueProtocol(WireStruct):
    """An element of `supported_protocols`."""

    __slots__ = ("name", "metadata")

    def __init__(
        self,
        *,
        name: str = "",
        metadata: bytes = b"",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.metadata = metadata
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.name, pos = read_string(data, pos, True)
        self.metadata, pos = read_bytes(data, pos, True)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.name, True)
        write_bytes(write, self.metadata, True)
        write_tags(write, self.unknown_tags)


class ConsumerGroupMemberMetadataValueClassicMember(WireStruct):
    """What is in `classic_member_metadata`."""

    __slots__ = ("session_timeout_ms", "supported_protocols")

    def __init__(
        self,
        *,
        session_timeout_ms: int = 0,
        supported_protocols: list[ConsumerGroupMemberMetadataValueProtocol] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.session_timeout_ms = session_timeout_ms
        self.supported_protocols = [] if supported_protocols is EMPTY else supported_protocols
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.session_timeout_ms,) = unpack_i(data, pos)
        pos += 4
        self.supported_protocols, pos = read_array(
            data, pos, version, True, ConsumerGroupMemberMetadataValueProtocol.read_from
        )
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_i(self.session_timeout_ms))
        write_array(write, self.supported_protocols, version, True)
        write_tags(write, self.unknown_tags)


class ConsumerGroupMemberMetadataValue(Message):
    """ConsumerGroupMemberMetadataValue, version 0."""

    __slots__ = (
        "instance_id",
        "rack_id",
        "client_id",
        "client_host",
        "subscribed_topic_names",
        "subscribed_topic_regex",
        "rebalance_timeout_ms",
        "server_assignor",
        "classic_member_metadata",
    )

    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        instance_id: str | None = "",
        rack_id: str | None = "",
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] = EMPTY,
        subscribed_topic_regex: str | None = "",
        rebalance_timeout_ms: int = -1,
        server_assignor: str | None = "",
        classic_member_metadata: ConsumerGroupMemberMetadataValueClassicMember | None = None,  # tag 0
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = [] if subscribed_topic_names is EMPTY else subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.server_assignor = server_assignor
        self.classic_member_metadata = classic_member_metadata
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.instance_id, pos = read_nullable_string(data, pos, True)
        self.rack_id, pos = read_nullable_string(data, pos, True)
        self.client_id, pos = read_string(data, pos, True)
        self.client_host, pos = read_string(data, pos, True)
        self.subscribed_topic_names, pos = read_strings(data, pos, True)
        self.subscribed_topic_regex, pos = read_nullable_string(data, pos, True)
        (self.rebalance_timeout_ms,) = unpack_i(data, pos)
        pos += 4
        self.server_assignor, pos = read_nullable_string(data, pos, True)
        self.classic_member_metadata = None
        self.unknown_tags = NO_TAGS
        if data[pos]:
            tags, pos = read_tags(data, pos)
            if (raw := tags.pop(0, None)) is not None:
                self.classic_member_metadata, _ = read_nullable_struct(
                    raw, 0, version, ConsumerGroupMemberMetadataValueClassicMember.read_from
                )
            self.unknown_tags = tags
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_nullable_string(write, self.instance_id, True)
        write_nullable_string(write, self.rack_id, True)
        write_string(write, self.client_id, True)
        write_string(write, self.client_host, True)
        write_strings(write, self.subscribed_topic_names, True)
        write_nullable_string(write, self.subscribed_topic_regex, True)
        write(pack_i(self.rebalance_timeout_ms))
        write_nullable_string(write, self.server_assignor, True)
        tags = dict(self.unknown_tags)
        if self.classic_member_metadata is not None:
            tags[0] = content(write_nullable_struct, self.classic_member_metadata, version)
        write_tags(write, tags)
