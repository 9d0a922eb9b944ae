"""A live group changes its protocol: classic to consumer when the first member of the new protocol comes, and back when
the last of them goes. Nobody loses what it reads.
"""

from __future__ import annotations

from moldau.groups.classic import ClassicGroup, Member
from moldau.groups.config import GroupConfig
from moldau.groups.consumer import ClassicMetadata, ConsumerGroup, ConsumerMember, Current, MemberState
from moldau.groups.consumer_protocol import (
    CONSUMER_PROTOCOL,
    encode_assignment,
    parse_assignment,
    parse_subscription,
    subscription_version,
)
from moldau.groups.draft import Draft
from moldau.groups.outcome import Outcome
from moldau.groups.rebalance import join_error, sync_error
from moldau.groups.refused import Refused
from moldau.groups.stored import group_metadata_record, group_metadata_tombstone
from moldau.groups.subscriptions import Topics
from moldau.wire.errors import ErrorCode


def upgrade(out: Outcome, classic: ClassicGroup, topics: Topics, config: GroupConfig) -> Draft:
    """The consumer group that a classic one becomes. Refused where it cannot, or must not."""
    if classic.members:
        _check_upgrade(classic, config)
    out.records.append(group_metadata_tombstone(classic.id))
    draft = Draft(ConsumerGroup(classic.id), out.records)
    if not classic.members:
        return draft
    epoch = classic.generation
    for member in classic.members.values():
        subscription = parse_subscription(member.metadata(classic.protocol or member.protocols[0][0]))
        assert subscription is not None  # checked above
        draft.set_member(
            ConsumerMember(
                member.id,
                member.instance_id,
                subscription.rack_id,
                member.client_id,
                member.client_host,
                tuple(sorted(set(subscription.topics))),
                None,
                member.rebalance_timeout_ms,
                None,
                ClassicMetadata(member.session_timeout_ms, member.protocols),
            )
        )
    draft.set_epoch(epoch)
    draft.set_topics(topics.metadata_for(draft.group))
    for member in classic.members.values():
        draft.set_target(member.id, topics.by_id(parse_assignment(member.assignment)))
    draft.set_target_epoch(epoch)
    for member in classic.members.values():
        assigned = draft.group.target(member.id)
        draft.set_current(member.id, Current(epoch, epoch, MemberState.STABLE, assigned))
    return draft


def _check_upgrade(classic: ClassicGroup, config: GroupConfig) -> None:
    def refuse(reason: str) -> Refused:
        return Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {classic.id} is not a consumer group: {reason}.")

    if not config.may_upgrade:
        raise refuse("it is classic, and group.consumer.migration.policy does not let it change")
    if classic.protocol_type != CONSUMER_PROTOCOL:
        raise refuse(f"its members are of type {classic.protocol_type}")
    if len(classic.members) > config.consumer_max_size:
        raise refuse(f"it has {len(classic.members)} members")
    for member in classic.members.values():
        if parse_subscription(member.metadata(classic.protocol or member.protocols[0][0])) is None:
            raise refuse(f"the subscription of {member.id} cannot be read")


def dissolve(out: Outcome, classic: ClassicGroup) -> None:
    """The soft state of a classic group that is none any more: whoever waits must come again."""
    for member in classic.members.values():
        out.timers.append((("session", classic.id, member.id), None))
        if member.join_ticket is not None:
            out.replies.append((member.join_ticket, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.id)))
            member.join_ticket = None
        if member.sync_ticket is not None:
            out.replies.append((member.sync_ticket, sync_error(ErrorCode.REBALANCE_IN_PROGRESS)))
            member.sync_ticket = None
    for kind in ("join", "sync"):
        out.timers.append(((kind, classic.id), None))


def may_downgrade(group: ConsumerGroup, config: GroupConfig) -> bool:
    return bool(group.members) and config.may_downgrade and group.all_classic and len(group.members) <= config.max_size


def downgrade(now_ms: int, draft: Draft, topics: Topics) -> None:
    """Only classic members are left: the group is classic again, and as stable as it was; then it rebalances."""
    group = draft.group
    classic = ClassicGroup(group.id)
    classic.generation = group.epoch
    classic.protocol_type = CONSUMER_PROTOCOL
    for one in group.members.values():
        assert one.classic is not None
        member = Member(
            one.id,
            one.instance_id,
            one.client_id,
            one.client_host,
            one.rebalance_timeout_ms,
            one.classic.session_timeout_ms,
            one.classic.protocols,
        )
        version = subscription_version(one.classic.protocols[0][1])
        member.assignment = encode_assignment(topics.by_name(group.current(one.id).assigned), version)
        classic.add(member)
    classic.protocol = classic.select_protocol()
    value = classic.stored_value(now_ms)
    draft.remove_group()
    draft.records.append(group_metadata_record(group.id, value))
