"""What consumers say to each other through a classic group: subscriptions and assignments, in Kafka's format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final

from moldau.client.consumer.assignors.model import NO_GENERATION, MemberSubscription
from moldau.client.model import TopicPartition
from moldau.wire.errors import WireError
from moldau.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartitions,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartitions,
)

PROTOCOL_TYPE: Final = "consumer"

SUBSCRIPTION_VERSION: Final = 3
ASSIGNMENT_VERSION: Final = 3

_VERSION: Final = Struct(">h")


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition indexes by topic, both in order."""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return topics


def encode_subscription(subscription: MemberSubscription) -> bytes:
    """What a member says when it joins. Two subscriptions that are equal are equal bytes: brokers compare them."""
    message = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=[
            ConsumerProtocolSubscriptionTopicPartitions(topic=topic, partitions=indexes)
            for topic, indexes in by_topic(subscription.owned).items()
        ],
        generation_id=subscription.generation,
        rack_id=subscription.rack,
    )
    return _VERSION.pack(SUBSCRIPTION_VERSION) + message.encode(SUBSCRIPTION_VERSION)


def decode_subscription(data: bytes, instance_id: str | None = None) -> MemberSubscription:
    """What another member said, in whatever version; a WireError where it cannot be read."""
    version, body = _versioned(data, SUBSCRIPTION_VERSION)
    # A later version has more at its end, which is not for us.
    message = ConsumerProtocolSubscription.decode(body, version)
    owned = [TopicPartition(one.topic, index) for one in message.owned_partitions for index in one.partitions]
    generation = message.generation_id if version >= 2 else NO_GENERATION
    user_data = None if message.user_data is None else bytes(message.user_data)
    return MemberSubscription(tuple(message.topics), tuple(owned), generation, user_data, instance_id, message.rack_id)


def encode_assignment(partitions: Iterable[TopicPartition], user_data: bytes | None = None) -> bytes:
    """What the leader assigns to one member."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartitions(topic=topic, partitions=indexes)
            for topic, indexes in by_topic(partitions).items()
        ],
        user_data=user_data,
    )
    return _VERSION.pack(ASSIGNMENT_VERSION) + message.encode(ASSIGNMENT_VERSION)


def decode_assignment(data: bytes) -> Sequence[TopicPartition]:
    """What this member was assigned. A member that the leader left out gets no bytes at all, and no partitions."""
    if not data:
        return ()
    version, body = _versioned(data, ASSIGNMENT_VERSION)
    message = ConsumerProtocolAssignment.decode(body, version)
    return sorted(TopicPartition(one.topic, index) for one in message.assigned_partitions for index in one.partitions)


def _versioned(data: bytes, newest: int) -> tuple[int, bytes]:
    if len(data) < _VERSION.size:
        raise WireError(f"{len(data)} bytes are too few for a subscription or an assignment")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise WireError(f"version {version} of the consumer protocol does not exist")
    return min(version, newest), data[_VERSION.size :]
