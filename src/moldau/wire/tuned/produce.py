"""Produce codec of the broker: decodes requests and encodes responses without an object per partition.

The decoder supports every version. The encoder supports responses without error messages, which are nearly all; others
use `moldau.wire.messages.produce`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from moldau.wire.errors import WireError
from moldau.wire.tuned.varint import read_uvarint, skip_tags, uvarint

LOG_START_OFFSET_FROM = 5
FLEXIBLE_FROM = 9
TOPIC_IDS_FROM = 13

ONE_PARTITION_ANSWERS = 1024
"""Cache size for the constant parts of single-partition responses, per topic and version."""

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_ACKS_TIMEOUT = Struct(">hi")
_ACKS_TIMEOUT_COUNT = Struct(">hii")
_INDEX_SIZE = Struct(">ii")


class ProduceCall(NamedTuple):
    """A Produce request. `topics`: (name or id, [(partition, records)]); the record views point into the frame."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[tuple[str | bytes, list[tuple[int, memoryview | None]]]]


class PartitionAnswer(NamedTuple):
    """One partition of a Produce response, in the order of its fields on the wire."""

    partition: int
    error_code: int
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int


def decode_produce(body: memoryview, version: int) -> ProduceCall:
    try:
        if version >= FLEXIBLE_FROM:
            return _decode_flexible(body, version)
        return _decode_classic(body, version)
    except (StructError, IndexError, UnicodeDecodeError) as error:
        raise WireError(f"Produce v{version} request: {error}") from None


def _decode_classic(body: memoryview, version: int) -> ProduceCall:
    transactional_id = None
    pos = 0
    if version >= 3:
        (size,) = _INT16.unpack_from(body, 0)
        pos = 2
        if size >= 0:
            transactional_id = str(_slice(body, pos, size), "utf-8")
            pos += size
    acks, timeout_ms, topic_count = _ACKS_TIMEOUT_COUNT.unpack_from(body, pos)
    pos += 10
    topics: list[tuple[str | bytes, list[tuple[int, memoryview | None]]]] = []
    for _ in range(topic_count):
        (size,) = _INT16.unpack_from(body, pos)
        pos += 2
        name = str(_slice(body, pos, size), "utf-8")
        pos += size
        (partition_count,) = _INT32.unpack_from(body, pos)
        pos += 4
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(partition_count):
            index, size = _INDEX_SIZE.unpack_from(body, pos)
            pos += 8
            if size < 0:
                partitions.append((index, None))
            else:
                partitions.append((index, _slice(body, pos, size)))
                pos += size
        topics.append((name, partitions))
    return ProduceCall(transactional_id, acks, timeout_ms, topics)


def _decode_flexible(body: memoryview, version: int) -> ProduceCall:
    transactional_id = None
    size, pos = read_uvarint(body, 0)
    if size:
        transactional_id = str(_slice(body, pos, size - 1), "utf-8")
        pos += size - 1
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(body, pos)
    topic_count, pos = read_uvarint(body, pos + 6)
    topics: list[tuple[str | bytes, list[tuple[int, memoryview | None]]]] = []
    for _ in range(topic_count - 1):
        topic: str | bytes
        if version >= TOPIC_IDS_FROM:
            topic = bytes(_slice(body, pos, 16))
            pos += 16
        else:
            size, pos = read_uvarint(body, pos)
            topic = str(_slice(body, pos, size - 1), "utf-8")
            pos += size - 1
        partition_count, pos = read_uvarint(body, pos)
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(partition_count - 1):
            (index,) = _INT32.unpack_from(body, pos)
            size, pos = read_uvarint(body, pos + 4)
            if size == 0:
                partitions.append((index, None))
            else:
                partitions.append((index, _slice(body, pos, size - 1)))
                pos += size - 1
            pos = skip_tags(body, pos)
        pos = skip_tags(body, pos)
        topics.append((topic, partitions))
    skip_tags(body, pos)
    return ProduceCall(transactional_id, acks, timeout_ms, topics)


def _slice(body: memoryview, pos: int, size: int) -> memoryview:
    if size < 0 or pos + size > len(body):
        raise WireError(f"field of {size} bytes at {pos} passes the end of a frame of {len(body)}")
    return body[pos : pos + size]


def _partition_struct(version: int) -> tuple[Struct, bytes]:
    """The fixed fields of a partition in a response, and the constant bytes after them (no record errors, no message,
    no tags).
    """
    fixed = ">ihq"
    if version >= 2:
        fixed += "q"
    if version >= LOG_START_OFFSET_FROM:
        fixed += "q"
    if version >= FLEXIBLE_FROM:
        tail = b"\x01\x00\x00"  # empty array, null string, no tags
    elif version >= 8:
        tail = b"\x00\x00\x00\x00\xff\xff"
    else:
        tail = b""
    return Struct(fixed), tail


_PARTITION = [_partition_struct(version) for version in range(14)]


def encode_produce(
    version: int, topics: Sequence[tuple[str | bytes, Sequence[PartitionAnswer]]], throttle_time_ms: int = 0
) -> bytes:
    if len(topics) == 1 and len(topics[0][1]) == 1 and version >= LOG_START_OFFSET_FROM:
        # Nearly every response: the bytes before and after the fields of the single partition are always the same.
        topic, (answer,) = topics[0]
        before, after = _around_one(version, topic, throttle_time_ms)
        return before + _PARTITION[version][0].pack(*answer) + after
    return b"".join(_parts(version, topics, throttle_time_ms))


@lru_cache(ONE_PARTITION_ANSWERS)
def _around_one(version: int, topic: str | bytes, throttle_time_ms: int) -> tuple[bytes, bytes]:
    parts = _parts(version, [(topic, [PartitionAnswer(0, 0, 0, 0, 0)])], throttle_time_ms)
    fixed, tail = _PARTITION[version]
    place = parts.index(fixed.pack(0, 0, 0, 0, 0) + tail)
    return b"".join(parts[:place]), tail + b"".join(parts[place + 1 :])


def _parts(
    version: int, topics: Sequence[tuple[str | bytes, Sequence[PartitionAnswer]]], throttle_time_ms: int
) -> list[bytes]:
    flexible = version >= FLEXIBLE_FROM
    fixed, tail = _PARTITION[version]
    parts = [uvarint(len(topics) + 1) if flexible else _INT32.pack(len(topics))]
    for topic, partitions in topics:
        if isinstance(topic, bytes):
            parts.append(topic)
        else:
            name = topic.encode()
            parts.append((uvarint(len(name) + 1) if flexible else _INT16.pack(len(name))) + name)
        parts.append(uvarint(len(partitions) + 1) if flexible else _INT32.pack(len(partitions)))
        for answer in partitions:
            if version >= LOG_START_OFFSET_FROM:
                parts.append(fixed.pack(*answer) + tail)
            else:
                parts.append(fixed.pack(*answer[: 4 if version >= 2 else 3]) + tail)
        if flexible:
            parts.append(b"\x00")
    if version >= 1:
        parts.append(_INT32.pack(throttle_time_ms))
    if flexible:
        parts.append(b"\x00")
    return parts
