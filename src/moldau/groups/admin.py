"""Descriptions of groups: the answers of DescribeGroups, ConsumerGroupDescribe and ListGroups."""

from __future__ import annotations

from moldau.assignment.consumer_protocol import CONSUMER_PROTOCOL
from moldau.groups.classic_group import ClassicGroup, ClassicGroupState
from moldau.groups.consumer_group import Assignment, ConsumerGroup
from moldau.groups.group import Group
from moldau.groups.subscriptions import Topics
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseGroup,
    ConsumerGroupDescribeResponseMember,
    ConsumerGroupDescribeResponseTopicPartitions,
)
from moldau.wire.messages.describe_groups import DescribeGroupsResponseGroup, DescribeGroupsResponseMember
from moldau.wire.messages.list_groups import ListGroupsResponseGroup

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def state_of(group: Group) -> str:
    if group.consumer is not None:
        return group.consumer.state.title
    return ClassicGroupState.EMPTY.value if group.classic is None else group.classic.state.value


def list_group(group: Group) -> ListGroupsResponseGroup:
    protocol_type = CONSUMER_PROTOCOL
    if group.consumer is None:
        protocol_type = (group.classic.protocol_type if group.classic is not None else None) or ""
    return ListGroupsResponseGroup(
        group_id=group.id, protocol_type=protocol_type, group_state=state_of(group), group_type=group.type
    )


def describe_classic(group_id: str, group: Group | None) -> DescribeGroupsResponseGroup:
    if group is None or group.consumer is not None:
        reason = "not found" if group is None else "not a classic group"
        return DescribeGroupsResponseGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} is {reason}.",
            group_id=group_id,
            group_state=ClassicGroupState.DEAD.value,
        )
    classic = group.classic or ClassicGroup(group_id)
    stable = classic.state is ClassicGroupState.STABLE
    return DescribeGroupsResponseGroup(
        group_id=group_id,
        group_state=classic.state.value,
        protocol_type=classic.protocol_type or "",
        protocol_data=(classic.protocol or "") if stable else "",
        members=[
            DescribeGroupsResponseMember(
                member_id=member.id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(classic.protocol) if stable else b"",
                member_assignment=member.assignment if stable else b"",
            )
            for member in classic.members.values()
        ],
    )


def describe_consumer(
    group_id: str, group: Group | None, topics: Topics, default_assignor: str
) -> ConsumerGroupDescribeResponseGroup:
    if group is None or group.consumer is None:
        reason = "not found" if group is None else "not a consumer group"
        return ConsumerGroupDescribeResponseGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} is {reason}.",
            group_id=group_id,
        )
    consumer = group.consumer
    return ConsumerGroupDescribeResponseGroup(
        group_id=group_id,
        group_state=consumer.state.title,
        group_epoch=consumer.epoch,
        assignment_epoch=consumer.target_epoch,
        assignor_name=consumer.assignor(default_assignor),
        members=[_describe_member(consumer, member_id, topics) for member_id in consumer.members],
    )


def _describe_member(group: ConsumerGroup, member_id: str, topics: Topics) -> ConsumerGroupDescribeResponseMember:
    member, current = group.members[member_id], group.current(member_id)
    return ConsumerGroupDescribeResponseMember(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=current.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        subscribed_topic_regex=member.regex or "",  # Kafka has no null here
        assignment=_assignment(current.assigned, topics),
        target_assignment=_assignment(group.target(member_id), topics),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(assignment: Assignment, topics: Topics) -> ConsumerGroupDescribeResponseAssignment:
    return ConsumerGroupDescribeResponseAssignment(
        topic_partitions=[
            ConsumerGroupDescribeResponseTopicPartitions(
                topic_id=topic, topic_name=topics.name_of(topic) or "", partitions=sorted(partitions)
            )
            for topic, partitions in sorted(assignment.items())
        ]
    )
