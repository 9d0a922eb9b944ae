"""Frames between a change capture connector and its Debezium process, over the pipes of the process.

A frame is a length and a pickled message. Both ends are the same installation of Moldau, and nobody else has the pipes.
"""

from __future__ import annotations

import pickle
import struct
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

_LENGTH: Final = struct.Struct(">Q")


@dataclass(frozen=True)
class StartCapture:
    """To the process, once: what to do."""

    name: str
    properties: dict[str, str] = field(repr=False)
    offsets: list[tuple[dict[str, Any], dict[str, Any]]]
    directory: str
    java_options: list[str]
    only_validate: bool = False
    mariadb: bool = False
    schemas: bool = True
    """Whether each change carries its schema."""
    lease_s: float = 10.0
    """How long the process works on without a sign of its connector."""


@dataclass(frozen=True)
class CaptureLease:
    """To the process, about every second: the connector lives. Without it the process ends."""


@dataclass(frozen=True)
class CaptureStored:
    """To the process: everything up to this frame is stored, the database may forget it."""

    sequence: int


@dataclass(frozen=True)
class CaptureStop:
    """To the process: end in an orderly way."""


@dataclass(frozen=True)
class CapturedTopic:
    """The changes for one topic, in their order: JSON, with schemas if `StartCapture` asked for them."""

    topic: str
    keys: list[bytes | None]
    values: list[bytes | None]


@dataclass(frozen=True)
class CapturedChanges:
    """From the process: changes, and the offset after them."""

    sequence: int
    topics: list[CapturedTopic]
    partition: dict[str, Any]
    offset: dict[str, Any]

    @property
    def rows(self) -> int:
        return sum(len(one.values) for one in self.topics)


@dataclass(frozen=True)
class CaptureEnded:
    """From the process, its last frame: why the engine has ended."""

    message: str


@dataclass(frozen=True)
class CaptureProblems:
    """From the process: what Debezium's validation found, by the name of the setting."""

    problems: dict[str, list[str]]


def write_frame(stream: BinaryIO, message: Any) -> None:
    content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    stream.write(_LENGTH.pack(len(content)) + content)
    stream.flush()


def read_frame(stream: BinaryIO) -> Any:
    """The next message; None at the end of the stream."""
    head = _read(stream, _LENGTH.size)
    if head is None:
        return None
    content = _read(stream, _LENGTH.unpack(head)[0])
    return None if content is None else pickle.loads(content)


def _read(stream: BinaryIO, size: int) -> bytes | None:
    parts = []
    while size:
        part = stream.read(size)
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
