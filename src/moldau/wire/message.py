"""Base classes of generated messages: comparison, representation, encoding and decoding.

A generated class adds only its fields, `read_from` and `write_to`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import ClassVar, Final, Self

from moldau.wire.errors import WireError
from moldau.wire.primitives import Buffer, Data, Write

SECRETS: Final = frozenset({"auth_bytes", "hmac", "salted_password"})
"""Fields that `repr` does not show: who reads them in a log can log in."""


class WireStruct:
    """A group of fields: a message, or a part of one.

    Equal to another instance of the same class with equal fields. Mutable, and therefore not hashable.
    """

    __slots__ = ("unknown_tags",)
    __hash__ = None  # type: ignore[assignment]

    unknown_tags: Mapping[int, bytes]
    """The raw bytes of unknown tagged fields, by tag; they are written back. Replace the mapping, never modify it."""

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        """Read the fields of this version, and set the others to their defaults."""
        raise TypeError(f"{cls.__name__} does not implement read_from ({len(data)} bytes, at {pos}, version {version})")

    def write_to(self, write: Write, version: int) -> None:
        """Write the fields of this version, and ignore the others."""
        raise TypeError(f"{type(self).__name__} does not implement write_to ({write}, version {version})")

    def _items(self) -> Iterator[tuple[str, object]]:
        for name in type(self).__slots__:
            yield name, getattr(self, name)
        if self.unknown_tags:
            yield "unknown_tags", dict(self.unknown_tags)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        assert isinstance(other, WireStruct)
        return list(self._items()) == list(other._items())

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={'…' if name in SECRETS else repr(value)}" for name, value in self._items())
        return f"{type(self).__name__}({fields})"


class Message(WireStruct):
    """A whole message: the body of a request or response, or a value stored in a log."""

    __slots__ = ()

    MIN_VERSION: ClassVar[int]
    MAX_VERSION: ClassVar[int]
    FLEXIBLE_FROM: ClassVar[int | None]
    """The first version with compact lengths and tagged fields; None if there is none."""
    HAS_RECORDS: ClassVar[bool] = False
    """True if decoded values are views into the frame, which must then not change while they are in use."""

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> Self:
        """Decode the message that starts at `pos` of a frame. Bytes after the message are ignored.

        `buf` must end where the frame ends. Raises WireError, and nothing else, on bytes that are not this message.
        """
        if not cls.MIN_VERSION <= version <= cls.MAX_VERSION:
            raise WireError(f"{cls.__name__} has versions {cls.MIN_VERSION} to {cls.MAX_VERSION}, not {version}")
        # Reading from bytes is faster than from a view, and keeps no receive buffer alive: worth copying a small frame.
        data = memoryview(buf) if cls.HAS_RECORDS else bytes(buf)
        try:
            return cls.read_from(data, pos, version)[0]
        except (WireError, struct.error, IndexError, UnicodeDecodeError) as error:
            raise WireError(f"{cls.__name__} version {version}: {error}") from error

    def encode(self, version: int) -> bytes:
        """Encode the body, without the header. ValueError for a version or value that cannot be encoded."""
        if not self.MIN_VERSION <= version <= self.MAX_VERSION:
            raise ValueError(
                f"{type(self).__name__} has versions {self.MIN_VERSION} to {self.MAX_VERSION}, not {version}"
            )
        out: list[Buffer] = []
        try:
            self.write_to(out.append, version)
        except struct.error as error:
            raise ValueError(f"{type(self).__name__} version {version}: {error}") from error
        return b"".join(out)


class Request(Message):
    """The body of a request."""

    __slots__ = ()

    API_KEY: ClassVar[int]


class Response(Message):
    """The body of a response."""

    __slots__ = ()

    API_KEY: ClassVar[int]
