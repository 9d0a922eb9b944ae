"""Values of control records in a log. An int16 version goes before the fields of EndTxnMarker.

Generated from definitions/data/control_records.def; change that, not this.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Self

from moldau.wire.message import Message, WireStruct
from moldau.wire.primitives import (
    EMPTY,
    NO_TAGS,
    ZERO_UUID,
    Data,
    Write,
    read_array,
    read_tags,
    write_array,
    write_tags,
)

unpack_16s = Struct(">16s").unpack_from
unpack_hi = Struct(">hi").unpack_from
unpack_i = Struct(">i").unpack_from
pack_16s = Struct(">16s").pack
pack_hi = Struct(">hi").pack
pack_i = Struct(">i").pack


class EndTxnMarker(Message):
    """EndTxnMarker, version 0."""

    __slots__ = ("coordinator_epoch",)

    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = None

    def __init__(
        self,
        *,
        coordinator_epoch: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.coordinator_epoch = coordinator_epoch
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.coordinator_epoch,) = unpack_i(data, pos)
        pos += 4
        self.unknown_tags = NO_TAGS
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_i(self.coordinator_epoch))


class LeaderChangeMessageVoter(WireStruct):
    """An element of `voters` and `granting_voters`."""

    __slots__ = ("voter_id", "voter_directory_id")

    def __init__(
        self,
        *,
        voter_id: int = 0,
        voter_directory_id: bytes = ZERO_UUID,  # version >= 1
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.voter_id,) = unpack_i(data, pos)
        pos += 4
        if version >= 1:
            (self.voter_directory_id,) = unpack_16s(data, pos)
            pos += 16
        else:
            self.voter_directory_id = ZERO_UUID
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_i(self.voter_id))
        if version >= 1:
            write(pack_16s(self.voter_directory_id))
        write_tags(write, self.unknown_tags)


class LeaderChangeMessage(Message):
    """LeaderChangeMessage, version 0 to 1."""

    __slots__ = ("version", "leader_id", "voters", "granting_voters")

    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        version: int = 0,
        leader_id: int = 0,
        voters: list[LeaderChangeMessageVoter] = EMPTY,
        granting_voters: list[LeaderChangeMessageVoter] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.version = version
        self.leader_id = leader_id
        self.voters = [] if voters is EMPTY else voters
        self.granting_voters = [] if granting_voters is EMPTY else granting_voters
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.version, self.leader_id = unpack_hi(data, pos)
        pos += 6
        self.voters, pos = read_array(data, pos, version, True, LeaderChangeMessageVoter.read_from)
        self.granting_voters, pos = read_array(data, pos, version, True, LeaderChangeMessageVoter.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_hi(self.version, self.leader_id))
        write_array(write, self.voters, version, True)
        write_array(write, self.granting_voters, version, True)
        write_tags(write, self.unknown_tags)
