"""AddRaftVoter: adds a voter to the metadata quorum.

Generated from definitions/80_add_raft_voter.def; change that, not this.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Self

from moldau.wire.message import Request, Response, WireStruct
from moldau.wire.primitives import (
    EMPTY,
    NO_TAGS,
    ZERO_UUID,
    Data,
    Write,
    read_array,
    read_nullable_string,
    read_string,
    read_tags,
    write_array,
    write_nullable_string,
    write_string,
    write_tags,
)

unpack_ih = Struct(">ih").unpack_from
unpack_ii16s = Struct(">ii16s").unpack_from
unpack_t = Struct(">?").unpack_from
unpack_u = Struct(">H").unpack_from
pack_ih = Struct(">ih").pack
pack_ii16s = Struct(">ii16s").pack
pack_t = Struct(">?").pack
pack_u = Struct(">H").pack


class AddRaftVoterRequestListener(WireStruct):
    """An element of `listeners`."""

    __slots__ = ("name", "host", "port")

    def __init__(
        self,
        *,
        name: str = "",
        host: str = "",
        port: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.name, pos = read_string(data, pos, True)
        self.host, pos = read_string(data, pos, True)
        (self.port,) = unpack_u(data, pos)
        pos += 2
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.name, True)
        write_string(write, self.host, True)
        write(pack_u(self.port))
        write_tags(write, self.unknown_tags)


class AddRaftVoterRequest(Request):
    """AddRaftVoterRequest, version 0 to 1."""

    __slots__ = ("cluster_id", "timeout_ms", "voter_id", "voter_directory_id", "listeners", "ack_when_committed")

    API_KEY = 80
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        cluster_id: str | None = "",
        timeout_ms: int = 0,
        voter_id: int = 0,
        voter_directory_id: bytes = ZERO_UUID,
        listeners: list[AddRaftVoterRequestListener] = EMPTY,
        ack_when_committed: bool = True,  # version >= 1
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.cluster_id = cluster_id
        self.timeout_ms = timeout_ms
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.listeners = [] if listeners is EMPTY else listeners
        self.ack_when_committed = ack_when_committed
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.cluster_id, pos = read_nullable_string(data, pos, True)
        self.timeout_ms, self.voter_id, self.voter_directory_id = unpack_ii16s(data, pos)
        pos += 24
        self.listeners, pos = read_array(data, pos, version, True, AddRaftVoterRequestListener.read_from)
        if version >= 1:
            (self.ack_when_committed,) = unpack_t(data, pos)
            pos += 1
        else:
            self.ack_when_committed = True
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_nullable_string(write, self.cluster_id, True)
        write(pack_ii16s(self.timeout_ms, self.voter_id, self.voter_directory_id))
        write_array(write, self.listeners, version, True)
        if version >= 1:
            write(pack_t(self.ack_when_committed))
        write_tags(write, self.unknown_tags)


class AddRaftVoterResponse(Response):
    """AddRaftVoterResponse, version 0 to 1."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message")

    API_KEY = 80
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.throttle_time_ms, self.error_code = unpack_ih(data, pos)
        pos += 6
        self.error_message, pos = read_nullable_string(data, pos, True)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_ih(self.throttle_time_ms, self.error_code))
        write_nullable_string(write, self.error_message, True)
        write_tags(write, self.unknown_tags)
