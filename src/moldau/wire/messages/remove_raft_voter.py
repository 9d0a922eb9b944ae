"""RemoveRaftVoter: removes a voter from the metadata quorum.

Generated from definitions/81_remove_raft_voter.def; change that, not this.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Self

from moldau.wire.message import Request, Response
from moldau.wire.primitives import (
    NO_TAGS,
    ZERO_UUID,
    Data,
    Write,
    read_nullable_string,
    read_tags,
    write_nullable_string,
    write_tags,
)

unpack_i16s = Struct(">i16s").unpack_from
unpack_ih = Struct(">ih").unpack_from
pack_i16s = Struct(">i16s").pack
pack_ih = Struct(">ih").pack


class RemoveRaftVoterRequest(Request):
    """RemoveRaftVoterRequest, version 0."""

    __slots__ = ("cluster_id", "voter_id", "voter_directory_id")

    API_KEY = 81
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        cluster_id: str | None = "",
        voter_id: int = 0,
        voter_directory_id: bytes = ZERO_UUID,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.cluster_id, pos = read_nullable_string(data, pos, True)
        self.voter_id, self.voter_directory_id = unpack_i16s(data, pos)
        pos += 20
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_nullable_string(write, self.cluster_id, True)
        write(pack_i16s(self.voter_id, self.voter_directory_id))
        write_tags(write, self.unknown_tags)


class RemoveRaftVoterResponse(Response):
    """RemoveRaftVoterResponse, version 0."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message")

    API_KEY = 81
    MIN_VERSION = 0
    MAX_VERSION = 0
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
