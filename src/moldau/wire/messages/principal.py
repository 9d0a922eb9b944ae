"""How a broker tells another on whose behalf it forwards a request.

Generated from definitions/data/principal.def; change that, not this.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Self

from moldau.wire.message import Message
from moldau.wire.primitives import NO_TAGS, Data, Write, read_string, read_tags, write_string, write_tags

unpack_t = Struct(">?").unpack_from
pack_t = Struct(">?").pack


class DefaultPrincipalData(Message):
    """DefaultPrincipalData, version 0."""

    __slots__ = ("type", "name", "token_authenticated")

    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        type: str = "",
        name: str = "",
        token_authenticated: bool = False,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.type = type
        self.name = name
        self.token_authenticated = token_authenticated
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.type, pos = read_string(data, pos, True)
        self.name, pos = read_string(data, pos, True)
        (self.token_authenticated,) = unpack_t(data, pos)
        pos += 1
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.type, True)
        write_string(write, self.name, True)
        write(pack_t(self.token_authenticated))
        write_tags(write, self.unknown_tags)
