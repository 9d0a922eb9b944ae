"""Raw request frames, for loads that no ordinary client creates, such as thousands of parked fetches.

Only the few versions used here, and only the response fields that are needed. The load must cost less than the broker's
work, so everything possible is skipped in decoding, and requests are built once and sent many times.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from typing import Final

from moldau.records import BatchRecord, encode_batch

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS = 0, 1, 2, 3, 18
PRODUCE_VERSION, FETCH_VERSION, LIST_OFFSETS_VERSION, METADATA_VERSION = 7, 11, 1, 1

CLIENT_ID: Final = b"bench"
NO_TOPIC_FILTER: Final = -1
CONNECT_TIMEOUT_S: Final = 30

LATEST: Final = -1

_SIZE = struct.Struct(">i")
_OFFSET = struct.Struct(">ihqq")
"""A partition in a ListOffsets response: index, error code, timestamp, offset."""


def request(api: int, version: int, body: bytes, correlation: int = 0, client_id: bytes = CLIENT_ID) -> bytes:
    header = struct.pack(">hhih", api, version, correlation, len(client_id)) + client_id
    return _SIZE.pack(len(header) + len(body)) + header + body


def api_versions() -> bytes:
    return request(API_VERSIONS, 0, b"")


def metadata() -> bytes:
    """A Metadata request for all topics."""
    return request(METADATA, METADATA_VERSION, struct.pack(">i", NO_TOPIC_FILTER))


def batch(records: int, size: int = 100, timestamp: int = 0) -> bytes:
    value = b"x" * size
    return bytes(encode_batch(BatchRecord(offset, timestamp, None, value) for offset in range(records)))


def produce(topic: str, partition: int, records: bytes, acks: int = 1, client_id: bytes = CLIENT_ID) -> bytes:
    body = struct.pack(">hhii", -1, acks, 30_000, 1) + _string(topic)
    body += struct.pack(">iii", 1, partition, len(records)) + records
    return request(PRODUCE, PRODUCE_VERSION, body, client_id=client_id)


def fetch(
    topic: str, partition: int, offset: int, *, max_bytes: int, max_wait_ms: int = 0, min_bytes: int = 1
) -> bytes:
    """A fetch of one partition outside any session."""
    body = struct.pack(">iiiibii", -1, max_wait_ms, min_bytes, max_bytes, 0, 0, -1)
    body += struct.pack(">i", 1) + _string(topic)
    body += struct.pack(">iiiqqi", 1, partition, -1, offset, -1, max_bytes)
    body += struct.pack(">i", 0) + _string("")
    return request(FETCH, FETCH_VERSION, body)


def latest_offsets(topic: str, partitions: Sequence[int]) -> bytes:
    """A ListOffsets request for the end of these partitions. Only a partition's leader answers it without an error."""
    body = struct.pack(">ii", -1, 1) + _string(topic) + struct.pack(">i", len(partitions))
    body += b"".join(struct.pack(">iq", partition, LATEST) for partition in partitions)
    return request(LIST_OFFSETS, LIST_OFFSETS_VERSION, body)


def led(answer: bytes) -> list[int]:
    """The partitions without an error in a ListOffsets response about one topic."""
    (name,) = struct.unpack_from(">h", answer, 8)
    partitions = _OFFSET.iter_unpack(answer[8 + 2 + name + 4 :])
    return [index for index, code, _, _ in partitions if not code]


def produce_error(answer: bytes) -> int:
    """The error code of a Produce response for one partition."""
    (name,) = struct.unpack_from(">h", answer, 8)
    (code,) = struct.unpack_from(">h", answer, 10 + name + 8)
    return int(code)


def fetched(answer: bytes) -> tuple[int, int]:
    """The error code of a Fetch response for one partition, and the size of its records in bytes."""
    at = 4 + 4 + 2 + 4 + 4
    (name,) = struct.unpack_from(">h", answer, at)
    at += 2 + name + 4 + 4
    (code,) = struct.unpack_from(">h", answer, at)
    at += 2 + 8 + 8 + 8
    (aborted,) = struct.unpack_from(">i", answer, at)
    at += 4 + max(aborted, 0) * 16 + 4
    (size,) = struct.unpack_from(">i", answer, at)
    return int(code), int(size)


def connect(host: str, port: int) -> socket.socket:
    connection = socket.create_connection((host, port), CONNECT_TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def call(connection: socket.socket, frame: bytes) -> bytes:
    connection.sendall(frame)
    return receive(connection)


def receive(connection: socket.socket) -> bytes:
    """One response, without its length."""
    (size,) = _SIZE.unpack(_exactly(connection, 4))
    return _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts = bytearray(size)
    view = memoryview(parts)
    while view:
        count = connection.recv_into(view)
        if not count:
            raise ConnectionResetError("the broker closed the connection")
        view = view[count:]
    return bytes(parts)


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data
