"""The new protocol (KIP-848): one request by which members join, stay, say what they read, hear what to read, leave.

The broker assigns. A heartbeat carries what changed on the member's side, the answer what changed on ours; what the two
sides believe is held together by the member's epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from moldau.groups.assignors import ASSIGNORS, Subscriber
from moldau.groups.config import GroupConfig
from moldau.groups.consumer import (
    LEFT_FOR_A_WHILE_EPOCH,
    Assignment,
    ConsumerGroup,
    ConsumerMember,
    Current,
    MemberState,
)
from moldau.groups.draft import Draft
from moldau.groups.events import Call
from moldau.groups.outcome import Outcome
from moldau.groups.reconcile import reconcile
from moldau.groups.refused import Refused
from moldau.groups.stored import sorted_partitions
from moldau.groups.subscriptions import Topics
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)

JOIN_EPOCH: Final = 0
OWN_MEMBER_IDS_FROM: Final = 1
"""From this version on, members choose their id themselves."""


def heartbeat_error(code: ErrorCode, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=message)


class ConsumerProtocol:
    """The rules, for all consumer groups of a shard; and, by member, the time until which its session lasts."""

    def __init__(self, config: GroupConfig, topics: Topics) -> None:
        self.config = config
        self.topics = topics
        self.deadlines: dict[tuple[str, str], int] = {}
        self.rejoining: set[tuple[str, str]] = set()
        """Classic members that were told to rejoin, and have a timer running for it."""
        self.stale: set[str] = set()
        """Groups that may read topics which have changed since their target was computed."""

    # -- the request -----------------------------------------------------------------------------------------------

    def check(self, request: ConsumerGroupHeartbeatRequest, version: int) -> None:
        """Refuses what no client should send."""
        problem = _problem(request, version)
        if problem is not None:
            raise Refused(ErrorCode.INVALID_REQUEST, problem)
        if request.server_assignor is not None and request.server_assignor not in self.config.consumer_assignors:
            supported = ", ".join(self.config.consumer_assignors)
            raise Refused(
                ErrorCode.UNSUPPORTED_ASSIGNOR,
                f"ServerAssignor {request.server_assignor} is not supported; {supported} are.",
            )
        if request.subscribed_topic_regex and self.topics.matching(request.subscribed_topic_regex) is None:
            raise Refused(
                ErrorCode.INVALID_REGULAR_EXPRESSION,
                f"SubscribedTopicRegex `{request.subscribed_topic_regex}` is not a valid regular expression of RE2.",
            )

    def heartbeat(
        self, now_ms: int, out: Outcome, group: ConsumerGroup, call: Call, draft: Draft
    ) -> ConsumerGroupHeartbeatResponse:
        """A member joins or stays. Refused raises before anything is noted that matters: the draft is thrown away."""
        request: ConsumerGroupHeartbeatRequest = call.message
        owned = _owned(request)
        before = self._known(draft, request, owned)
        member = described(before or ConsumerMember(request.member_id, request.instance_id), call)
        bump = before is None or (before.topics, before.regex) != (member.topics, member.regex)
        if member != before:
            draft.set_member(member)
        had = draft.group.current(member.id)
        self.advance(now_ms, out, draft, member.id, owned, bump=bump)
        current = draft.group.current(member.id)
        self.renew(now_ms, out, group.id, member)
        answer = ConsumerGroupHeartbeatResponse(
            member_id=member.id, member_epoch=current.epoch, heartbeat_interval_ms=self.config.consumer_heartbeat_ms
        )
        missed = request.member_epoch != had.epoch
        if missed or request.member_epoch == JOIN_EPOCH or _is_full(request) or current.assigned != had.assigned:
            answer.assignment = ConsumerGroupHeartbeatResponseAssignment(
                topic_partitions=[
                    ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic, partitions=partitions)
                    for topic, partitions in sorted_partitions(current.assigned)
                ]
            )
        return answer

    def _known(
        self, draft: Draft, request: ConsumerGroupHeartbeatRequest, owned: Assignment | None
    ) -> ConsumerMember | None:
        """The member that sent this; None for a new one."""
        group, member_id, instance_id = draft.group, request.member_id, request.instance_id
        joining = request.member_epoch == JOIN_EPOCH
        known_id = member_id if instance_id is None else group.static.get(instance_id, member_id)
        if instance_id is not None and known_id != member_id:
            if not joining:
                raise Refused(ErrorCode.FENCED_INSTANCE_ID, f"Instance {instance_id} is another member by now.")
            if group.current(known_id).epoch != LEFT_FOR_A_WHILE_EPOCH:
                raise Refused(ErrorCode.UNRELEASED_INSTANCE_ID, f"Instance {instance_id} is still in use.")
            return self.replace_static(draft, known_id, member_id)
        member = group.members.get(member_id)
        if member is None:
            if not joining:
                raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not in group {group.id}.")
            self.check_room(group)
            return None
        _check_epoch(group.current(member_id), request.member_epoch, owned, group.id)
        return member

    def check_room(self, group: ConsumerGroup) -> None:
        if len(group.members) >= self.config.consumer_max_size:
            raise Refused(
                ErrorCode.GROUP_MAX_SIZE_REACHED, f"Group {group.id} has {len(group.members)} members already."
            )

    def replace_static(self, draft: Draft, old_id: str, new_id: str) -> ConsumerMember:
        """A static member came back under another id: it gets what it had."""
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
        self, now_ms: int, out: Outcome, draft: Draft, member_id: str, owned: Assignment | None, *, bump: bool
    ) -> None:
        """Brings the group's target up to date, and one member a step towards it."""
        group_id = draft.group.id
        if bump or self.topics_changed(draft.group):
            metadata = self.topics.metadata_for(draft.group)
            if metadata != draft.group.topics:
                draft.set_topics(metadata)  # when that is replayed, the group is not stale any more
                bump = True
        if bump:
            draft.bump_epoch()
        if draft.group.epoch > draft.group.target_epoch:
            self._retarget(draft)
        before = draft.group.current(member_id)
        current = reconcile(draft.group, member_id, owned)
        if current != before or member_id not in draft.group.currents:
            draft.set_current(member_id, current)
        key = ("revoke", group_id, member_id)
        if current.state is not MemberState.UNREVOKED_PARTITIONS:
            if before.state is MemberState.UNREVOKED_PARTITIONS:
                out.timers.append((key, None))
        elif before.state is not MemberState.UNREVOKED_PARTITIONS:
            out.timers.append((key, now_ms + draft.group.members[member_id].rebalance_timeout_ms))

    def topics_changed(self, group: ConsumerGroup) -> bool:
        """Whether the group's topics are not what its target was computed for."""
        if group.id not in self.stale:
            return False
        if self.topics.metadata_for(group) != group.topics:
            return True
        self.stale.discard(group.id)
        return False

    def _retarget(self, draft: Draft) -> None:
        group = draft.group
        members = {
            member.id: Subscriber(
                frozenset(
                    group.topics[name].id
                    for name in self.topics.subscribed(member.topics, member.regex)
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

    def leave(
        self, out: Outcome, draft: Draft, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupHeartbeatResponse:
        group, member_id = draft.group, request.member_id
        if request.instance_id is not None:
            known_id = group.static.get(request.instance_id)
            if known_id is not None and known_id != member_id:
                raise Refused(ErrorCode.FENCED_INSTANCE_ID, f"Instance {request.instance_id} is another member by now.")
        if member_id not in group.members:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not in group {group.id}.")
        if request.member_epoch == LEFT_FOR_A_WHILE_EPOCH:
            current = group.current(member_id)
            gone = Current(LEFT_FOR_A_WHILE_EPOCH, current.epoch, MemberState.STABLE, current.assigned)
            draft.set_current(member_id, gone)
            out.timers.append((("revoke", group.id, member_id), None))
        else:
            self.remove(out, draft, [member_id])
        return ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=request.member_epoch)

    def remove(self, out: Outcome, draft: Draft, member_ids: Iterable[str]) -> None:
        """Members are gone; who gets what they had is decided when the next one is heard of."""
        for member_id in member_ids:
            draft.remove_member(member_id)
            self.deadlines.pop((draft.group.id, member_id), None)
            self.rejoining.discard((draft.group.id, member_id))
            for kind in ("session", "revoke", "rejoin"):
                out.timers.append(((kind, draft.group.id, member_id), None))
        draft.bump_epoch()

    # -- sessions --------------------------------------------------------------------------------------------------

    def renew(self, now_ms: int, out: Outcome, group_id: str, member: ConsumerMember) -> None:
        """A sign of life. A timer that is set already looks at the deadline when it fires."""
        session_ms = (
            member.classic.session_timeout_ms if member.classic is not None else self.config.consumer_session_ms
        )
        key = (group_id, member.id)
        if key not in self.deadlines:
            out.timers.append((("session", *key), now_ms + session_ms))
        self.deadlines[key] = now_ms + session_ms

    def restart_session(self, now_ms: int, out: Outcome, group_id: str, member: ConsumerMember) -> None:
        """As `renew`, for a member whose timer may be gone."""
        self.deadlines.pop((group_id, member.id), None)
        self.renew(now_ms, out, group_id, member)

    def session_ended(self, now_ms: int, out: Outcome, group: ConsumerGroup, member_id: str) -> bool:
        """Whether the member has been silent for too long; if not, the timer is set again."""
        deadline_ms = self.deadlines.get((group.id, member_id), now_ms)
        if member_id not in group.members:
            return False
        if deadline_ms > now_ms:
            out.timers.append((("session", group.id, member_id), deadline_ms))
            return False
        return True

    def loaded(self, now_ms: int, out: Outcome, group: ConsumerGroup) -> None:
        """Members of before have a session's time to come back, and a rebalance's time to give up what they must."""
        self.stale.add(group.id)
        for member in group.members.values():
            self.renew(now_ms, out, group.id, member)
            if group.current(member.id).state is MemberState.UNREVOKED_PARTITIONS:
                out.timers.append((("revoke", group.id, member.id), now_ms + max(0, member.rebalance_timeout_ms)))

    def forget(self, group_id: str, member_ids: Iterable[str]) -> None:
        """The group is no consumer group any more."""
        self.stale.discard(group_id)
        for member_id in member_ids:
            self.deadlines.pop((group_id, member_id), None)
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
    """A member may be one answer behind, if it reads nothing that it should not; any further and it starts anew."""
    if received in (JOIN_EPOCH, current.epoch):
        return
    behind = (
        received == current.previous_epoch
        and received < current.epoch
        and owned is not None
        and all(partitions <= current.assigned.get(topic, frozenset()) for topic, partitions in owned.items())
    )
    if not behind:
        raise Refused(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The member's epoch in group {group_id} is {current.epoch}, not {received}. It must rejoin.",
        )


def _owned(request: ConsumerGroupHeartbeatRequest) -> Assignment | None:
    if request.topic_partitions is None:
        return {} if request.member_epoch == JOIN_EPOCH else None
    return {topic.topic_id: frozenset(topic.partitions) for topic in request.topic_partitions if topic.partitions}


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the member said everything, as it does when it is not sure what we know."""
    return (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )


def described(member: ConsumerMember, call: Call) -> ConsumerMember:
    """The member with what a heartbeat says of it; what is left out stays."""
    request: ConsumerGroupHeartbeatRequest = call.message
    names: Sequence[str] | None = request.subscribed_topic_names
    regex = request.subscribed_topic_regex
    return member._replace(
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=call.client_id,
        client_host=call.client_host,
        topics=member.topics if names is None else tuple(sorted(set(names))),
        regex=member.regex if regex is None else (regex or None),
        rebalance_timeout_ms=member.rebalance_timeout_ms
        if request.rebalance_timeout_ms == -1
        else request.rebalance_timeout_ms,
        assignor=member.assignor if request.server_assignor is None else request.server_assignor,
        classic=None,
    )
