"""Consumer group protocol (KIP-848): members join, reconcile and leave by ConsumerGroupHeartbeat.

The broker assigns the partitions. A heartbeat carries what has changed at the member, and the response carries what has
changed at the coordinator. The member epoch keeps both sides consistent.

Rules add records to a draft of the group and return the timers to change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from moldau.coordinator.outcome import CoordinatorOutcome
from moldau.groups.assignors import ASSIGNORS, Subscriber
from moldau.groups.config import GroupConfig, TimesOf
from moldau.groups.consumer_group import (
    LEFT_FOR_A_WHILE_EPOCH,
    Assignment,
    ConsumerGroup,
    ConsumerMember,
    Current,
    MemberState,
    SubscribedTopic,
)
from moldau.groups.consumer_group_draft import ConsumerGroupDraft
from moldau.groups.errors import GroupRequestError
from moldau.groups.events import ConsumerGroupHeartbeat, MaySee
from moldau.groups.reconciliation import reconcile
from moldau.groups.stored_records import sorted_partitions
from moldau.groups.subscriptions import Topics
from moldau.groups.timers import RejoinTimer, RevocationTimer, SessionTimer, TimerChange
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)

JOIN_EPOCH: Final = 0
OWN_MEMBER_IDS_FROM: Final = 1
"""From this version on, members choose their own member ids."""


def heartbeat_error(code: ErrorCode, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=message)


class ConsumerProtocol:
    """The rules for all consumer groups of a shard, and the deadlines of their members' sessions."""

    def __init__(self, config: GroupConfig, topics: Topics, times_of: TimesOf) -> None:
        self.config = config
        self.times_of = times_of
        self.topics = topics
        self.deadlines: dict[tuple[str, str], int] = {}
        self.rejoining: set[tuple[str, str]] = set()
        """(group id, member id) of the classic members that must rejoin and have a RejoinTimer."""
        self.stale: set[str] = set()
        """Groups whose topics may have changed since their target assignment was computed."""
        self.views: dict[tuple[str, str], MaySee] = {}
        """The topics that a member may know of, by group id and member id, as of its last heartbeat. Empty without
        access control."""

    # -- ConsumerGroupHeartbeat ------------------------------------------------------------------------------------

    def check(self, request: ConsumerGroupHeartbeatRequest, version: int) -> None:
        """Raise GroupRequestError for a request that is invalid for every group."""
        problem = _problem(request, version)
        if problem is not None:
            raise GroupRequestError(ErrorCode.INVALID_REQUEST, problem)
        if request.server_assignor is not None and request.server_assignor not in self.config.consumer_assignors:
            supported = ", ".join(self.config.consumer_assignors)
            raise GroupRequestError(
                ErrorCode.UNSUPPORTED_ASSIGNOR,
                f"ServerAssignor {request.server_assignor} is not supported; {supported} are.",
            )
        if request.subscribed_topic_regex and self.topics.matching(request.subscribed_topic_regex) is None:
            raise GroupRequestError(
                ErrorCode.INVALID_REGULAR_EXPRESSION,
                f"SubscribedTopicRegex `{request.subscribed_topic_regex}` is not a valid regular expression of RE2.",
            )

    def heartbeat(self, now_ms: int, draft: ConsumerGroupDraft, event: ConsumerGroupHeartbeat) -> CoordinatorOutcome:
        """A member joins or stays. Raises GroupRequestError if it may not; the draft must be dropped then."""
        request, group_id = event.request, draft.group.id
        owned = _owned(request)
        before = self._known_member(draft, request, owned)
        member = updated_member(before or ConsumerMember(request.member_id, request.instance_id), event)
        bump = before is None or (before.topics, before.regex) != (member.topics, member.regex)
        if member != before:
            draft.set_member(member)
        self._view_of(group_id, member, event.may_see)
        previous = draft.group.current(member.id)
        timers = self.advance(now_ms, draft, member.id, owned, bump=bump)
        timers += self.renew(now_ms, group_id, member)
        current = draft.group.current(member.id)
        answer = ConsumerGroupHeartbeatResponse(
            member_id=member.id,
            member_epoch=current.epoch,
            heartbeat_interval_ms=self.times_of(group_id).heartbeat_ms,
        )
        missed = request.member_epoch != previous.epoch
        if missed or request.member_epoch == JOIN_EPOCH or _is_full(request) or current.assigned != previous.assigned:
            answer.assignment = ConsumerGroupHeartbeatResponseAssignment(
                topic_partitions=[
                    ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic, partitions=partitions)
                    for topic, partitions in sorted_partitions(current.assigned)
                ]
            )
        return CoordinatorOutcome(records=draft.records, replies=[(event.ticket, answer)], timers=timers)

    def _view_of(self, group_id: str, member: ConsumerMember, may_see: MaySee | None) -> None:
        """Remember the topics that a member may know of. If they change, the matches of its pattern may change."""
        key = (group_id, member.id)
        if may_see is not None and self.views.get(key) != may_see:
            self.views[key] = may_see
            if member.regex:
                self.stale.add(group_id)

    def _metadata_for(self, group: ConsumerGroup) -> dict[str, SubscribedTopic]:
        return self.topics.metadata_for(group, lambda member_id: self._may_see(group, member_id))

    def _may_see(self, group: ConsumerGroup, member_id: str) -> MaySee | None:
        """After this broker became coordinator, the view of a member is unknown until its first heartbeat. Until then
        its pattern matches what it did before."""
        if not self.views:
            return None
        return self.views.get((group.id, member_id)) or group.topics.__contains__

    def _known_member(
        self, draft: ConsumerGroupDraft, request: ConsumerGroupHeartbeatRequest, owned: Assignment | None
    ) -> ConsumerMember | None:
        """The member that sent the request; None for a new one."""
        group, member_id, instance_id = draft.group, request.member_id, request.instance_id
        joining = request.member_epoch == JOIN_EPOCH
        known_id = member_id if instance_id is None else group.static.get(instance_id, member_id)
        if instance_id is not None and known_id != member_id:
            if not joining:
                raise GroupRequestError(
                    ErrorCode.FENCED_INSTANCE_ID, f"Instance {instance_id} is another member by now."
                )
            if group.current(known_id).epoch != LEFT_FOR_A_WHILE_EPOCH:
                raise GroupRequestError(ErrorCode.UNRELEASED_INSTANCE_ID, f"Instance {instance_id} is still in use.")
            return self.replace_static(draft, known_id, member_id)
        member = group.members.get(member_id)
        if member is None:
            if not joining:
                raise GroupRequestError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not in group {group.id}.")
            self.check_room(group)
            return None
        _check_epoch(group.current(member_id), request.member_epoch, owned, group.id)
        return member

    def check_room(self, group: ConsumerGroup) -> None:
        if len(group.members) >= self.config.consumer_max_size:
            raise GroupRequestError(
                ErrorCode.GROUP_MAX_SIZE_REACHED, f"Group {group.id} has {len(group.members)} members already."
            )

    def replace_static(self, draft: ConsumerGroupDraft, old_id: str, new_id: str) -> ConsumerMember:
        """A static member came back with another member id: it gets the partitions that it had."""
        group = draft.group
        member = group.members[old_id]._replace(id=new_id)
        target, current = group.target(old_id), group.current(old_id)
        draft.remove_member(old_id)
        draft.set_member(member)
        draft.set_target(new_id, target)
        draft.set_current(new_id, Current(0, 0, MemberState.STABLE, current.assigned))
        return member

    # -- epochs, target, reconciliation ----------------------------------------------------------------------------

    def advance(
        self, now_ms: int, draft: ConsumerGroupDraft, member_id: str, owned: Assignment | None, *, bump: bool
    ) -> list[TimerChange]:
        """Bring the target assignment up to date, and one member a step closer to it."""
        if bump or self.topics_changed(draft.group):
            metadata = self._metadata_for(draft.group)
            if metadata != draft.group.topics:
                draft.set_topics(metadata)  # the replay of this record removes the group from `stale`
                bump = True
        if bump:
            draft.bump_epoch()
        if draft.group.epoch > draft.group.target_epoch:
            self._assign(draft)
        before = draft.group.current(member_id)
        current = reconcile(draft.group, member_id, owned)
        if current != before or member_id not in draft.group.currents:
            draft.set_current(member_id, current)
        must_revoke = current.state is MemberState.UNREVOKED_PARTITIONS
        if must_revoke == (before.state is MemberState.UNREVOKED_PARTITIONS):
            return []
        until_ms = now_ms + draft.group.members[member_id].rebalance_timeout_ms if must_revoke else None
        return [(RevocationTimer(draft.group.id, member_id), until_ms)]

    def topics_changed(self, group: ConsumerGroup) -> bool:
        """Whether the topics differ from those that the target assignment was computed for."""
        if group.id not in self.stale:
            return False
        if self._metadata_for(group) != group.topics:
            return True
        self.stale.discard(group.id)
        return False

    def _assign(self, draft: ConsumerGroupDraft) -> None:
        group = draft.group
        members = {
            member.id: Subscriber(
                frozenset(
                    group.topics[name].id
                    for name in self.topics.subscribed(
                        member.topics, member.regex, self._may_see(group, member.id) if member.regex else None
                    )
                    if name in group.topics
                ),
                group.target(member.id),
                member.instance_id,
            )
            for member in group.members.values()
        }
        assign = ASSIGNORS[group.assignor(self.config.consumer_assignors[0])]
        target = assign(members, {topic.id: topic.partitions for topic in group.topics.values()})
        for member_id, assignment in target.items():
            if assignment != group.target(member_id) or member_id not in group.targets:
                draft.set_target(member_id, assignment)
        draft.set_target_epoch(draft.group.epoch)

    # -- leaving ---------------------------------------------------------------------------------------------------

    def leave(self, draft: ConsumerGroupDraft, request: ConsumerGroupHeartbeatRequest) -> list[TimerChange]:
        """A member leaves, for good or until it restarts. Raises GroupRequestError if it is not a member."""
        group, member_id = draft.group, request.member_id
        if request.instance_id is not None:
            known_id = group.static.get(request.instance_id)
            if known_id is not None and known_id != member_id:
                raise GroupRequestError(
                    ErrorCode.FENCED_INSTANCE_ID, f"Instance {request.instance_id} is another member by now."
                )
        if member_id not in group.members:
            raise GroupRequestError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not in group {group.id}.")
        if request.member_epoch == LEFT_FOR_A_WHILE_EPOCH:
            current = group.current(member_id)
            gone = Current(LEFT_FOR_A_WHILE_EPOCH, current.epoch, MemberState.STABLE, current.assigned)
            draft.set_current(member_id, gone)
            return [(RevocationTimer(group.id, member_id), None)]
        return self.remove(draft, [member_id])

    def remove(self, draft: ConsumerGroupDraft, member_ids: Iterable[str]) -> list[TimerChange]:
        """Remove members. The next heartbeat of another member assigns their partitions."""
        group_id = draft.group.id
        timers: list[TimerChange] = []
        for member_id in member_ids:
            draft.remove_member(member_id)
            self.deadlines.pop((group_id, member_id), None)
            self.views.pop((group_id, member_id), None)
            self.rejoining.discard((group_id, member_id))
            timers += [
                (SessionTimer(group_id, member_id), None),
                (RevocationTimer(group_id, member_id), None),
                (RejoinTimer(group_id, member_id), None),
            ]
        draft.bump_epoch()
        return timers

    # -- sessions --------------------------------------------------------------------------------------------------

    def renew(self, now_ms: int, group_id: str, member: ConsumerMember) -> tuple[TimerChange, ...]:
        """Move the deadline of the session. A timer that is set already looks at the deadline when it fires.

        The timer is set again if the deadline is earlier than before: the session timeout of the group was lowered.
        """
        session_ms = (
            member.classic.session_timeout_ms if member.classic is not None else self.times_of(group_id).session_ms
        )
        key = (group_id, member.id)
        deadline_ms = now_ms + session_ms
        previous_ms = self.deadlines.get(key)
        self.deadlines[key] = deadline_ms
        if previous_ms is not None and previous_ms <= deadline_ms:
            return ()
        return ((SessionTimer(group_id, member.id), deadline_ms),)

    def restart_session(self, now_ms: int, group_id: str, member: ConsumerMember) -> tuple[TimerChange, ...]:
        """Like `renew`, for a member whose timer may be cancelled."""
        self.deadlines.pop((group_id, member.id), None)
        return self.renew(now_ms, group_id, member)

    def session_left(self, now_ms: int, group: ConsumerGroup, member_id: str) -> TimerChange | None:
        """The session timer to set again; None if the session of the member is over."""
        deadline_ms = self.deadlines.get((group.id, member_id), now_ms)
        return (SessionTimer(group.id, member_id), deadline_ms) if deadline_ms > now_ms else None

    def loaded(self, now_ms: int, group: ConsumerGroup) -> CoordinatorOutcome:
        """Start a full session for every stored member, and a full rebalance timeout for pending revocations."""
        self.stale.add(group.id)
        outcome = CoordinatorOutcome()
        for member in group.members.values():
            outcome.timers += self.renew(now_ms, group.id, member)
            if group.current(member.id).state is MemberState.UNREVOKED_PARTITIONS:
                until_ms = now_ms + max(0, member.rebalance_timeout_ms)
                outcome.timers.append((RevocationTimer(group.id, member.id), until_ms))
        return outcome

    def forget(self, group_id: str, member_ids: Iterable[str]) -> None:
        """Drop the soft state of a group that is no longer a consumer group."""
        self.stale.discard(group_id)
        for member_id in member_ids:
            self.deadlines.pop((group_id, member_id), None)
            self.views.pop((group_id, member_id), None)
            self.rejoining.discard((group_id, member_id))


def _problem(request: ConsumerGroupHeartbeatRequest, version: int) -> str | None:
    epoch = request.member_epoch
    if not request.group_id.strip():
        return "GroupId can't be empty."
    if not request.member_id.strip() and (version >= OWN_MEMBER_IDS_FROM or epoch != JOIN_EPOCH):
        return "MemberId can't be empty."
    if epoch < LEFT_FOR_A_WHILE_EPOCH:
        return f"MemberEpoch {epoch} is invalid."
    if epoch == LEFT_FOR_A_WHILE_EPOCH and request.instance_id is None:
        return "InstanceId can't be null."
    for name, value in (("InstanceId", request.instance_id), ("RackId", request.rack_id)):
        if value is not None and not value.strip():
            return f"{name} can't be empty."
    if epoch == JOIN_EPOCH:
        if request.rebalance_timeout_ms == -1:
            return "RebalanceTimeoutMs must be provided in first request."
        if request.topic_partitions:
            return "TopicPartitions must be empty when (re-)joining."
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return None


def _check_epoch(current: Current, received: int, owned: Assignment | None, group_id: str) -> None:
    """Fence a member with a wrong epoch.

    A member that missed one response may send the previous epoch, if it owns only partitions that are assigned to it.
    """
    if received in (JOIN_EPOCH, current.epoch):
        return
    missed_one_response = (
        received == current.previous_epoch
        and received < current.epoch
        and owned is not None
        and all(partitions <= current.assigned.get(topic, frozenset()) for topic, partitions in owned.items())
    )
    if not missed_one_response:
        raise GroupRequestError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The member's epoch in group {group_id} is {current.epoch}, not {received}. It must rejoin.",
        )


def _owned(request: ConsumerGroupHeartbeatRequest) -> Assignment | None:
    if request.topic_partitions is None:
        return {} if request.member_epoch == JOIN_EPOCH else None
    return {topic.topic_id: frozenset(topic.partitions) for topic in request.topic_partitions if topic.partitions}


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the request has all fields: a member sends them all after it may have missed a response."""
    return (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )


def updated_member(member: ConsumerMember, event: ConsumerGroupHeartbeat) -> ConsumerMember:
    """The member with the fields that a heartbeat carries; the other fields stay."""
    request = event.request
    names: Sequence[str] | None = request.subscribed_topic_names
    regex = request.subscribed_topic_regex
    return member._replace(
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=event.client_id,
        client_host=event.client_host,
        topics=member.topics if names is None else tuple(sorted(set(names))),
        regex=member.regex if regex is None else (regex or None),
        rebalance_timeout_ms=member.rebalance_timeout_ms
        if request.rebalance_timeout_ms == -1
        else request.rebalance_timeout_ms,
        assignor=member.assignor if request.server_assignor is None else request.server_assignor,
        classic=None,
    )
