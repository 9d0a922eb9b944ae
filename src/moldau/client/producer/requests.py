"""Hand-written codec for Produce requests and responses: the producer's hot path on the wire.

A request is a list of buffers. It contains the buffers of the records, which are not copied. A test compares the result
byte for byte with the generated messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.client.data_types import Node
from moldau.records.batch_layout import (
    AFTER_CRC,
    HEADER_SIZE,
    LENGTH_END,
    MAGIC,
    NO_LEADER_EPOCH,
    TRANSACTIONAL_BIT,
    UP_TO_CRC,
    Bytes,
    Codec,
)
from moldau.records.codecs import compress
from moldau.records.crc import crc32c
from moldau.wire.messages.produce import ProduceResponse
from moldau.wire.primitives import uvarint

if TYPE_CHECKING:
    from moldau.client.producer.accumulator import Batch

FLEXIBLE_FROM: Final = 9
TOPIC_IDS_FROM: Final = 13
LAST_WITH_NAMES: Final = 12
MIN_VERSION: Final = 3
"""The first version with record batches of format 2, and the lowest that Kafka 4 serves."""

_ACKS_AND_TIMEOUT: Final = Struct(">hi")
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_NULL_STRING: Final = b"\xff\xff"
_NO_TAGS: Final = b"\0"
_THREE_TIMES_NO_TAGS: Final = b"\0\0\0"  # for the partition, the topic and the request

# Partition count, index, error, base offset, append time, log start offset, record errors, message, tags.
_GOOD: Final = Struct(">BihqqqBBB")
_ONE: Final = 2  # compact counts and lengths are written plus one
_EMPTY: Final = 1
_SHORT_NAME: Final = 0x7F
_SHORTEST_GOOD: Final = 1 + _GOOD.size


class Part(NamedTuple):
    """One batch of a request."""

    topic: str
    topic_id: bytes
    partition: int
    header: bytes
    body: Bytes


class ProduceAnswer(NamedTuple):
    """A broker's answer about one partition of a request."""

    topic: str
    topic_id: bytes
    partition: int
    code: int
    base_offset: int
    log_append_time: int
    message: str | None
    leader: tuple[int, int] | None
    """Id and epoch of the leader, if the broker is not the leader and knows it."""


def batch_header(batch: Batch, codec: Codec, transactional: bool) -> bytes:
    """Return the 61 bytes before the records. Built again for each attempt: numbers and epoch may have changed."""
    body = batch.body
    assert body is not None
    attributes = codec | (TRANSACTIONAL_BIT if transactional else 0)
    count = batch.count
    covered = AFTER_CRC.pack(
        attributes, count - 1, batch.base_timestamp, batch.max_timestamp,
        batch.producer_id, batch.producer_epoch, batch.sequence, count,
    )  # fmt: skip
    length = HEADER_SIZE - LENGTH_END + len(body)
    return UP_TO_CRC.pack(0, length, NO_LEADER_EPOCH, MAGIC, crc32c(body, crc32c(covered))) + covered


def prepare_body(batch: Batch, codec: Codec, level: int | None) -> int:
    """Compress the records at the first call, if a codec is set. Return the size of the batch on the wire."""
    if batch.body is None:
        records = batch.records()
        batch.body = records if codec == Codec.NONE else compress(codec, records, level)
    return HEADER_SIZE + len(batch.body)


def encode(
    version: int, acks: int, timeout_ms: int, transactional_id: str | None, parts: Sequence[Part]
) -> list[Bytes]:
    """Return the body of a Produce request. The parts of one topic must be adjacent."""
    flexible = version >= FLEXIBLE_FROM
    topics: list[list[Part]] = []
    for part in parts:
        if topics and topics[-1][0].topic == part.topic:
            topics[-1].append(part)
        else:
            topics.append([part])
    # All fields between the records of two batches become one buffer.
    between = bytearray(_string(transactional_id, flexible))
    between += _ACKS_AND_TIMEOUT.pack(acks, timeout_ms)
    between += _count(len(topics), flexible)
    buffers: list[Bytes] = []
    for one in topics:
        between += one[0].topic_id if version >= TOPIC_IDS_FROM else _string(one[0].topic, flexible)
        between += _count(len(one), flexible)
        for part in one:
            between += _INT32.pack(part.partition)
            between += _length(HEADER_SIZE + len(part.body), flexible)
            between += part.header
            buffers.append(bytes(between))
            buffers.append(part.body)
            between = bytearray(_NO_TAGS if flexible else b"")
        if flexible:
            between += _NO_TAGS
    if flexible:
        between += _NO_TAGS
    if between:
        buffers.append(bytes(between))
    return buffers


def beginning(
    version: int, acks: int, timeout_ms: int, transactional_id: str | None, topic: str, topic_id: bytes, partition: int
) -> bytes:
    """Return the constant first bytes of a request for one partition, up to the length of its batch."""
    flexible = version >= FLEXIBLE_FROM
    one = _count(1, flexible)
    return b"".join(
        (
            _string(transactional_id, flexible),
            _ACKS_AND_TIMEOUT.pack(acks, timeout_ms),
            one,
            topic_id if version >= TOPIC_IDS_FROM else _string(topic, flexible),
            one,
            _INT32.pack(partition),
        )
    )


def encode_one(version: int, beginning_: bytes, header: bytes, body: Bytes) -> tuple[Bytes, ...]:
    """Return the same as `encode` for a single part: the usual request of a producer that waits for each record."""
    flexible = version >= FLEXIBLE_FROM
    start = beginning_ + _length(HEADER_SIZE + len(body), flexible) + header
    return (start, body, _THREE_TIMES_NO_TAGS) if flexible else (start, body)


def acknowledged(view: memoryview, version: int) -> tuple[int, int] | None:
    """Return base offset and append time from a response for one partition without an error, otherwise None.

    The topic and partition need not be read, because responses arrive in the order of the requests.
    """
    if version < FLEXIBLE_FROM or len(view) < _SHORTEST_GOOD or view[0] != _ONE:
        return None
    at = 1 + (16 if version >= TOPIC_IDS_FROM else view[1])
    # Only names whose length fits into one byte are handled here; `decode` handles all other cases.
    if (version < TOPIC_IDS_FROM and view[1] > _SHORT_NAME) or len(view) < at + _GOOD.size or view[at] != _ONE:
        return None
    _, _, code, base_offset, append_time, _, errors, message, tags = _GOOD.unpack_from(view, at)
    if code or errors != _EMPTY or message or tags:
        return None
    return base_offset, append_time


def decode(view: memoryview, version: int) -> tuple[list[ProduceAnswer], list[Node]]:
    """Return the answer for each partition, and the addresses of the leaders that the answers name."""
    response = ProduceResponse.decode(view, version)
    answers = [
        ProduceAnswer(
            topic.name,
            topic.topic_id,
            one.index,
            one.error_code,
            one.base_offset,
            one.log_append_time_ms,
            one.error_message or next((e.batch_index_error_message for e in one.record_errors), None),
            (one.current_leader.leader_id, one.current_leader.leader_epoch)
            if one.current_leader is not None and one.current_leader.leader_id >= 0
            else None,
        )
        for topic in response.responses
        for one in topic.partition_responses
    ]
    return answers, [Node(one.node_id, one.host, one.port, one.rack) for one in response.node_endpoints]


def _string(text: str | None, flexible: bool) -> bytes:
    if text is None:
        return b"\0" if flexible else _NULL_STRING
    raw = text.encode()
    return (uvarint(len(raw) + 1) if flexible else _INT16.pack(len(raw))) + raw


def _count(number: int, flexible: bool) -> bytes:
    return uvarint(number + 1) if flexible else _INT32.pack(number)


_length = _count
