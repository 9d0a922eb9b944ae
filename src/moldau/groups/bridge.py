"""Members of the classic protocol in a consumer group: how a live group is moved from one protocol to the other.

While consumers are restarted one by one with the new protocol, the others go on with Join-, SyncGroup and Heartbeat.
To each of them the group looks classic, with the broker in the leader's place; the member's epoch is its generation.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.groups.consumer import ClassicMetadata, ConsumerGroup, ConsumerMember, MemberState
from moldau.groups.consumer_protocol import (
    CONSUMER_PROTOCOL,
    encode_assignment,
    parse_subscription,
    subscription_version,
)
from moldau.groups.draft import Draft
from moldau.groups.events import Call
from moldau.groups.heartbeats import ConsumerProtocol
from moldau.groups.outcome import Outcome
from moldau.groups.rebalance import MEMBER_ID_REQUIRED_FROM
from moldau.groups.reconcile import waits_for_others
from moldau.groups.refused import Refused
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from moldau.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.wire.messages.leave_group import LeaveGroupRequestMember
from moldau.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def join(
    now_ms: int, out: Outcome, protocol: ConsumerProtocol, draft: Draft, call: Call, new_id: str
) -> JoinGroupResponse:
    """JoinGroup into a consumer group."""
    request: JoinGroupRequest = call.message
    group = draft.group
    subscription = _subscription(group, request)
    member_id, instance_id = request.member_id, request.group_instance_id
    if not member_id and instance_id is None and call.version >= MEMBER_ID_REQUIRED_FROM:
        return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=f"{call.client_id}-{new_id}")
    if not member_id:
        member_id = f"{call.client_id if instance_id is None else instance_id}-{new_id}"
    before = _known(protocol, draft, request, member_id)
    member = ConsumerMember(
        member_id,
        instance_id,
        subscription.rack_id,
        call.client_id,
        call.client_host,
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
    protocol.advance(now_ms, out, draft, member_id, owned, bump=bump)
    protocol.renew(now_ms, out, group.id, member)
    protocol.rejoining.discard((group.id, member_id))
    out.timers.append((("rejoin", group.id, member_id), now_ms + member.rebalance_timeout_ms))
    return JoinGroupResponse(
        generation_id=draft.group.current(member_id).epoch,
        protocol_type=CONSUMER_PROTOCOL,
        protocol_name=request.protocols[0].name,
        member_id=member_id,
    )


def _subscription(group: ConsumerGroup, request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    names = {protocol.name for protocol in request.protocols}
    common = group.common_protocols()
    if request.protocol_type != CONSUMER_PROTOCOL or not names or (common is not None and not names & common):
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The member has no protocol in common with the group.")
    subscription = parse_subscription(bytes(request.protocols[0].metadata))
    if subscription is None:
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The member's subscription cannot be read.")
    return subscription


def _known(
    protocol: ConsumerProtocol, draft: Draft, request: JoinGroupRequest, member_id: str
) -> ConsumerMember | None:
    group, instance_id = draft.group, request.group_instance_id
    if instance_id is not None and instance_id in group.static and group.static[instance_id] != member_id:
        if request.member_id:
            raise Refused(ErrorCode.FENCED_INSTANCE_ID, f"Instance {instance_id} is another member by now.")
        return protocol.replace_static(draft, group.static[instance_id], member_id)
    member = group.members.get(member_id)
    if member is None:
        if instance_id is not None and request.member_id:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not in group {group.id}.")
        protocol.check_room(group)
    return member


def _checked(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerMember, ClassicMetadata]:
    if instance_id is not None and group.static.get(instance_id, member_id) != member_id:
        raise Refused(ErrorCode.FENCED_INSTANCE_ID, f"Instance {instance_id} is another member by now.")
    member = group.members.get(member_id)
    if member is None or member.classic is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is no classic member of group {group.id}.")
    if generation != group.current(member_id).epoch:
        raise Refused(ErrorCode.ILLEGAL_GENERATION, f"The member's generation is {group.current(member_id).epoch}.")
    return member, member.classic


def sync(
    now_ms: int, out: Outcome, protocol: ConsumerProtocol, group: ConsumerGroup, request: SyncGroupRequest
) -> SyncGroupResponse:
    """SyncGroup: the member is told what to read."""
    member, classic = _checked(group, request.member_id, request.group_instance_id, request.generation_id)
    offered = {name for name, _ in classic.protocols}
    if request.protocol_type not in (None, CONSUMER_PROTOCOL) or (
        request.protocol_name is not None and request.protocol_name not in offered
    ):
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "This is not the member's protocol.")
    current = group.current(member.id)
    if group.epoch > current.epoch and current.state is not MemberState.UNREVOKED_PARTITIONS:
        raise Refused(ErrorCode.REBALANCE_IN_PROGRESS, "The group has a later epoch; the member must rejoin.")
    out.timers.append((("rejoin", group.id, member.id), None))
    protocol.renew(now_ms, out, group.id, member)
    name, metadata = classic.protocols[0]
    return SyncGroupResponse(
        protocol_type=CONSUMER_PROTOCOL,
        protocol_name=name,
        assignment=encode_assignment(protocol.topics.by_name(current.assigned), subscription_version(metadata)),
    )


def heartbeat(
    now_ms: int,
    out: Outcome,
    protocol: ConsumerProtocol,
    group: ConsumerGroup,
    member_id: str,
    instance_id: str | None,
    generation: int,
) -> ErrorCode:
    """Heartbeat: whether the member has to rejoin, to give up partitions or to get others."""
    member, _ = _checked(group, member_id, instance_id, generation)
    protocol.renew(now_ms, out, group.id, member)
    current = group.current(member_id)
    must_rejoin = (
        current.state is MemberState.UNREVOKED_PARTITIONS
        or (current.state is MemberState.UNRELEASED_PARTITIONS and not waits_for_others(group, member_id))
        or group.epoch > current.epoch
        or protocol.topics_changed(group)
    )
    if not must_rejoin:
        return ErrorCode.NONE
    # Whoever does not come back in time holds up the others.
    if (group.id, member_id) not in protocol.rejoining:
        protocol.rejoining.add((group.id, member_id))
        out.timers.append((("rejoin", group.id, member_id), now_ms + member.rebalance_timeout_ms))
    return ErrorCode.REBALANCE_IN_PROGRESS


def leaving(group: ConsumerGroup, members: Sequence[LeaveGroupRequestMember]) -> list[tuple[str, ErrorCode]]:
    """LeaveGroup: the id of each member that may leave, or why not."""
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
