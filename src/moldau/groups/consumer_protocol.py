"""What consumers say in the opaque bytes of the classic protocol. A broker hardly needs it; a few decisions do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final

from moldau.wire.errors import WireError
from moldau.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartitions,
    ConsumerProtocolSubscription,
)

CONSUMER_PROTOCOL: Final = "consumer"
"""The protocol type of consumers."""

_VERSION: Final = Struct(">h")


def parse_subscription(metadata: bytes) -> ConsumerProtocolSubscription | None:
    """What a consumer subscribes to; None where the bytes are none of a consumer's."""
    version = _version(metadata)
    if version is None:
        return None
    try:
        return ConsumerProtocolSubscription.decode(metadata, min(version, ConsumerProtocolSubscription.MAX_VERSION), 2)
    except WireError:
        return None


def parse_assignment(assignment: bytes) -> list[tuple[str, Sequence[int]]]:
    """Topics and partitions of a consumer's assignment; none where the bytes are no such thing."""
    version = _version(assignment)
    if version is None:
        return []
    try:
        found = ConsumerProtocolAssignment.decode(assignment, min(version, ConsumerProtocolAssignment.MAX_VERSION), 2)
    except WireError:
        return []
    return [(topic.topic, topic.partitions) for topic in found.assigned_partitions]


def encode_assignment(partitions: Iterable[tuple[str, Sequence[int]]], version: int = 0) -> bytes:
    version = max(0, min(version, ConsumerProtocolAssignment.MAX_VERSION))
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartitions(topic=topic, partitions=list(indexes))
            for topic, indexes in partitions
        ]
    )
    return _VERSION.pack(version) + assignment.encode(version)


def subscription_version(metadata: bytes) -> int:
    version = _version(metadata)
    return 0 if version is None else version


def _version(data: bytes) -> int | None:
    if len(data) < _VERSION.size:
        return None
    version: int = _VERSION.unpack_from(data)[0]
    return version if version >= 0 else None
