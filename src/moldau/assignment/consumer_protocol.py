"""Consumer protocol: the subscriptions and assignments that classic groups carry as opaque bytes.

Two bytes of version come first. A reader of an older version ignores what a newer one has at its end.

`decode_…` raise WireError for bytes that cannot be read; `parse_…` return nothing instead, for bytes of other clients.
"""

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

SUBSCRIPTION_VERSION: Final = ConsumerProtocolSubscription.MAX_VERSION
ASSIGNMENT_VERSION: Final = ConsumerProtocolAssignment.MAX_VERSION

TopicIndexes = tuple[str, Sequence[int]]
"""A topic and some of its partitions."""

_VERSION: Final = Struct(">h")


def encode_subscription(subscription: ConsumerProtocolSubscription) -> bytes:
    return _VERSION.pack(SUBSCRIPTION_VERSION) + subscription.encode(SUBSCRIPTION_VERSION)


def decode_subscription(data: bytes) -> ConsumerProtocolSubscription:
    version = min(_version(data), SUBSCRIPTION_VERSION)
    return ConsumerProtocolSubscription.decode(data, version, _VERSION.size)


def parse_subscription(data: bytes) -> ConsumerProtocolSubscription | None:
    try:
        return decode_subscription(data)
    except WireError:
        return None


def subscription_version(data: bytes) -> int:
    """The version that a member wrote; 0 if the bytes have none."""
    try:
        return _version(data)
    except WireError:
        return 0


def encode_assignment(
    partitions: Iterable[TopicIndexes], version: int = ASSIGNMENT_VERSION, user_data: bytes | None = None
) -> bytes:
    """The bytes for a member that reads `version` or, if that is newer than ours, our newest."""
    version = max(0, min(version, ASSIGNMENT_VERSION))
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartitions(topic=topic, partitions=list(indexes))
            for topic, indexes in partitions
        ],
        user_data=user_data,
    )
    return _VERSION.pack(version) + assignment.encode(version)


def decode_assignment(data: bytes) -> list[TopicIndexes]:
    version = min(_version(data), ASSIGNMENT_VERSION)
    found = ConsumerProtocolAssignment.decode(data, version, _VERSION.size)
    return [(topic.topic, topic.partitions) for topic in found.assigned_partitions]


def parse_assignment(data: bytes) -> list[TopicIndexes]:
    try:
        return decode_assignment(data)
    except WireError:
        return []


def _version(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise WireError(f"{len(data)} bytes are too few for a subscription or an assignment")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise WireError(f"version {version} of the consumer protocol does not exist")
    return version
