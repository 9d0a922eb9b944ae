"""Endless stream of malformed frames, the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from struct import Struct
from typing import NamedTuple

from moldau.wire.api import ApiKey
from moldau.wire.errors import WireError
from moldau.wire.header import decode_request_header
from moldau.wire.messages.create_partitions import CreatePartitionsRequest
from moldau.wire.messages.create_topics import CreateTopicsRequest
from tests.fuzz.messages import HOSTILE_INT16, HOSTILE_INT32, HOSTILE_INT64, Requests, served

FRAMES_A_GENERATION = 20_000
"""The number of frames that are derived from one set of valid requests."""

REQUESTS_A_VERSION = 4
"""Valid requests of each version of each API in a set; only one if it changes metadata, which needs an fsync."""

CHANGES_METADATA = frozenset(
    (
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
    )
)

UNTOUCHED = 0.45
"""The share of frames that are sent without mutation, possibly with a damaged batch inside."""

MAX_NEW_PARTITIONS = 20
"""A frame that creates more partitions is not sent. Ten thousand in one request are allowed, and keep the disk busy
for seconds; that is expected, but not tested here."""

_LENGTH = Struct(">i")
_API_AND_VERSION = Struct(">hh")
_HEADER_BYTES = 10


class Frame(NamedTuple):
    """Bytes to send, including the length field."""

    data: bytes
    last: bool
    """Whether the framing is broken, so that later bytes on the same connection are meaningless."""


class Frames:
    """An iterator of frames. `topics` may be changed between frames, after the broker's topics have changed."""

    def __init__(self, seed: int, topics: Mapping[str, bytes], node_id: int) -> None:
        self.topics = topics
        self._node_id = node_id
        self._rng = random.Random(seed)
        self._valid: list[bytes] = []
        self._left = 0

    def __iter__(self) -> Frames:
        return self

    def __next__(self) -> Frame:
        while True:
            frame = self._any()
            if new_partitions(frame.data) <= MAX_NEW_PARTITIONS:
                return frame

    def _any(self) -> Frame:
        if not self._left:
            self._valid = self._generation()
            self._left = FRAMES_A_GENERATION
        self._left -= 1
        rng = self._rng
        frame = rng.choice(self._valid)
        if rng.random() < UNTOUCHED:
            return _framed(frame)
        return rng.choice(MUTATIONS)(rng, frame, self._valid)

    def _generation(self) -> list[bytes]:
        requests = Requests(self._rng, self.topics, self._node_id)
        return [
            requests.frame(case, version)
            for case, versions in served()
            for version in versions
            for _ in range(1 if case.cls.API_KEY in CHANGES_METADATA else REQUESTS_A_VERSION)  # type: ignore[attr-defined]
        ]


def new_partitions(data: bytes) -> int:
    """The number of partitions that a frame asks for; 0 if it creates none or cannot be decoded."""
    try:
        header, at = decode_request_header(data, 4)
        if header.api_key == ApiKey.CREATE_TOPICS:
            topics = CreateTopicsRequest.decode(data, header.api_version, at).topics
            return sum(max(topic.num_partitions, len(topic.assignments)) for topic in topics)
        if header.api_key == ApiKey.CREATE_PARTITIONS:
            return sum(topic.count for topic in CreatePartitionsRequest.decode(data, header.api_version, at).topics)
    except WireError:
        pass
    return 0


Mutation = Callable[[random.Random, bytes, list[bytes]], Frame]


def _framed(frame: bytes | bytearray) -> Frame:
    return Frame(_LENGTH.pack(len(frame)) + frame, last=False)


def _flip_bits(rng: random.Random, frame: bytes, _: list[bytes]) -> Frame:
    data = bytearray(frame)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return _framed(data)


def _flip_bits_of_the_body(rng: random.Random, frame: bytes, _: list[bytes]) -> Frame:
    data = bytearray(frame)
    if len(data) > _HEADER_BYTES:
        data[rng.randrange(_HEADER_BYTES, len(data))] ^= 1 << rng.randrange(8)
    return _framed(data)


def _put_a_hostile_number(rng: random.Random, frame: bytes, _: list[bytes]) -> Frame:
    """At a position where a length, a count or an id may be."""
    data = bytearray(frame)
    layout, numbers = rng.choice(
        ((Struct(">h"), HOSTILE_INT16), (Struct(">i"), HOSTILE_INT32), (Struct(">q"), HOSTILE_INT64))
    )
    if len(data) >= _HEADER_BYTES + layout.size:
        layout.pack_into(data, rng.randrange(_HEADER_BYTES, len(data) - layout.size + 1), rng.choice(numbers))
    return _framed(data)


def _put_a_hostile_varint(rng: random.Random, frame: bytes, _: list[bytes]) -> Frame:
    at = rng.randrange(len(frame))
    varint = rng.choice(
        (b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x80\x80", b"\x80", b"\x00")
    )
    return _framed(frame[:at] + varint + frame[at + rng.randrange(len(varint) + 1) :])


def _cut_short(rng: random.Random, frame: bytes, _: list[bytes]) -> Frame:
    return _framed(frame[: rng.randrange(len(frame))])


def _drop_some(rng: random.Random, frame: bytes, _: list[bytes]) -> Frame:
    at = rng.randrange(len(frame))
    return _framed(frame[:at] + frame[at + rng.randrange(1, 9) :])


def _repeat_some(rng: random.Random, frame: bytes, _: list[bytes]) -> Frame:
    start = rng.randrange(len(frame))
    end = min(len(frame), start + rng.randrange(1, 64))
    return _framed(frame[:end] + frame[start:end] * rng.randrange(1, 20) + frame[end:])


def _splice(rng: random.Random, frame: bytes, others: list[bytes]) -> Frame:
    other = rng.choice(others)
    return _framed(frame[: rng.randrange(len(frame))] + other[rng.randrange(len(other)) :])


def _another_version(rng: random.Random, frame: bytes, _: list[bytes]) -> Frame:
    """The body of one version with the number of another version, of another API, or of none."""
    data = bytearray(frame)
    api, version = _API_AND_VERSION.unpack_from(data)
    if rng.random() < 0.7:
        version = rng.choice((version - 1, version + 1, rng.randrange(20), rng.choice(HOSTILE_INT16)))
    else:
        api = rng.choice((rng.randrange(100), rng.choice(HOSTILE_INT16)))
    _API_AND_VERSION.pack_into(data, 0, api, version)
    return _framed(data)


def _random_bytes(rng: random.Random, _: bytes, __: list[bytes]) -> Frame:
    return _framed(rng.randbytes(rng.choice((0, 1, 4, 9, 10, 11, rng.randrange(300)))))


def _lie_about_the_length(rng: random.Random, frame: bytes, _: list[bytes]) -> Frame:
    size = rng.choice((-1, 0, len(frame) - 1, len(frame) + 1, len(frame) * 2, 100 << 20, (100 << 20) + 1, 0x7FFFFFFF))
    return Frame(_LENGTH.pack(size) + frame, last=True)


def _stop_in_the_middle(rng: random.Random, frame: bytes, _: list[bytes]) -> Frame:
    return Frame(_framed(frame).data[: rng.randrange(4 + len(frame))], last=True)


MUTATIONS: tuple[Mutation, ...] = (
    _flip_bits,
    _flip_bits_of_the_body,
    _flip_bits_of_the_body,
    _flip_bits_of_the_body,
    _put_a_hostile_number,
    _put_a_hostile_number,
    _put_a_hostile_number,
    _put_a_hostile_varint,
    _cut_short,
    _drop_some,
    _repeat_some,
    _splice,
    _another_version,
    _random_bytes,
    _lie_about_the_length,
    _stop_in_the_middle,
)
