"""Embedded consumer protocol of classic groups: subscriptions and assignments as bytes in Kafka's format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from moldau.assignment import consumer_protocol
from moldau.client.consumer.assignors.assignor import MemberSubscription
from moldau.client.data_types import TopicPartition
from moldau.wire.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartitions,
)
from moldau.wire.topic_partition import by_topic


def encode_subscription(subscription: MemberSubscription) -> bytes:
    """Encode a subscription for JoinGroup. Equal subscriptions give equal bytes, because brokers compare them."""
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
    return consumer_protocol.encode_subscription(message)


def decode_subscription(data: bytes, instance_id: str | None = None) -> MemberSubscription:
    """Decode the subscription of a member, in any version. Raises WireError if it cannot be read."""
    message = consumer_protocol.decode_subscription(data)
    owned = [TopicPartition(one.topic, index) for one in message.owned_partitions for index in one.partitions]
    user_data = None if message.user_data is None else bytes(message.user_data)
    return MemberSubscription(
        tuple(message.topics), tuple(owned), message.generation_id, user_data, instance_id, message.rack_id
    )


def encode_assignment(partitions: Iterable[TopicPartition], user_data: bytes | None = None) -> bytes:
    """Encode the assignment of one member for SyncGroup."""
    return consumer_protocol.encode_assignment(by_topic(partitions).items(), user_data=user_data)


def decode_assignment(data: bytes) -> Sequence[TopicPartition]:
    """Decode the assignment of this member. Empty bytes mean that the leader assigned nothing to it."""
    if not data:
        return ()
    found = consumer_protocol.decode_assignment(data)
    return sorted(TopicPartition(topic, index) for topic, indexes in found for index in indexes)
