"""Classic group protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup; a member assigns the partitions.

A rebalance waits until all members have joined or the rebalance timeout is over (PreparingRebalance). Then it gives
them a generation and a leader (CompletingRebalance), and stores the assignments that the leader sends (Stable). The
leader is an ordinary member. The coordinator does not look into the assignments.

Every rule returns its outcome. Stored state changes only in `ClassicGroup.apply`, when a record is replayed; all other
state that the rules change is soft.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from moldau.assignment.consumer_protocol import parse_subscription
from moldau.coordinator.outcome import CoordinatorOutcome
from moldau.groups.classic_group import NO_GENERATION, ClassicGroup, ClassicGroupState, ClassicMember
from moldau.groups.config import GroupConfig
from moldau.groups.events import JoinGroup, LeaveGroup, SyncGroup
from moldau.groups.stored_records import group_metadata_record
from moldau.groups.timers import JoinTimer, PendingMemberTimer, SessionTimer, SyncTimer, TimerChange
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.heartbeat import HeartbeatRequest
from moldau.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.wire.messages.leave_group import LeaveGroupRequestMember, LeaveGroupResponse, LeaveGroupResponseMember
from moldau.wire.messages.sync_group import SyncGroupResponse

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""How long a new member may wait for its first generation. Its client may be gone, and it sends no heartbeats yet."""

PENDING_MEMBER_WAIT_MS: Final = 100
"""How long after the first JoinGroup the first generation waits for pending members, if the initial delay is shorter.

A client that has just received MEMBER_ID_REQUIRED needs one round trip to rejoin. Without this wait, and with an
initial delay of 0, the first of two members that start together is alone in generation 1.
"""

MEMBER_ID_REQUIRED_FROM: Final = 4
SKIP_ASSIGNMENT_FROM: Final = 9
LEAVE_BATCHED_FROM: Final = 3

UNKNOWN_MEMBER: Final = ""


def join_error(code: ErrorCode, member_id: str = UNKNOWN_MEMBER) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, generation_id=NO_GENERATION, protocol_name=None, member_id=member_id)


def sync_error(code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code)


class ClassicProtocol:
    """The rules for all classic groups of a shard."""

    def __init__(self, config: GroupConfig, new_id: Callable[[], str]) -> None:
        self.config = config
        self._new_id = new_id

    # -- JoinGroup -------------------------------------------------------------------------------------------------

    def join(self, now_ms: int, group: ClassicGroup, event: JoinGroup) -> CoordinatorOutcome:
        request = event.request
        member_id = request.member_id
        if not self._has_room(group, member_id):
            return self._refuse_without_room(now_ms, group, event)
        if not group.supports(request.protocol_type, [protocol.name for protocol in request.protocols]):
            code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        elif member_id == UNKNOWN_MEMBER:
            return self._join_without_id(now_ms, group, event)
        elif member_id in group.pending and request.group_instance_id is None:
            return self._join_pending(now_ms, group, event)
        else:
            code = group.member_error(member_id, request.group_instance_id)
        if code != ErrorCode.NONE:
            return CoordinatorOutcome(replies=[(event.ticket, join_error(code, member_id))])
        return self._rejoin(now_ms, group, event, group.members[member_id])

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        limit = self.config.max_size
        member = group.members.get(member_id)
        if group.state is ClassicGroupState.EMPTY:
            return True
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            return (member is not None and member.join_ticket is not None) or group.waiting_to_join < limit
        return member is not None or len(group.members) < limit

    def _refuse_without_room(self, now_ms: int, group: ClassicGroup, event: JoinGroup) -> CoordinatorOutcome:
        """Refuse the request. A member that rejoins too late for the limit loses its membership."""
        outcome = CoordinatorOutcome()
        if (dropped := group.remove(event.request.member_id)) is not None:
            outcome += self._dismiss(group, dropped, ErrorCode.GROUP_MAX_SIZE_REACHED)
            outcome += self._after_departure(now_ms, group)
        outcome.replies.append((event.ticket, join_error(ErrorCode.GROUP_MAX_SIZE_REACHED)))
        return outcome

    def _join_without_id(self, now_ms: int, group: ClassicGroup, event: JoinGroup) -> CoordinatorOutcome:
        instance_id = event.request.group_instance_id
        new_id = f"{event.client_id if instance_id is None else instance_id}-{self._new_id()}"
        if instance_id is not None and instance_id in group.static:
            return self._replace_static(now_ms, group, event, new_id)
        if instance_id is not None or event.version < MEMBER_ID_REQUIRED_FROM:
            return self._add(now_ms, group, event, new_id)
        # The client rejoins with this id. If it never receives the response, no member without a client is left.
        group.pending[new_id] = now_ms + event.request.session_timeout_ms
        return CoordinatorOutcome(
            replies=[(event.ticket, join_error(ErrorCode.MEMBER_ID_REQUIRED, new_id))],
            timers=[(PendingMemberTimer(group.id, new_id), group.pending[new_id])],
        )

    def _join_pending(self, now_ms: int, group: ClassicGroup, event: JoinGroup) -> CoordinatorOutcome:
        member_id = event.request.member_id
        del group.pending[member_id]
        outcome = CoordinatorOutcome(timers=[(PendingMemberTimer(group.id, member_id), None)])
        outcome += self._add(now_ms, group, event, member_id)
        return outcome

    def _add(self, now_ms: int, group: ClassicGroup, event: JoinGroup, member_id: str) -> CoordinatorOutcome:
        request = event.request
        if not group.members:
            group.protocol_type = request.protocol_type
        member = ClassicMember(member_id, request.group_instance_id, "", "", 0, 0, ())
        _update_from_request(member, event)
        member.is_new = True
        if group.state is ClassicGroupState.PREPARING_REBALANCE and group.previous_state is ClassicGroupState.EMPTY:
            group.prolong_initial_delay = True
        group.add(member)
        outcome = CoordinatorOutcome(timers=[_move_deadline(group, member, now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)])
        outcome += self._await_join(now_ms, group, member, event)
        return outcome

    def _rejoin(self, now_ms: int, group: ClassicGroup, event: JoinGroup, member: ClassicMember) -> CoordinatorOutcome:
        unchanged = member.protocols == _protocols(event.request)
        if unchanged and (
            group.state is ClassicGroupState.COMPLETING_REBALANCE
            or (group.state is ClassicGroupState.STABLE and group.leader != member.id)
        ):
            # The member missed the last response and gets it again. This does not hold for the leader of a stable
            # group: it rejoins because it wants to assign the partitions again.
            self.renew(now_ms, member)
            return CoordinatorOutcome(replies=[(event.ticket, self._joined(group, member))])
        _update_from_request(member, event)
        return self._await_join(now_ms, group, member, event)

    def _await_join(
        self, now_ms: int, group: ClassicGroup, member: ClassicMember, event: JoinGroup
    ) -> CoordinatorOutcome:
        outcome = CoordinatorOutcome()
        if member.join_ticket is not None:
            outcome.replies.append((member.join_ticket, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.id)))
        member.join_ticket = event.ticket
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            outcome += self._complete_if_all_joined(now_ms, group)
        else:
            outcome += self.prepare(now_ms, group)
        return outcome

    def _replace_static(self, now_ms: int, group: ClassicGroup, event: JoinGroup, new_id: str) -> CoordinatorOutcome:
        """A static member joins again after a restart: it keeps its place, and its old member id is fenced."""
        request = event.request
        assert request.group_instance_id is not None
        old_id, old_leader = group.static[request.group_instance_id], group.leader
        old_topics = _subscribed_topics(group.members[old_id].metadata(group.protocol))
        outcome = self._dismiss(group, group.members[old_id], ErrorCode.FENCED_INSTANCE_ID)
        member = group.rename(old_id, new_id)
        _update_from_request(member, event)
        outcome.timers.append(_move_deadline(group, member, now_ms + member.session_timeout_ms))
        if (
            group.state is not ClassicGroupState.STABLE
            or group.select_protocol() != group.protocol
            or _subscribed_topics(member.metadata(group.protocol)) != old_topics
        ):
            outcome += self._await_join(now_ms, group, member, event)
            return outcome
        outcome.records.append(group_metadata_record(group.id, group.stored_value(now_ms)))
        answer = self._joined(group, member)
        if event.version >= SKIP_ASSIGNMENT_FROM:
            answer.skip_assignment = group.leader == member.id
        else:
            # A restarted leader receives its old id as the leader's id. So it does not assign the partitions again.
            answer.leader, answer.members = old_leader or "", []
        outcome.replies.append((event.ticket, answer))
        return outcome

    def _joined(self, group: ClassicGroup, member: ClassicMember) -> JoinGroupResponse:
        return JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol,
            leader=group.leader or "",
            member_id=member.id,
            members=group.joined_members() if group.leader == member.id else [],
        )

    # -- rebalance -------------------------------------------------------------------------------------------------

    def prepare(self, now_ms: int, group: ClassicGroup) -> CoordinatorOutcome:
        """Begin a rebalance: every member has to join again."""
        outcome = CoordinatorOutcome(timers=[(SyncTimer(group.id), None)])
        for member in group.members.values():
            if member.sync_ticket is not None:
                outcome.replies.append((member.sync_ticket, sync_error(ErrorCode.REBALANCE_IN_PROGRESS)))
                member.sync_ticket = None
        group.pending_sync.clear()
        first = group.state is ClassicGroupState.EMPTY
        group.become(ClassicGroupState.PREPARING_REBALANCE, now_ms)
        timeout_ms = group.rebalance_timeout_ms
        if first:
            # Without this delay, an application that starts all its consumers at once causes one rebalance for each.
            delay_ms = min(self.config.initial_rebalance_delay_ms, timeout_ms)
            group.prolong_initial_delay = group.awaits_pending = False
            group.rebalance_deadline_ms = now_ms + timeout_ms
            outcome.timers.append((JoinTimer(group.id), now_ms + delay_ms))
        else:
            outcome.timers.append((JoinTimer(group.id), now_ms + timeout_ms))
            outcome += self._complete_if_all_joined(now_ms, group)
        return outcome

    def join_timeout(self, now_ms: int, group: ClassicGroup) -> CoordinatorOutcome:
        if group.state is not ClassicGroupState.PREPARING_REBALANCE:
            return CoordinatorOutcome()
        if group.previous_state is ClassicGroupState.EMPTY and now_ms < group.rebalance_deadline_ms:
            pending_until_ms = min(group.state_since_ms + PENDING_MEMBER_WAIT_MS, group.rebalance_deadline_ms)
            again_ms = None
            if group.prolong_initial_delay:
                group.prolong_initial_delay = False
                again_ms = min(now_ms + self.config.initial_rebalance_delay_ms, group.rebalance_deadline_ms)
            elif group.pending and now_ms < pending_until_ms:
                group.awaits_pending = True
                again_ms = pending_until_ms
            if again_ms is not None:
                return CoordinatorOutcome(timers=[(JoinTimer(group.id), again_ms)])
        return self._complete(now_ms, group)

    def _complete_if_all_joined(self, now_ms: int, group: ClassicGroup) -> CoordinatorOutcome:
        if group.state is not ClassicGroupState.PREPARING_REBALANCE or not group.all_joined:
            return CoordinatorOutcome()
        if group.previous_state is not ClassicGroupState.EMPTY or not group.members:
            return self._complete(now_ms, group)
        if group.awaits_pending:
            # The initial delay is over and no pending member is left. Requests that have already arrived go first.
            return CoordinatorOutcome(timers=[(JoinTimer(group.id), now_ms)])
        return CoordinatorOutcome()

    def _complete(self, now_ms: int, group: ClassicGroup) -> CoordinatorOutcome:
        """Form the next generation from the members that joined.

        Static members that did not join stay in the group until their session ends.
        """
        outcome = CoordinatorOutcome()
        for member in list(group.members.values()):
            if member.join_ticket is None and member.instance_id is None:
                group.remove(member.id)
                outcome += self._dismiss(group, member, ErrorCode.UNKNOWN_MEMBER_ID)
        if not group.members:
            outcome.timers.append((JoinTimer(group.id), None))
            empty = group.stored_value(now_ms, generation=group.generation + 1)
            outcome.records.append(group_metadata_record(group.id, empty))
            return outcome
        if not group.elect_leader():
            outcome.timers.append((JoinTimer(group.id), now_ms + group.rebalance_timeout_ms))
            return outcome
        group.generation += 1
        group.protocol = group.select_protocol()
        group.become(ClassicGroupState.COMPLETING_REBALANCE, now_ms)
        group.pending_sync = dict.fromkeys(group.members)
        outcome.timers.append((JoinTimer(group.id), None))
        outcome.timers.append((SyncTimer(group.id), now_ms + group.rebalance_timeout_ms))
        for member in group.members.values():
            member.is_new = False
            outcome.timers.append(_move_deadline(group, member, now_ms + member.session_timeout_ms))
            if member.join_ticket is not None:
                outcome.replies.append((member.join_ticket, self._joined(group, member)))
                member.join_ticket = None
        return outcome

    def sync_timeout(self, now_ms: int, group: ClassicGroup) -> CoordinatorOutcome:
        """Remove the members that joined the generation and did not sync, and begin the next rebalance."""
        outcome = CoordinatorOutcome()
        if group.state not in (ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE):
            return outcome
        late = list(group.pending_sync)
        for member_id in late:
            if (member := group.remove(member_id)) is not None:
                outcome += self._dismiss(group, member, ErrorCode.UNKNOWN_MEMBER_ID)
        if late or group.state is ClassicGroupState.COMPLETING_REBALANCE:
            outcome += self.prepare(now_ms, group)
        return outcome

    # -- SyncGroup -------------------------------------------------------------------------------------------------

    def sync(self, now_ms: int, group: ClassicGroup, event: SyncGroup) -> CoordinatorOutcome:
        request = event.request
        code = group.member_error(request.member_id, request.group_instance_id)
        if code == ErrorCode.NONE:
            if request.generation_id != group.generation:
                code = ErrorCode.ILLEGAL_GENERATION
            elif (request.protocol_type not in (None, group.protocol_type)) or (
                request.protocol_name not in (None, group.protocol)
            ):
                code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            elif group.state is ClassicGroupState.PREPARING_REBALANCE:
                code = ErrorCode.REBALANCE_IN_PROGRESS
        if code != ErrorCode.NONE:
            return CoordinatorOutcome(replies=[(event.ticket, sync_error(code))])
        member = group.members[request.member_id]
        group.pending_sync.pop(member.id, None)
        self.renew(now_ms, member)
        if group.state is ClassicGroupState.STABLE:
            return CoordinatorOutcome(replies=[(event.ticket, _synced(group, member.assignment))])
        outcome = CoordinatorOutcome()
        if member.sync_ticket is not None:
            outcome.replies.append((member.sync_ticket, sync_error(ErrorCode.REBALANCE_IN_PROGRESS)))
        member.sync_ticket = event.ticket
        if group.leader == member.id:
            outcome += self._assign(
                now_ms, group, {one.member_id: bytes(one.assignment) for one in request.assignments}
            )
        return outcome

    def _assign(self, now_ms: int, group: ClassicGroup, assignments: dict[str, bytes]) -> CoordinatorOutcome:
        """Store the assignments of the leader. The group becomes stable when the record is replayed."""
        outcome = CoordinatorOutcome(records=[group_metadata_record(group.id, group.stored_value(now_ms, assignments))])
        for member in group.members.values():
            if member.sync_ticket is not None:
                outcome.replies.append((member.sync_ticket, _synced(group, assignments.get(member.id, b""))))
                member.sync_ticket = None
                self.renew(now_ms, member)
        return outcome

    # -- Heartbeat and sessions ------------------------------------------------------------------------------------

    def heartbeat(self, now_ms: int, group: ClassicGroup, request: HeartbeatRequest) -> ErrorCode:
        code = group.member_error(request.member_id, request.group_instance_id)
        if code != ErrorCode.NONE:
            return code
        if request.generation_id != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        self.renew(now_ms, group.members[request.member_id])
        return (
            ErrorCode.REBALANCE_IN_PROGRESS if group.state is ClassicGroupState.PREPARING_REBALANCE else ErrorCode.NONE
        )

    def renew(self, now_ms: int, member: ClassicMember) -> None:
        """Move the deadline of the session. The timer stays as it is: when it fires, it looks at the deadline."""
        member.deadline_ms = now_ms + member.session_timeout_ms

    def session_timeout(self, now_ms: int, group: ClassicGroup, member_id: str) -> CoordinatorOutcome:
        member = group.members.get(member_id)
        if member is None:
            return CoordinatorOutcome()
        if member.deadline_ms > now_ms:
            return CoordinatorOutcome(timers=[(SessionTimer(group.id, member_id), member.deadline_ms)])
        if member.waits and not member.is_new:
            return CoordinatorOutcome(timers=[_move_deadline(group, member, now_ms + member.session_timeout_ms)])
        group.remove(member_id)
        outcome = self._dismiss(group, member, ErrorCode.UNKNOWN_MEMBER_ID)
        outcome += self._after_departure(now_ms, group)
        return outcome

    def pending_member_timeout(self, now_ms: int, group: ClassicGroup, member_id: str) -> CoordinatorOutcome:
        if group.pending.pop(member_id, None) is None:
            return CoordinatorOutcome()
        return self._complete_if_all_joined(now_ms, group)

    def loaded(self, now_ms: int, group: ClassicGroup) -> CoordinatorOutcome:
        """Start a full session for every stored member, because its last heartbeat is unknown."""
        return CoordinatorOutcome(
            timers=[
                _move_deadline(group, member, now_ms + member.session_timeout_ms) for member in group.members.values()
            ]
        )

    # -- LeaveGroup ------------------------------------------------------------------------------------------------

    def leave(self, now_ms: int, group: ClassicGroup, event: LeaveGroup) -> CoordinatorOutcome:
        outcome = CoordinatorOutcome()
        results = []
        for one in leaving_members(event):
            code, removed = self._leave_one(group, one.member_id, one.group_instance_id)
            outcome += removed
            results.append(
                LeaveGroupResponseMember(
                    member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=code
                )
            )
        outcome.replies.append((event.ticket, leave_response(event.version, results)))
        if any(one.error_code == ErrorCode.NONE for one in results):
            outcome += self._after_departure(now_ms, group)
        return outcome

    def _leave_one(
        self, group: ClassicGroup, member_id: str, instance_id: str | None
    ) -> tuple[ErrorCode, CoordinatorOutcome]:
        if instance_id is not None:
            known = group.static.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID, CoordinatorOutcome()
            if member_id not in (UNKNOWN_MEMBER, known):
                return ErrorCode.FENCED_INSTANCE_ID, CoordinatorOutcome()
            member_id = known
        if group.pending.pop(member_id, None) is not None:
            return ErrorCode.NONE, CoordinatorOutcome(timers=[(PendingMemberTimer(group.id, member_id), None)])
        member = group.remove(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID, CoordinatorOutcome()
        return ErrorCode.NONE, self._dismiss(group, member, ErrorCode.UNKNOWN_MEMBER_ID)

    def _after_departure(self, now_ms: int, group: ClassicGroup) -> CoordinatorOutcome:
        """Members are gone: rebalance, so that the others get their partitions."""
        if group.state in (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE):
            return self.prepare(now_ms, group)
        return self._complete_if_all_joined(now_ms, group)

    def _dismiss(self, group: ClassicGroup, member: ClassicMember, code: ErrorCode) -> CoordinatorOutcome:
        """End the session of a member that is no longer in the group, and answer its waiting requests."""
        outcome = CoordinatorOutcome(timers=[(SessionTimer(group.id, member.id), None)])
        outcome.replies += refuse_waiting(member, code)
        return outcome


def refuse_waiting(
    member: ClassicMember, code: ErrorCode
) -> list[tuple[object, JoinGroupResponse | SyncGroupResponse]]:
    """Replies for the JoinGroup and the SyncGroup of a member that wait; they no longer wait then."""
    replies: list[tuple[object, JoinGroupResponse | SyncGroupResponse]] = []
    if member.join_ticket is not None:
        replies.append((member.join_ticket, join_error(code, member.id)))
        member.join_ticket = None
    if member.sync_ticket is not None:
        replies.append((member.sync_ticket, sync_error(code)))
        member.sync_ticket = None
    return replies


def leaving_members(event: LeaveGroup) -> list[LeaveGroupRequestMember]:
    """The members that leave; before version 3 the request names exactly one."""
    if event.version < LEAVE_BATCHED_FROM:
        return [LeaveGroupRequestMember(member_id=event.request.member_id)]
    return event.request.members


def leave_response(version: int, results: list[LeaveGroupResponseMember]) -> LeaveGroupResponse:
    """Before version 3 exactly one member leaves, and its error is the error of the response."""
    if version < LEAVE_BATCHED_FROM:
        return LeaveGroupResponse(error_code=results[0].error_code)
    return LeaveGroupResponse(members=results)


def _move_deadline(group: ClassicGroup, member: ClassicMember, at_ms: int) -> TimerChange:
    member.deadline_ms = at_ms
    return SessionTimer(group.id, member.id), at_ms


def _update_from_request(member: ClassicMember, event: JoinGroup) -> None:
    request = event.request
    member.client_id, member.client_host = event.client_id, event.client_host
    member.session_timeout_ms = request.session_timeout_ms
    timeout_ms = request.rebalance_timeout_ms
    member.rebalance_timeout_ms = timeout_ms if timeout_ms >= 0 else request.session_timeout_ms
    member.protocols = _protocols(request)


def _protocols(request: JoinGroupRequest) -> tuple[tuple[str, bytes], ...]:
    return tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)


def _subscribed_topics(metadata: bytes) -> list[str] | None:
    """The topics that a consumer subscribes to; None for metadata of other clients, which compares as unchanged."""
    subscription = parse_subscription(metadata)
    return None if subscription is None else sorted(subscription.topics)


def _synced(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=assignment)
