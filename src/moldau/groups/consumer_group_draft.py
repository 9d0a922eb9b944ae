"""Consumer group draft: a copy of a group that collects the changes of one decision, and their records.

A decision has steps that depend on each other: a member joins, so the group epoch is bumped, so there is a new target
assignment, so the member gets partitions. The draft applies each step to a copy of the group and adds its record. The
group itself changes when the records are replayed, by the same setters. A draft of a refused request is dropped.
"""

from __future__ import annotations

from moldau.coordinator.outcome import StoredRecord
from moldau.groups.consumer_group import (
    Assignment,
    ClassicMetadata,
    ConsumerGroup,
    ConsumerMember,
    Current,
    MemberState,
    SubscribedTopic,
)
from moldau.groups.stored_records import KeyType, encode_key, encode_value, sorted_partitions
from moldau.wire.message import Message
from moldau.wire.stored.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupCurrentMemberAssignmentValueTopicPartitions,
)
from moldau.wire.stored.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMemberMetadataValueClassicMember,
    ConsumerGroupMemberMetadataValueProtocol,
)
from moldau.wire.stored.consumer_group_metadata import ConsumerGroupMetadataKey, ConsumerGroupMetadataValue
from moldau.wire.stored.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupPartitionMetadataValueTopic,
)
from moldau.wire.stored.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMemberValueTopicPartitions,
)
from moldau.wire.stored.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)


class ConsumerGroupDraft:
    """The group after the changes so far, and their records. The group is copied before the first change."""

    __slots__ = ("_copied", "group", "records")

    def __init__(self, group: ConsumerGroup, *before: StoredRecord) -> None:
        """`before` are records to store before those of the draft."""
        self.group = group
        self.records = list(before)
        self._copied = False

    def _write(self, key_type: KeyType, key: Message, value: Message | None) -> ConsumerGroup:
        if not self._copied:
            self.group, self._copied = self.group.copy(), True
        self.records.append((encode_key(key_type, key), None if value is None else encode_value(value)))
        return self.group

    # -- group -----------------------------------------------------------------------------------------------------

    def set_epoch(self, epoch: int) -> None:
        key = ConsumerGroupMetadataKey(group_id=self.group.id)
        self._write(KeyType.CONSUMER_GROUP_METADATA, key, ConsumerGroupMetadataValue(epoch=epoch)).epoch = epoch

    def bump_epoch(self) -> None:
        self.set_epoch(self.group.epoch + 1)

    def set_topics(self, topics: dict[str, SubscribedTopic]) -> None:
        value = ConsumerGroupPartitionMetadataValue(
            topics=[
                ConsumerGroupPartitionMetadataValueTopic(
                    topic_id=topics[name].id, topic_name=name, num_partitions=topics[name].partitions
                )
                for name in sorted(topics)
            ]
        )
        key = ConsumerGroupPartitionMetadataKey(group_id=self.group.id)
        self._write(KeyType.CONSUMER_GROUP_PARTITION_METADATA, key, value).topics = dict(topics)

    def set_target_epoch(self, epoch: int) -> None:
        key = ConsumerGroupTargetAssignmentMetadataKey(group_id=self.group.id)
        value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch)
        self._write(KeyType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, key, value).target_epoch = epoch

    # -- members ---------------------------------------------------------------------------------------------------

    def set_member(self, member: ConsumerMember) -> None:
        key = ConsumerGroupMemberMetadataKey(group_id=self.group.id, member_id=member.id)
        self._write(KeyType.CONSUMER_GROUP_MEMBER_METADATA, key, _member_value(member)).set_member(member)

    def set_target(self, member_id: str, target: Assignment | None) -> None:
        key = ConsumerGroupTargetAssignmentMemberKey(group_id=self.group.id, member_id=member_id)
        value = None
        if target is not None:
            value = ConsumerGroupTargetAssignmentMemberValue(
                topic_partitions=[
                    ConsumerGroupTargetAssignmentMemberValueTopicPartitions(topic_id=topic, partitions=partitions)
                    for topic, partitions in sorted_partitions(target)
                ]
            )
        self._write(KeyType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, key, value).set_target(member_id, target)

    def set_current(self, member_id: str, current: Current | None) -> None:
        key = ConsumerGroupCurrentMemberAssignmentKey(group_id=self.group.id, member_id=member_id)
        value = None
        if current is not None:
            value = ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=current.epoch,
                previous_member_epoch=current.previous_epoch,
                state=current.state,
                assigned_partitions=_topic_partitions(current.assigned),
                partitions_pending_revocation=_topic_partitions(current.revoking),
            )
        self._write(KeyType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, key, value).set_current(member_id, current)

    def remove_member(self, member_id: str) -> None:
        """Remove everything about a member, in the reverse order of its creation."""
        self.set_current(member_id, None)
        self.set_target(member_id, None)
        key = ConsumerGroupMemberMetadataKey(group_id=self.group.id, member_id=member_id)
        self._write(KeyType.CONSUMER_GROUP_MEMBER_METADATA, key, None).remove_member(member_id)

    def remove_group(self) -> None:
        """Remove everything but the offsets."""
        group_id = self.group.id
        for member_id in list(self.group.members):
            self.remove_member(member_id)
        self._write(
            KeyType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
            ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
            None,
        )
        self._write(
            KeyType.CONSUMER_GROUP_PARTITION_METADATA, ConsumerGroupPartitionMetadataKey(group_id=group_id), None
        )
        self._write(KeyType.CONSUMER_GROUP_METADATA, ConsumerGroupMetadataKey(group_id=group_id), None)


# -- encoding and decoding ---------------------------------------------------------------------------------------------


def _topic_partitions(assignment: Assignment) -> list[ConsumerGroupCurrentMemberAssignmentValueTopicPartitions]:
    return [
        ConsumerGroupCurrentMemberAssignmentValueTopicPartitions(topic_id=topic, partitions=partitions)
        for topic, partitions in sorted_partitions(assignment)
    ]


def _member_value(member: ConsumerMember) -> ConsumerGroupMemberMetadataValue:
    classic = None
    if member.classic is not None:
        classic = ConsumerGroupMemberMetadataValueClassicMember(
            session_timeout_ms=member.classic.session_timeout_ms,
            supported_protocols=[
                ConsumerGroupMemberMetadataValueProtocol(name=name, metadata=metadata)
                for name, metadata in member.classic.protocols
            ],
        )
    return ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=classic,
    )


def member_from(member_id: str, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
    classic = value.classic_member_metadata
    return ConsumerMember(
        member_id,
        value.instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        tuple(value.subscribed_topic_names),
        value.subscribed_topic_regex,
        value.rebalance_timeout_ms,
        value.server_assignor,
        None
        if classic is None
        else ClassicMetadata(
            classic.session_timeout_ms, tuple((one.name, bytes(one.metadata)) for one in classic.supported_protocols)
        ),
    )


def current_from(value: ConsumerGroupCurrentMemberAssignmentValue) -> Current:
    return Current(
        value.member_epoch,
        value.previous_member_epoch,
        MemberState(value.state),
        {topic.topic_id: frozenset(topic.partitions) for topic in value.assigned_partitions},
        {topic.topic_id: frozenset(topic.partitions) for topic in value.partitions_pending_revocation},
    )


def target_from(value: ConsumerGroupTargetAssignmentMemberValue) -> Assignment:
    return {topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions}
