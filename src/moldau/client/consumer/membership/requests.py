"""Requests of a classic group member: JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from moldau.assignment.consumer_protocol import CONSUMER_PROTOCOL
from moldau.client.consumer.assignors import Assignor, MemberSubscription
from moldau.client.consumer.assignors.consumer_protocol import encode_subscription
from moldau.client.consumer.membership.events import MemberConfig
from moldau.client.data_types import TopicPartition
from moldau.wire.messages.heartbeat import HeartbeatRequest
from moldau.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember
from moldau.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment


def join_request(
    config: MemberConfig,
    member_id: str,
    assignors: Iterable[Assignor],
    topics: tuple[str, ...],
    owned: tuple[TopicPartition, ...],
    generation: int,
) -> JoinGroupRequest:
    """Build a JoinGroup request, with one protocol per assignor; each has this member's subscription."""
    return JoinGroupRequest(
        group_id=config.group_id,
        session_timeout_ms=round(config.session_timeout_s * 1_000),
        rebalance_timeout_ms=round(config.max_poll_interval_s * 1_000),
        member_id=member_id,
        group_instance_id=config.instance_id,
        protocol_type=CONSUMER_PROTOCOL,
        protocols=[
            JoinGroupRequestProtocol(
                name=one.name,
                metadata=encode_subscription(
                    MemberSubscription(topics, owned, generation, one.user_data(topics), rack=config.rack)
                ),
            )
            for one in assignors
        ],
    )


def sync_request(
    config: MemberConfig,
    member_id: str,
    generation: int,
    protocol: str | None,
    given: Mapping[str, bytes],
    protocol_type: str = CONSUMER_PROTOCOL,
) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=config.group_id,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=config.instance_id,
        protocol_type=protocol_type,
        protocol_name=protocol,
        assignments=[SyncGroupRequestAssignment(member_id=member, assignment=data) for member, data in given.items()],
    )


def heartbeat_request(config: MemberConfig, member_id: str, generation: int) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=config.group_id,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=config.instance_id,
    )


def leave_request(config: MemberConfig, member_id: str, reason: str) -> LeaveGroupRequest:
    """Build a LeaveGroup request. Before version 3 the member id is a field of the request itself."""
    member = LeaveGroupRequestMember(member_id=member_id, group_instance_id=config.instance_id, reason=reason)
    return LeaveGroupRequest(group_id=config.group_id, member_id=member_id, members=[member])
