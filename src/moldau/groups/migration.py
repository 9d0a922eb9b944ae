"""Protocol migration of live groups: from classic to consumer group, and back.

A classic group is upgraded when the first member of the consumer protocol joins. A consumer group is downgraded when
the last such member leaves and only classic members remain. The members keep their partitions.
"""

from __future__ import annotations

from moldau.assignment.consumer_protocol import (
    CONSUMER_PROTOCOL,
    encode_assignment,
    parse_assignment,
    parse_subscription,
    subscription_version,
)
from moldau.coordinator.outcome import CoordinatorOutcome
from moldau.groups.classic_group import ClassicGroup, ClassicMember
from moldau.groups.classic_protocol import refuse_waiting
from moldau.groups.config import GroupConfig
from moldau.groups.consumer_group import ClassicMetadata, ConsumerGroup, ConsumerMember, Current, MemberState
from moldau.groups.consumer_group_draft import ConsumerGroupDraft
from moldau.groups.errors import GroupRequestError
from moldau.groups.stored_records import group_metadata_record, group_metadata_tombstone
from moldau.groups.subscriptions import Topics
from moldau.groups.timers import JoinTimer, SessionTimer, SyncTimer
from moldau.wire.errors import ErrorCode


def upgrade(classic: ClassicGroup, topics: Topics, config: GroupConfig) -> ConsumerGroupDraft:
    """The consumer group that replaces a classic group. Raises GroupRequestError if the group cannot be upgraded."""
    if classic.members:
        _check_upgrade(classic, config)
    draft = ConsumerGroupDraft(ConsumerGroup(classic.id), group_metadata_tombstone(classic.id))
    if not classic.members:
        return draft
    epoch = classic.generation
    for member in classic.members.values():
        subscription = parse_subscription(member.metadata(classic.protocol or member.protocols[0][0]))
        assert subscription is not None  # see _check_upgrade
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
    def refuse(reason: str) -> GroupRequestError:
        return GroupRequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {classic.id} is not a consumer group: {reason}.")

    if not config.may_upgrade:
        raise refuse("it is classic, and group.consumer.migration.policy does not let it change")
    if classic.protocol_type != CONSUMER_PROTOCOL:
        raise refuse(f"its members are of type {classic.protocol_type}")
    if len(classic.members) > config.consumer_max_size:
        raise refuse(f"it has {len(classic.members)} members")
    for member in classic.members.values():
        if parse_subscription(member.metadata(classic.protocol or member.protocols[0][0])) is None:
            raise refuse(f"the subscription of {member.id} cannot be read")


def dissolve(classic: ClassicGroup) -> CoordinatorOutcome:
    """End the soft state of a group that is no longer classic: its waiting members must rejoin."""
    outcome = CoordinatorOutcome()
    for member in classic.members.values():
        outcome.timers.append((SessionTimer(classic.id, member.id), None))
        outcome.replies += refuse_waiting(member, ErrorCode.REBALANCE_IN_PROGRESS)
    outcome.timers += [(JoinTimer(classic.id), None), (SyncTimer(classic.id), None)]
    return outcome


def may_downgrade(group: ConsumerGroup, config: GroupConfig) -> bool:
    return bool(group.members) and config.may_downgrade and group.all_classic and len(group.members) <= config.max_size


def downgrade(now_ms: int, draft: ConsumerGroupDraft, topics: Topics) -> None:
    """Replace a group of only classic members by a stable classic group, which has to rebalance."""
    group = draft.group
    classic = ClassicGroup(group.id)
    classic.generation = group.epoch
    classic.protocol_type = CONSUMER_PROTOCOL
    for one in group.members.values():
        assert one.classic is not None
        member = ClassicMember(
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
