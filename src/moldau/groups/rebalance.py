"""The classic protocol: how members join, are assigned, stay and leave.

A rebalance gathers the members (PreparingRebalance) until all have come or time is up, gives them a generation and a
leader (CompletingRebalance), and stores what the leader assigns (Stable). The leader is a member like any other; what
it assigns is opaque here.

What was stored changes by `ClassicGroup.apply` alone, when a record is replayed; all else here is soft.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from moldau.groups.classic import NO_GENERATION, ClassicGroup, Member, State
from moldau.groups.config import GroupConfig
from moldau.groups.consumer_protocol import parse_subscription
from moldau.groups.events import Call
from moldau.groups.outcome import Outcome
from moldau.groups.stored import group_metadata_record
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    LeaveGroupResponse,
    LeaveGroupResponseMember,
)
from moldau.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""How long a new member may wait for its first generation; its client may be gone, and nobody would know."""

MEMBER_ID_REQUIRED_FROM: Final = 4
SKIP_ASSIGNMENT_FROM: Final = 9
LEAVE_BATCHED_FROM: Final = 3

UNKNOWN_MEMBER: Final = ""


def join_error(code: ErrorCode, member_id: str = UNKNOWN_MEMBER) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, generation_id=NO_GENERATION, member_id=member_id)


def sync_error(code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code)


class ClassicProtocol:
    """The rules, for all classic groups of a shard."""

    def __init__(self, config: GroupConfig, new_id: Callable[[], str]) -> None:
        self.config = config
        self._new_id = new_id

    # -- JoinGroup -------------------------------------------------------------------------------------------------

    def join(self, now_ms: int, out: Outcome, group: ClassicGroup, call: Call) -> None:
        request: JoinGroupRequest = call.message
        member_id = request.member_id
        code = ErrorCode.NONE
        if not self._has_room(group, member_id):
            if (dropped := group.remove(member_id)) is not None:
                self._dismiss(out, group, dropped, ErrorCode.GROUP_MAX_SIZE_REACHED)
                self._departed(now_ms, out, group)
            code, member_id = ErrorCode.GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER
        elif not group.supports(request.protocol_type, [protocol.name for protocol in request.protocols]):
            code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        elif member_id == UNKNOWN_MEMBER:
            self._join_without_id(now_ms, out, group, call)
            return
        elif member_id in group.pending and request.group_instance_id is None:
            del group.pending[member_id]
            out.timers.append((("pending", group.id, member_id), None))
            self._add(now_ms, out, group, call, member_id)
            return
        else:
            code = group.member_error(member_id, request.group_instance_id)
        if code != ErrorCode.NONE:
            out.replies.append((call.ticket, join_error(code, member_id)))
        else:
            self._rejoin(now_ms, out, group, call, group.members[member_id])

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        limit = self.config.max_size
        member = group.members.get(member_id)
        if group.state is State.EMPTY:
            return True
        if group.state is State.PREPARING_REBALANCE:
            return (member is not None and member.join_ticket is not None) or group.waiting_to_join < limit
        return member is not None or len(group.members) < limit

    def _join_without_id(self, now_ms: int, out: Outcome, group: ClassicGroup, call: Call) -> None:
        request: JoinGroupRequest = call.message
        instance_id = request.group_instance_id
        new_id = f"{call.client_id if instance_id is None else instance_id}-{self._new_id()}"
        if instance_id is not None:
            if instance_id in group.static:
                self._replace(now_ms, out, group, call, new_id)
            else:
                self._add(now_ms, out, group, call, new_id)
        elif call.version >= MEMBER_ID_REQUIRED_FROM:
            # A client whose first answer is lost must not leave a ghost behind: it comes again with this id.
            group.pending[new_id] = now_ms + request.session_timeout_ms
            out.timers.append((("pending", group.id, new_id), group.pending[new_id]))
            out.replies.append((call.ticket, join_error(ErrorCode.MEMBER_ID_REQUIRED, new_id)))
        else:
            self._add(now_ms, out, group, call, new_id)

    def _add(self, now_ms: int, out: Outcome, group: ClassicGroup, call: Call, member_id: str) -> None:
        request: JoinGroupRequest = call.message
        if not group.members:
            group.protocol_type = request.protocol_type
        member = Member(member_id, request.group_instance_id, "", "", 0, 0, ())
        _describe(member, call)
        member.is_new = True
        if group.state is State.PREPARING_REBALANCE and group.previous_state is State.EMPTY:
            group.joined_anew = True
        group.add(member)
        self._set_deadline(out, group, member, now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._await_join(now_ms, out, group, member, call)

    def _rejoin(self, now_ms: int, out: Outcome, group: ClassicGroup, call: Call, member: Member) -> None:
        unchanged = member.protocols == _protocols(call.message)
        if unchanged and (
            group.state is State.COMPLETING_REBALANCE or (group.state is State.STABLE and group.leader != member.id)
        ):
            # It has not heard the last answer. A leader of a stable group rejoins to have partitions assigned anew.
            self.renew(now_ms, member)
            out.replies.append((call.ticket, self._joined(group, member)))
            return
        _describe(member, call)
        self._await_join(now_ms, out, group, member, call)

    def _await_join(self, now_ms: int, out: Outcome, group: ClassicGroup, member: Member, call: Call) -> None:
        if member.join_ticket is not None:
            out.replies.append((member.join_ticket, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.id)))
        member.join_ticket = call.ticket
        if group.state is State.PREPARING_REBALANCE:
            self._complete_if_all_joined(now_ms, out, group)
        else:
            self.prepare(now_ms, out, group)

    def _replace(self, now_ms: int, out: Outcome, group: ClassicGroup, call: Call, new_id: str) -> None:
        """A static member comes back, after a restart: the newcomer gets its place, whoever had it is fenced."""
        request: JoinGroupRequest = call.message
        assert request.group_instance_id is not None
        old_id, old_leader = group.static[request.group_instance_id], group.leader
        old_topics = _topics(group.members[old_id].metadata(group.protocol))
        self._dismiss(out, group, group.members[old_id], ErrorCode.FENCED_INSTANCE_ID)
        member = group.rename(old_id, new_id)
        _describe(member, call)
        self._set_deadline(out, group, member, now_ms + member.session_timeout_ms)
        if (
            group.state is State.STABLE
            and group.select_protocol() == group.protocol
            and _topics(member.metadata(group.protocol)) == old_topics
        ):
            out.records.append(group_metadata_record(group.id, group.stored_value(now_ms)))
            answer = self._joined(group, member)
            if call.version >= SKIP_ASSIGNMENT_FROM:
                answer.skip_assignment = group.leader == member.id
            else:
                # Told its old id as that of the leader, it does not assign what is assigned already.
                answer.leader, answer.members = old_leader or "", []
            out.replies.append((call.ticket, answer))
        else:
            self._await_join(now_ms, out, group, member, call)

    def _joined(self, group: ClassicGroup, member: Member) -> JoinGroupResponse:
        return JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol,
            leader=group.leader or "",
            member_id=member.id,
            members=group.joined_members() if group.leader == member.id else [],
        )

    # -- a rebalance -----------------------------------------------------------------------------------------------

    def prepare(self, now_ms: int, out: Outcome, group: ClassicGroup) -> None:
        """Begins a rebalance: everybody has to join again."""
        for member in group.members.values():
            if member.sync_ticket is not None:
                out.replies.append((member.sync_ticket, sync_error(ErrorCode.REBALANCE_IN_PROGRESS)))
                member.sync_ticket = None
        group.pending_sync.clear()
        out.timers.append((("sync", group.id), None))
        first = group.state is State.EMPTY
        group.become(State.PREPARING_REBALANCE, now_ms)
        timeout_ms = group.rebalance_timeout_ms
        if first:
            # Whoever starts a whole group at once would else see a rebalance for every member.
            delay_ms = min(self.config.initial_rebalance_delay_ms, timeout_ms)
            group.joined_anew = False
            group.rebalance_deadline_ms = now_ms + timeout_ms
            out.timers.append((("join", group.id), now_ms + delay_ms))
        else:
            out.timers.append((("join", group.id), now_ms + timeout_ms))
            self._complete_if_all_joined(now_ms, out, group)

    def join_time_is_up(self, now_ms: int, out: Outcome, group: ClassicGroup) -> None:
        if group.state is not State.PREPARING_REBALANCE:
            return
        if group.previous_state is State.EMPTY and group.joined_anew and now_ms < group.rebalance_deadline_ms:
            group.joined_anew = False
            again_ms = min(now_ms + self.config.initial_rebalance_delay_ms, group.rebalance_deadline_ms)
            out.timers.append((("join", group.id), again_ms))
            return
        self._complete(now_ms, out, group)

    def _complete_if_all_joined(self, now_ms: int, out: Outcome, group: ClassicGroup) -> None:
        if (
            group.state is State.PREPARING_REBALANCE
            and (group.previous_state is not State.EMPTY or not (group.members or group.pending))
            and group.all_joined
        ):
            self._complete(now_ms, out, group)

    def _complete(self, now_ms: int, out: Outcome, group: ClassicGroup) -> None:
        """The next generation: those who came. Other static members keep their place until their session ends."""
        for member in list(group.members.values()):
            if member.join_ticket is None and member.instance_id is None:
                group.remove(member.id)
                self._dismiss(out, group, member, ErrorCode.UNKNOWN_MEMBER_ID)
        if not group.members:
            out.timers.append((("join", group.id), None))
            empty = group.stored_value(now_ms, generation=group.generation + 1)
            out.records.append(group_metadata_record(group.id, empty))
            return
        if not group.elect_leader():
            out.timers.append((("join", group.id), now_ms + group.rebalance_timeout_ms))
            return
        group.generation += 1
        group.protocol = group.select_protocol()
        group.become(State.COMPLETING_REBALANCE, now_ms)
        group.pending_sync = dict.fromkeys(group.members)
        out.timers.append((("join", group.id), None))
        out.timers.append((("sync", group.id), now_ms + group.rebalance_timeout_ms))
        for member in group.members.values():
            member.is_new = False
            self._set_deadline(out, group, member, now_ms + member.session_timeout_ms)
            if member.join_ticket is not None:
                out.replies.append((member.join_ticket, self._joined(group, member)))
                member.join_ticket = None

    def sync_time_is_up(self, now_ms: int, out: Outcome, group: ClassicGroup) -> None:
        """Members that joined a generation and never asked what it gave them are gone, and so is the generation."""
        if group.state not in (State.COMPLETING_REBALANCE, State.STABLE):
            return
        late = list(group.pending_sync)
        for member_id in late:
            if (member := group.remove(member_id)) is not None:
                self._dismiss(out, group, member, ErrorCode.UNKNOWN_MEMBER_ID)
        if late or group.state is State.COMPLETING_REBALANCE:
            self.prepare(now_ms, out, group)

    # -- SyncGroup -------------------------------------------------------------------------------------------------

    def sync(self, now_ms: int, out: Outcome, group: ClassicGroup, call: Call) -> None:
        request: SyncGroupRequest = call.message
        code = group.member_error(request.member_id, request.group_instance_id)
        if code == ErrorCode.NONE:
            if request.generation_id != group.generation:
                code = ErrorCode.ILLEGAL_GENERATION
            elif (request.protocol_type not in (None, group.protocol_type)) or (
                request.protocol_name not in (None, group.protocol)
            ):
                code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            elif group.state is State.PREPARING_REBALANCE:
                code = ErrorCode.REBALANCE_IN_PROGRESS
        if code != ErrorCode.NONE:
            out.replies.append((call.ticket, sync_error(code)))
            return
        member = group.members[request.member_id]
        group.pending_sync.pop(member.id, None)
        self.renew(now_ms, member)
        if group.state is State.STABLE:
            out.replies.append((call.ticket, _synced(group, member.assignment)))
            return
        if member.sync_ticket is not None:
            out.replies.append((member.sync_ticket, sync_error(ErrorCode.REBALANCE_IN_PROGRESS)))
        member.sync_ticket = call.ticket
        if group.leader == member.id:
            self._assign(now_ms, out, group, {one.member_id: bytes(one.assignment) for one in request.assignments})

    def _assign(self, now_ms: int, out: Outcome, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
        """The leader has spoken. The group is stable when the record is replayed."""
        out.records.append(group_metadata_record(group.id, group.stored_value(now_ms, assignments)))
        for member in group.members.values():
            if member.sync_ticket is not None:
                out.replies.append((member.sync_ticket, _synced(group, assignments.get(member.id, b""))))
                member.sync_ticket = None
                self.renew(now_ms, member)

    # -- Heartbeat -------------------------------------------------------------------------------------------------

    def heartbeat(
        self, now_ms: int, group: ClassicGroup, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        code = group.member_error(member_id, instance_id)
        if code != ErrorCode.NONE:
            return code
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        self.renew(now_ms, group.members[member_id])
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is State.PREPARING_REBALANCE else ErrorCode.NONE

    def renew(self, now_ms: int, member: Member) -> None:
        """A sign of life. The timer is left as it is: when it fires, it looks at the deadline again."""
        member.deadline_ms = now_ms + member.session_timeout_ms

    def _set_deadline(self, out: Outcome, group: ClassicGroup, member: Member, at_ms: int) -> None:
        member.deadline_ms = at_ms
        out.timers.append((("session", group.id, member.id), at_ms))

    def session_timer(self, now_ms: int, out: Outcome, group: ClassicGroup, member_id: str) -> None:
        member = group.members.get(member_id)
        if member is None:
            return
        if member.deadline_ms > now_ms:
            out.timers.append((("session", group.id, member_id), member.deadline_ms))
        elif member.waits and not member.is_new:
            self._set_deadline(out, group, member, now_ms + member.session_timeout_ms)
        else:
            group.remove(member_id)
            self._dismiss(out, group, member, ErrorCode.UNKNOWN_MEMBER_ID)
            self._departed(now_ms, out, group)

    def pending_timer(self, now_ms: int, out: Outcome, group: ClassicGroup, member_id: str) -> None:
        if group.pending.pop(member_id, None) is not None:
            self._complete_if_all_joined(now_ms, out, group)

    def loaded(self, now_ms: int, out: Outcome, group: ClassicGroup) -> None:
        """Members of before have a session's time to say that they are still there."""
        for member in group.members.values():
            self._set_deadline(out, group, member, now_ms + member.session_timeout_ms)

    # -- LeaveGroup ------------------------------------------------------------------------------------------------

    def leave(self, now_ms: int, out: Outcome, group: ClassicGroup, call: Call) -> None:
        request: LeaveGroupRequest = call.message
        leaving = request.members
        if call.version < LEAVE_BATCHED_FROM:
            leaving = [LeaveGroupRequestMember(member_id=request.member_id)]
        results = [
            LeaveGroupResponseMember(
                member_id=one.member_id,
                group_instance_id=one.group_instance_id,
                error_code=self._leave_one(out, group, one.member_id, one.group_instance_id),
            )
            for one in leaving
        ]
        out.replies.append((call.ticket, leave_response(call.version, results)))
        if any(one.error_code == ErrorCode.NONE for one in results):
            self._departed(now_ms, out, group)

    def _leave_one(self, out: Outcome, group: ClassicGroup, member_id: str, instance_id: str | None) -> ErrorCode:
        if instance_id is not None:
            known = group.static.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if member_id not in (UNKNOWN_MEMBER, known):
                return ErrorCode.FENCED_INSTANCE_ID
            member_id = known
        if group.pending.pop(member_id, None) is not None:
            out.timers.append((("pending", group.id, member_id), None))
            return ErrorCode.NONE
        member = group.remove(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self._dismiss(out, group, member, ErrorCode.UNKNOWN_MEMBER_ID)
        return ErrorCode.NONE

    def _departed(self, now_ms: int, out: Outcome, group: ClassicGroup) -> None:
        """Members have gone: the others share what they leave."""
        if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
            self.prepare(now_ms, out, group)
        else:
            self._complete_if_all_joined(now_ms, out, group)

    def _dismiss(self, out: Outcome, group: ClassicGroup, member: Member, code: ErrorCode) -> None:
        """Answers what a member that is no longer one waits for."""
        out.timers.append((("session", group.id, member.id), None))
        if member.join_ticket is not None:
            out.replies.append((member.join_ticket, join_error(code, member.id)))
            member.join_ticket = None
        if member.sync_ticket is not None:
            out.replies.append((member.sync_ticket, sync_error(code)))
            member.sync_ticket = None


def leave_response(version: int, results: list[LeaveGroupResponseMember]) -> LeaveGroupResponse:
    """Before version 3 one member leaves, and its error is that of the whole."""
    if version < LEAVE_BATCHED_FROM:
        return LeaveGroupResponse(error_code=results[0].error_code)
    return LeaveGroupResponse(members=results)


def _describe(member: Member, call: Call) -> None:
    request: JoinGroupRequest = call.message
    member.client_id, member.client_host = call.client_id, call.client_host
    member.session_timeout_ms = request.session_timeout_ms
    timeout_ms = request.rebalance_timeout_ms
    member.rebalance_timeout_ms = timeout_ms if timeout_ms >= 0 else request.session_timeout_ms
    member.protocols = _protocols(request)


def _protocols(request: JoinGroupRequest) -> tuple[tuple[str, bytes], ...]:
    return tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)


def _topics(metadata: bytes) -> Any:
    """The topics that a consumer subscribes to; of others nothing is known, and so nothing changes."""
    subscription = parse_subscription(metadata)
    return None if subscription is None else sorted(subscription.topics)


def _synced(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=assignment)
