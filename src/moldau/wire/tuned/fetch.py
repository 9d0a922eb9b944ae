"""Fetch codec of the broker: decodes requests and encodes responses without copying records.

The decoder supports every version. It ignores tagged fields except the replica state, because consumers send no others.
The encoder leaves out the tagged fields of a partition (diverging epoch, current leader, snapshot id) unless the caller
passes them encoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from struct import error as StructError
from typing import Any, NamedTuple

from moldau.wire.errors import WireError
from moldau.wire.number_types import NO_BROKER_EPOCH, NO_LEADER_EPOCH, BrokerEpoch, LeaderEpoch
from moldau.wire.tuned.varint import read_uvarint, skip_tags, uvarint

FLEXIBLE_FROM = 12
TOPIC_IDS_FROM = 13
REPLICA_STATE_FROM = 15
REPLICA_STATE_TAG = 1

NO_TAGS = b"\x00"

REPEATED_BYTES = 256
REPEATED_CALLS = 4096
"""A consumer at the end of a partition sends the same request again and again, and gets the same response. Requests up
to this size and responses without records are cached, up to this number of each, because 10,000 such polls per second
must be cheap."""

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_REPLICA_STATE = Struct(">iq")


class FetchTarget(NamedTuple):
    """One partition of a Fetch request, in the order of its fields on the wire."""

    partition: int
    current_leader_epoch: LeaderEpoch
    fetch_offset: int
    last_fetched_epoch: LeaderEpoch
    log_start_offset: int
    max_bytes: int


class FetchCall(NamedTuple):
    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[tuple[str | bytes, list[FetchTarget]]]
    forgotten: list[tuple[str | bytes, list[int]]]
    rack_id: str
    replica_epoch: BrokerEpoch = NO_BROKER_EPOCH


class FetchAnswer(NamedTuple):
    """One partition of a Fetch response.

    `aborted` is a sequence of (producer id, first offset), or None for a read_uncommitted consumer.
    """

    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: Sequence[tuple[int, int]] | None
    records: bytes | bytearray | memoryview
    preferred_read_replica: int = -1
    tags: bytes = NO_TAGS


def _call_struct(version: int) -> Struct:
    """replica_id (below 15), max_wait_ms, min_bytes, max_bytes, isolation_level, then session id and epoch (7+)."""
    return Struct(">" + ("i" if version < REPLICA_STATE_FROM else "") + "iiib" + ("ii" if version >= 7 else ""))


def _target_struct(version: int) -> Struct:
    fields = ">i"  # partition
    if version >= 9:
        fields += "i"  # current_leader_epoch
    fields += "q"  # fetch_offset
    if version >= 12:
        fields += "i"  # last_fetched_epoch
    if version >= 5:
        fields += "q"  # log_start_offset
    return Struct(fields + "i")  # partition_max_bytes


_CALL = [_call_struct(version) for version in range(19)]
_TARGET = [_target_struct(version) for version in range(19)]


def _target(version: int, fields: tuple[Any, ...]) -> FetchTarget:
    if version >= 12:
        return FetchTarget._make(fields)
    if version >= 9:
        partition, epoch, offset, start, max_bytes = fields
        return FetchTarget(partition, epoch, offset, NO_LEADER_EPOCH, start, max_bytes)
    if version >= 5:
        partition, offset, start, max_bytes = fields
        return FetchTarget(partition, NO_LEADER_EPOCH, offset, NO_LEADER_EPOCH, start, max_bytes)
    partition, offset, max_bytes = fields
    return FetchTarget(partition, NO_LEADER_EPOCH, offset, NO_LEADER_EPOCH, -1, max_bytes)


def decode_fetch(body: memoryview, version: int) -> FetchCall:
    """Decode the request. Do not modify the result: it may be cached and shared."""
    try:
        if len(body) <= REPEATED_BYTES:
            return _decode_repeated(bytes(body), version)
        return _decode(body, version)
    except (StructError, IndexError, UnicodeDecodeError) as error:
        raise WireError(f"Fetch v{version} request: {error}") from None


@lru_cache(REPEATED_CALLS)
def _decode_repeated(body: bytes, version: int) -> FetchCall:
    return _decode(memoryview(body), version)


def _decode(body: memoryview, version: int) -> FetchCall:
    layout = _CALL[version]
    fields = layout.unpack_from(body, 0)
    pos = layout.size
    if version < REPLICA_STATE_FROM:
        replica_id, fields = fields[0], fields[1:]
    else:
        replica_id = -1
    max_wait_ms, min_bytes, max_bytes, isolation_level = fields[:4]
    session_id, session_epoch = fields[4:6] if version >= 7 else (0, -1)

    flexible = version >= FLEXIBLE_FROM
    target = _TARGET[version]
    topics: list[tuple[str | bytes, list[FetchTarget]]] = []
    count, pos = _read_count(body, pos, flexible)
    for _ in range(count):
        topic, pos = _read_topic(body, pos, version)
        partition_count, pos = _read_count(body, pos, flexible)
        targets = []
        for _ in range(partition_count):
            targets.append(_target(version, target.unpack_from(body, pos)))
            pos += target.size
            if flexible:
                pos = skip_tags(body, pos)
        if flexible:
            pos = skip_tags(body, pos)
        topics.append((topic, targets))

    forgotten: list[tuple[str | bytes, list[int]]] = []
    rack_id = ""
    if version >= 7:
        count, pos = _read_count(body, pos, flexible)
        for _ in range(count):
            topic, pos = _read_topic(body, pos, version)
            partition_count, pos = _read_count(body, pos, flexible)
            if pos + 4 * partition_count > len(body):
                raise WireError("array passes the end of the frame")
            forgotten.append((topic, list(Struct(f">{partition_count}i").unpack_from(body, pos))))
            pos += 4 * partition_count
            if flexible:
                pos = skip_tags(body, pos)
    if version >= 11:
        rack_id, pos = _read_string(body, pos, flexible)
    replica_epoch = NO_BROKER_EPOCH
    if version >= REPLICA_STATE_FROM:
        replica_id, replica_epoch = _replica_state(body, pos)
    elif flexible:
        skip_tags(body, pos)
    return FetchCall(
        replica_id,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        topics,
        forgotten,
        rack_id,
        replica_epoch,
    )


def _replica_state(body: memoryview, pos: int) -> tuple[int, BrokerEpoch]:
    """The (broker id, broker epoch) of a follower; both -1 for a consumer."""
    count, pos = read_uvarint(body, pos)
    replica_id, replica_epoch = -1, NO_BROKER_EPOCH
    for _ in range(count):
        tag, pos = read_uvarint(body, pos)
        size, pos = read_uvarint(body, pos)
        if pos + size > len(body):
            raise WireError("tagged field passes the end of the frame")
        if tag == REPLICA_STATE_TAG:
            replica_id, replica_epoch = _REPLICA_STATE.unpack_from(body, pos)
        pos += size
    return replica_id, replica_epoch


def _read_count(body: memoryview, pos: int, flexible: bool) -> tuple[int, int]:
    if flexible:
        count, pos = read_uvarint(body, pos)
        count -= 1
    else:
        (count,) = _INT32.unpack_from(body, pos)
        pos += 4
    if count > len(body) - pos:
        raise WireError(f"array of {count} elements in a frame of {len(body)} bytes")
    return max(count, 0), pos


def _read_topic(body: memoryview, pos: int, version: int) -> tuple[str | bytes, int]:
    if version >= TOPIC_IDS_FROM:
        topic = bytes(body[pos : pos + 16])
        if len(topic) < 16:
            raise WireError("topic id passes the end of the frame")
        return topic, pos + 16
    return _read_string(body, pos, version >= FLEXIBLE_FROM)


def _read_string(body: memoryview, pos: int, flexible: bool) -> tuple[str, int]:
    if flexible:
        size, pos = read_uvarint(body, pos)
        size -= 1
    else:
        (size,) = _INT16.unpack_from(body, pos)
        pos += 2
    if size < 0 or pos + size > len(body):
        raise WireError(f"string of {size} bytes at {pos} passes the end of a frame of {len(body)}")
    return str(body[pos : pos + size], "utf-8"), pos + size


def _answer_struct(version: int) -> Struct:
    return Struct(">ihqq" + ("q" if version >= 5 else ""))


_ANSWER = [_answer_struct(version) for version in range(19)]
_PRODUCER_OFFSET = Struct(">qq")


def encode_fetch(
    version: int,
    error_code: int,
    session_id: int,
    topics: Sequence[tuple[str | bytes, Sequence[FetchAnswer]]],
    throttle_time_ms: int = 0,
    tags: bytes = NO_TAGS,
) -> list[bytes | bytearray | memoryview]:
    """The buffers of the response; record bytes are passed through without a copy."""
    if len(topics) == 1 and len(topics[0][1]) == 1 and tags is NO_TAGS:
        topic, (answer,) = topics[0]
        if answer.aborted is None and not len(answer.records):
            return [_encode_repeated(version, error_code, session_id, topic, answer, throttle_time_ms)]
    return _encode(version, error_code, session_id, topics, throttle_time_ms, tags)


@lru_cache(REPEATED_CALLS)
def _encode_repeated(
    version: int, error_code: int, session_id: int, topic: str | bytes, answer: FetchAnswer, throttle_time_ms: int
) -> bytes:
    (body,) = _encode(version, error_code, session_id, [(topic, [answer])], throttle_time_ms)
    return bytes(body)


def _encode(
    version: int,
    error_code: int,
    session_id: int,
    topics: Sequence[tuple[str | bytes, Sequence[FetchAnswer]]],
    throttle_time_ms: int,
    tags: bytes = NO_TAGS,
) -> list[bytes | bytearray | memoryview]:
    flexible = version >= FLEXIBLE_FROM
    out: list[bytes | bytearray | memoryview] = []
    head = bytearray(_INT32.pack(throttle_time_ms))
    if version >= 7:
        head += _INT16.pack(error_code) + _INT32.pack(session_id)
    head += _count(len(topics), flexible)
    for topic, answers in topics:
        if isinstance(topic, bytes):
            head += topic
        else:
            name = topic.encode()
            head += (uvarint(len(name) + 1) if flexible else _INT16.pack(len(name))) + name
        head += _count(len(answers), flexible)
        for answer in answers:
            head += _answer_head(version, flexible, answer)
            if len(answer.records):
                out.append(bytes(head))
                out.append(answer.records)
                head = bytearray()
            if flexible:
                head += answer.tags
        if flexible:
            head += NO_TAGS
    if flexible:
        head += tags
    if head:
        out.append(bytes(head))
    return out


_DIVERGING_EPOCH = Struct(">BBBiqB")  # one tag, number 0, 13 bytes: epoch, end offset, no tags of its own


def diverging_epoch_tag(epoch: int, end_offset: int) -> bytes:
    """The tagged fields of a partition whose follower must truncate its log."""
    return _DIVERGING_EPOCH.pack(1, 0, 13, epoch, end_offset, 0)


_CURRENT_LEADER = Struct(">BBBiiB")  # one tag, number 1, 9 bytes: leader, its epoch, no tags of its own


def current_leader_tag(leader_id: int, leader_epoch: int) -> bytes:
    """The tagged fields of a partition for which another broker is the leader."""
    return _CURRENT_LEADER.pack(1, 1, 9, leader_id, leader_epoch, 0)


def node_endpoints_tag(nodes: Sequence[tuple[int, str, int, str | None]]) -> bytes:
    """The tagged fields of a response: the addresses of the leaders that it names, as (id, host, port, rack)."""
    content = uvarint(len(nodes) + 1)
    for node_id, host, port, rack in nodes:
        content += _INT32.pack(node_id) + uvarint(len(host.encode()) + 1) + host.encode() + _INT32.pack(port)
        content += (b"\0" if rack is None else uvarint(len(rack.encode()) + 1) + rack.encode()) + NO_TAGS
    return b"\x01\x00" + uvarint(len(content)) + content


def _answer_head(version: int, flexible: bool, answer: FetchAnswer) -> bytes:
    fixed = _ANSWER[version].pack(*answer[: 5 if version >= 5 else 4])
    aborted = answer.aborted
    if aborted is None:
        middle = b"\x00" if flexible else b"\xff\xff\xff\xff"
    else:
        middle = _count(len(aborted), flexible)
        for producer_offset in aborted:
            middle += _PRODUCER_OFFSET.pack(*producer_offset)
            if flexible:
                middle += NO_TAGS
    if version >= 11:
        middle += _INT32.pack(answer.preferred_read_replica)
    return fixed + middle + _count(len(answer.records), flexible)


def _count(count: int, flexible: bool) -> bytes:
    return uvarint(count + 1) if flexible else _INT32.pack(count)
