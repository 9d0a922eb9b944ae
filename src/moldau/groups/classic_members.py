"""Classic members of consumer groups: JoinGroup, SyncGroup and Heartbeat while a live group migrates.

While the consumers of a group are restarted one by one with the consumer protocol, the others still use the classic
protocol. For them the group looks classic: their member epoch is the generation, and the broker assigns partitions in
place of a leader.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.assignment.consumer_protocol import (
    CONSUMER_PROTOCOL,
    encode_assignment,
    parse_subscription,
    subscription_version,
)
from moldau.coordinator.outcome import CoordinatorOutcome
from moldau.groups.classic_protocol import MEMBER_ID_REQUIRED_FROM, join_error
from moldau.groups.consumer_group import ClassicMetadata, ConsumerGroup, ConsumerMember, MemberState
from moldau.groups.consumer_group_draft import ConsumerGroupDraft
from moldau.groups.consumer_group_protocol import ConsumerProtocol
from moldau.groups.errors import GroupRequestError
from moldau.groups.events import Heartbeat, JoinGroup, SyncGroup
from moldau.groups.reconciliation import waits_for_others
from moldau.groups.timers import RejoinTimer
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from moldau.wire.messages.heartbeat import HeartbeatResponse
from moldau.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.wire.messages.leave_group import LeaveGroupRequestMember
from moldau.wire.messages.sync_group import SyncGroupResponse


def join(
    now_ms: int, protocol: ConsumerProtocol, group: ConsumerGroup, event: JoinGroup, new_id: str
) -> CoordinatorOutcome:
    request = event.request
    subscription = _subscription(group, request)
    member_id, instance_id = request.member_id, request.group_instance_id
    if not member_id and instance_id is None and event.version >= MEMBER_ID_REQUIRED_FROM:
        required = join_error(ErrorCode.MEMBER_ID_REQUIRED, f"{event.client_id}-{new_id}")
        return CoordinatorOutcome(replies=[(event.ticket, required)])
    if not member_id:
        member_id = f"{event.client_id if instance_id is None else instance_id}-{new_id}"
    draft = ConsumerGroupDraft(group)
    before = _known_member(protocol, draft, request, member_id)
    member = ConsumerMember(
        member_id,
        instance_id,
        subscription.rack_id,
        event.client_id,
        event.client_host,
        tuple(sorted(set(subscription.topics))),
        None,
        request.rebalance_timeout_ms if request.rebalance_timeout_ms >= 0 else request.session_timeout_ms,
        None,
        ClassicMetadata(
            request.session_timeout_ms, tuple((one.name, bytes(one.metadata)) for one in request.protocols)
        ),
    )
    if member != before:
        draft.set_member(member)
    owned = protocol.topics.by_id([(one.topic, one.partitions) for one in subscription.owned_partitions])
    bump = before is None or (before.topics, before.regex) != (member.topics, None)
    timers = protocol.advance(now_ms, draft, member_id, owned, bump=bump)
    timers += protocol.renew(now_ms, group.id, member)
    protocol.rejoining.discard((group.id, member_id))
    timers.append((RejoinTimer(group.id, member_id), now_ms + member.rebalance_timeout_ms))
    answer = JoinGroupResponse(
        generation_id=draft.group.current(member_id).epoch,
        protocol_type=CONSUMER_PROTOCOL,
        protocol_name=request.protocols[0].name,
        member_id=member_id,
    )
    return CoordinatorOutcome(records=draft.records, replies=[(event.ticket, answer)], timers=timers)


def _subscription(group: ConsumerGroup, request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    names = {protocol.name for protocol in request.protocols}
    common = group.common_protocols()
    if request.protocol_type != CONSUMER_PROTOCOL or not names or (common is not None and not names & common):
        raise GroupRequestError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The member has no protocol in common with the group."
        )
    subscription = parse_subscription(bytes(request.protocols[0].metadata))
    if subscription is None:
        raise GroupRequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The member's subscription cannot be read.")
    return subscription


def _known_member(
    protocol: ConsumerProtocol, draft: ConsumerGroupDraft, request: JoinGroupRequest, member_id: str
) -> ConsumerMember | None:
    group, instance_id = draft.group, request.group_instance_id
    if instance_id is not None and instance_id in group.static and group.static[instance_id] != member_id:
        if request.member_id:
            raise GroupRequestError(ErrorCode.FENCED_INSTANCE_ID, f"Instance {instance_id} is another member by now.")
        return protocol.replace_static(draft, group.static[instance_id], member_id)
    member = group.members.get(member_id)
    if member is None:
        if instance_id is not None and request.member_id:
            raise GroupRequestError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not in group {group.id}.")
        protocol.check_room(group)
    return member


def _checked(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerMember, ClassicMetadata]:
    """The classic member that sent a request. Raises GroupRequestError if its id or its generation is wrong."""
    if instance_id is not None and group.static.get(instance_id, member_id) != member_id:
        raise GroupRequestError(ErrorCode.FENCED_INSTANCE_ID, f"Instance {instance_id} is another member by now.")
    member = group.members.get(member_id)
    if member is None or member.classic is None:
        raise GroupRequestError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is no classic member of group {group.id}."
        )
    if generation != group.current(member_id).epoch:
        raise GroupRequestError(
            ErrorCode.ILLEGAL_GENERATION, f"The member's generation is {group.current(member_id).epoch}."
        )
    return member, member.classic


def sync(now_ms: int, protocol: ConsumerProtocol, group: ConsumerGroup, event: SyncGroup) -> CoordinatorOutcome:
    """Answer with the partitions that the member reads now."""
    request = event.request
    member, classic = _checked(group, request.member_id, request.group_instance_id, request.generation_id)
    offered = {name for name, _ in classic.protocols}
    if request.protocol_type not in (None, CONSUMER_PROTOCOL) or (
        request.protocol_name is not None and request.protocol_name not in offered
    ):
        raise GroupRequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "This is not the member's protocol.")
    current = group.current(member.id)
    if group.epoch > current.epoch and current.state is not MemberState.UNREVOKED_PARTITIONS:
        raise GroupRequestError(ErrorCode.REBALANCE_IN_PROGRESS, "The group has a later epoch; the member must rejoin.")
    name, metadata = classic.protocols[0]
    answer = SyncGroupResponse(
        protocol_type=CONSUMER_PROTOCOL,
        protocol_name=name,
        assignment=encode_assignment(protocol.topics.by_name(current.assigned), subscription_version(metadata)),
    )
    return CoordinatorOutcome(
        replies=[(event.ticket, answer)],
        timers=[(RejoinTimer(group.id, member.id), None), *protocol.renew(now_ms, group.id, member)],
    )


def heartbeat(now_ms: int, protocol: ConsumerProtocol, group: ConsumerGroup, event: Heartbeat) -> CoordinatorOutcome:
    """Answer whether the member has to rejoin, to give up partitions or to get others."""
    request = event.request
    member, _ = _checked(group, request.member_id, request.group_instance_id, request.generation_id)
    outcome = CoordinatorOutcome(timers=list(protocol.renew(now_ms, group.id, member)))
    code = ErrorCode.NONE
    if _must_rejoin(protocol, group, member.id):
        code = ErrorCode.REBALANCE_IN_PROGRESS
        # Without this timer, a member that does not rejoin would keep its partitions from the others.
        if (group.id, member.id) not in protocol.rejoining:
            protocol.rejoining.add((group.id, member.id))
            outcome.timers.append((RejoinTimer(group.id, member.id), now_ms + member.rebalance_timeout_ms))
    outcome.replies.append((event.ticket, HeartbeatResponse(error_code=code)))
    return outcome


def _must_rejoin(protocol: ConsumerProtocol, group: ConsumerGroup, member_id: str) -> bool:
    current = group.current(member_id)
    return (
        current.state is MemberState.UNREVOKED_PARTITIONS
        or (current.state is MemberState.UNRELEASED_PARTITIONS and not waits_for_others(group, member_id))
        or group.epoch > current.epoch
        or protocol.topics_changed(group)
    )


def leaving(group: ConsumerGroup, members: Sequence[LeaveGroupRequestMember]) -> list[tuple[str, ErrorCode]]:
    """For each member of a LeaveGroup, its id and whether it may leave."""
    found = []
    for one in members:
        member_id = one.member_id
        code = ErrorCode.NONE
        if one.group_instance_id is not None:
            known = group.static.get(one.group_instance_id)
            if known is None:
                code = ErrorCode.UNKNOWN_MEMBER_ID
            elif member_id not in ("", known):
                code = ErrorCode.FENCED_INSTANCE_ID
            else:
                member_id = known
        elif member_id not in group.members:
            code = ErrorCode.UNKNOWN_MEMBER_ID
        found.append((member_id, code))
    return found
