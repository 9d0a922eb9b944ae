"""One partition of `__consumer_offsets` as a state machine: every group whose id falls into it.

`step` takes the time and an event and says what to store, answer and wait for; `replay` takes over what was stored.
The rules are elsewhere: `rebalance` (classic protocol), `heartbeats` (new protocol), `bridge` and `migration` (a group
between the two), `commits` (offsets), `admin`. Here is what finds the group and the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final

from moldau.cluster.image import TopicImage
from moldau.groups import admin, bridge, commits, events, migration
from moldau.groups.classic import ClassicGroup, State
from moldau.groups.config import GroupConfig
from moldau.groups.consumer import LEFT_EPOCH, ConsumerGroup, MemberState
from moldau.groups.draft import Draft
from moldau.groups.events import Call
from moldau.groups.group import Group
from moldau.groups.heartbeats import ConsumerProtocol, heartbeat_error
from moldau.groups.outcome import Outcome, TimerFired
from moldau.groups.rebalance import LEAVE_BATCHED_FROM, ClassicProtocol, join_error, leave_response, sync_error
from moldau.groups.refused import Refused
from moldau.groups.replay import StoredGroups
from moldau.groups.stored import group_metadata_record, group_metadata_tombstone, offset_key
from moldau.groups.subscriptions import Topics
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.wire.messages.join_group import JoinGroupRequest
from moldau.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    LeaveGroupResponse,
    LeaveGroupResponseMember,
)
from moldau.wire.messages.sync_group import SyncGroupRequest

MAX_TOMBSTONES: Final = 2_000
"""Deletions in one batch; the rest follows in the next turn."""


class GroupShard(StoredGroups):
    """All groups of one partition."""

    def __init__(self, config: GroupConfig, new_id: Callable[[], str], topics: Mapping[str, TopicImage]) -> None:
        super().__init__()
        self.config = config
        self._new_id = new_id
        self.topics = Topics(topics)
        self.classic = ClassicProtocol(config, new_id)
        self.consumer = ConsumerProtocol(config, self.topics)
        self._deleted_topics: set[str] = set()
        self._becoming_classic: Group | None = None
        self._steps: Mapping[type[Any], Callable[[int, Outcome, Any], None]] = {
            JoinGroupRequest: self._join,
            SyncGroupRequest: self._sync,
            HeartbeatRequest: self._heartbeat,
            LeaveGroupRequest: self._leave,
            ConsumerGroupHeartbeatRequest: self._consumer_heartbeat,
            events.CommitOffsets: self._commit,
            events.FetchOffsets: self._fetch,
            events.DeleteOffsets: self._delete_offsets,
            events.DescribeGroup: self._describe,
            events.DescribeConsumerGroup: self._describe_consumer,
            events.ListGroups: self._list,
            events.DeleteGroup: self._delete_group,
            events.TopicsChanged: self._topics_changed,
            TimerFired: self._timer,
        }

    def step(self, now_ms: int, event: Any) -> Outcome:
        ended = self._ended_conversion()
        out = Outcome()
        self._steps[type(event.message if type(event) is Call else event)](now_ms, out, event)
        if ended is not None:
            out.replies += ended.replies
            out.timers[:0] = ended.timers
        return out

    def loaded(self, now_ms: int) -> Outcome:
        out = Outcome()
        for group in self.groups.values():
            if group.classic is not None:
                self.classic.loaded(now_ms, out, group.classic)
            if group.consumer is not None:
                self.consumer.loaded(now_ms, out, group.consumer)
        out.timers.append((("expiry",), now_ms + self.config.offsets_check_interval_ms))
        return out

    def topics_replayed(self, group_id: str) -> None:
        self.consumer.stale.discard(group_id)

    # -- the classic protocol --------------------------------------------------------------------------------------

    def _join(self, now_ms: int, out: Outcome, call: Call) -> None:
        request: JoinGroupRequest = call.message
        code = ErrorCode.NONE
        group = self.groups.get(request.group_id)
        if not request.group_id:
            code = ErrorCode.INVALID_GROUP_ID
        elif not self.config.min_session_ms <= request.session_timeout_ms <= self.config.max_session_ms:
            code = ErrorCode.INVALID_SESSION_TIMEOUT
        elif request.member_id and (group is None or (group.classic is None and group.consumer is None)):
            code = ErrorCode.UNKNOWN_MEMBER_ID
        if code != ErrorCode.NONE:
            out.replies.append((call.ticket, join_error(code, request.member_id)))
            return
        if group is not None and group.consumer is not None:
            if group.consumer.members:
                self._join_consumer_group(now_ms, out, group.consumer, call)
                return
            Draft(group.consumer, out.records).remove_group()
            self._becoming_classic = group
        group = self.made(request.group_id)
        if group.classic is None:
            group.classic = ClassicGroup(group.id)
        self.classic.join(now_ms, out, group.classic, call)

    def _ended_conversion(self) -> Outcome | None:
        """What follows if an empty consumer group was to become classic in the step before. Where that could be stored
        it is classic by now; else it is not, and whoever waits in it must come again."""
        group, self._becoming_classic = self._becoming_classic, None
        if group is None or group.consumer is None or group.classic is None:
            return None
        out = Outcome()
        migration.dissolve(out, group.classic)
        group.classic = None
        return out

    def _join_consumer_group(self, now_ms: int, out: Outcome, group: ConsumerGroup, call: Call) -> None:
        def decide() -> Any:
            return bridge.join(now_ms, out, self.consumer, Draft(group, out.records), call, self._new_id())

        self._or_refuse(out, call, decide, lambda error: join_error(error.code, call.message.member_id))

    def _sync(self, now_ms: int, out: Outcome, call: Call) -> None:
        request: SyncGroupRequest = call.message
        group = self.groups.get(request.group_id)
        if group is not None and (consumer := group.consumer) is not None:
            self._or_refuse(
                out,
                call,
                lambda: bridge.sync(now_ms, out, self.consumer, consumer, request),
                lambda error: sync_error(error.code),
            )
        elif group is None or group.classic is None:
            out.replies.append((call.ticket, sync_error(ErrorCode.UNKNOWN_MEMBER_ID)))
        else:
            self.classic.sync(now_ms, out, group.classic, call)

    def _heartbeat(self, now_ms: int, out: Outcome, call: Call) -> None:
        request: HeartbeatRequest = call.message
        who = (request.member_id, request.group_instance_id, request.generation_id)
        group = self.groups.get(request.group_id)
        code = ErrorCode.UNKNOWN_MEMBER_ID
        if group is not None and group.classic is not None:
            code = self.classic.heartbeat(now_ms, group.classic, *who)
        elif group is not None and group.consumer is not None:
            try:
                code = bridge.heartbeat(now_ms, out, self.consumer, group.consumer, *who)
            except Refused as error:
                code = error.code
        out.replies.append((call.ticket, HeartbeatResponse(error_code=code)))

    def _leave(self, now_ms: int, out: Outcome, call: Call) -> None:
        request: LeaveGroupRequest = call.message
        group = self.groups.get(request.group_id)
        if group is not None and group.classic is not None:
            self.classic.leave(now_ms, out, group.classic, call)
        elif group is not None and group.consumer is not None:
            self._leave_consumer_group(now_ms, out, group.consumer, call)
        else:
            out.replies.append((call.ticket, LeaveGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)))

    def _leave_consumer_group(self, now_ms: int, out: Outcome, group: ConsumerGroup, call: Call) -> None:
        request: LeaveGroupRequest = call.message
        members = request.members
        if call.version < LEAVE_BATCHED_FROM:
            members = [LeaveGroupRequestMember(member_id=request.member_id)]
        found = bridge.leaving(group, members)
        gone = [member_id for member_id, code in found if code == ErrorCode.NONE]
        if gone:
            self._remove_members(now_ms, out, group, gone)
        results = [
            LeaveGroupResponseMember(member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=code)
            for one, (_, code) in zip(members, found, strict=True)
        ]
        out.replies.append((call.ticket, leave_response(call.version, results)))

    # -- the new protocol ------------------------------------------------------------------------------------------

    def _consumer_heartbeat(self, now_ms: int, out: Outcome, call: Call) -> None:
        request: ConsumerGroupHeartbeatRequest = call.message

        def decide() -> Any:
            self.consumer.check(request, call.version)
            if request.member_epoch <= LEFT_EPOCH:
                return self._leave_by_heartbeat(now_ms, out, request)
            if not request.member_id:
                request.member_id = self._new_id()
            draft = self._consumer_draft(out, request)
            answer = self.consumer.heartbeat(now_ms, out, draft.group, call, draft)
            known = self.groups.get(request.group_id)
            if known is not None and known.classic is not None:
                migration.dissolve(out, known.classic)
                for member in draft.group.members.values():
                    self.consumer.restart_session(now_ms, out, known.id, member)
            return answer

        self._or_refuse(out, call, decide, lambda error: heartbeat_error(error.code, error.message))

    def _consumer_draft(self, out: Outcome, request: ConsumerGroupHeartbeatRequest) -> Draft:
        """The group that a member of the new protocol heartbeats to, made or converted if it comes to join."""
        group = self.groups.get(request.group_id)
        if group is not None and group.consumer is not None:
            return Draft(group.consumer, out.records)
        if request.member_epoch != 0:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a consumer group.")
        if group is not None and group.classic is not None:
            return migration.upgrade(out, group.classic, self.topics, self.config)
        return Draft(ConsumerGroup(request.group_id), out.records)

    def _leave_by_heartbeat(self, now_ms: int, out: Outcome, request: ConsumerGroupHeartbeatRequest) -> Any:
        group = self.groups.get(request.group_id)
        if group is None or group.consumer is None:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a consumer group.")
        draft = Draft(group.consumer, out.records)
        answer = self.consumer.leave(out, draft, request)
        self._downgrade_if_possible(now_ms, out, group.consumer, draft)
        return answer

    def _remove_members(self, now_ms: int, out: Outcome, group: ConsumerGroup, member_ids: list[str]) -> None:
        draft = Draft(group, out.records)
        self.consumer.remove(out, draft, member_ids)
        self._downgrade_if_possible(now_ms, out, group, draft)

    def _downgrade_if_possible(self, now_ms: int, out: Outcome, group: ConsumerGroup, draft: Draft) -> None:
        """Only when the last member of the new protocol has just gone; a group is not changed behind its back."""
        if not group.all_classic and migration.may_downgrade(draft.group, self.config):
            self.consumer.forget(group.id, group.members)
            for member_id in draft.group.members:
                out.timers.append((("rejoin", group.id, member_id), None))
                out.timers.append((("revoke", group.id, member_id), None))
            migration.downgrade(now_ms, draft, self.topics)
            out.timers.append((("downgraded", group.id), now_ms))

    def _or_refuse(
        self, out: Outcome, call: Call, decide: Callable[[], Any], refusal: Callable[[Refused], Any]
    ) -> None:
        """What `decide` answers, or its refusal, and then nothing else."""
        try:
            out.replies.append((call.ticket, decide()))
        except Refused as error:
            out.records.clear()
            out.timers.clear()
            out.replies[:] = [(call.ticket, refusal(error))]

    # -- offsets ---------------------------------------------------------------------------------------------------

    def _commit(self, now_ms: int, out: Outcome, event: events.CommitOffsets) -> None:
        group = self.groups.get(event.group_id)
        commits.commit(now_ms, out, event.group_id, group, event, self.config.metadata_max_bytes)

    def _fetch(self, _: int, out: Outcome, event: events.FetchOffsets) -> None:
        out.replies.append((event.ticket, commits.fetch(self.groups.get(event.group_id), event)))

    def _delete_offsets(self, _: int, out: Outcome, event: events.DeleteOffsets) -> None:
        commits.delete(out, self.groups.get(event.group_id), event)

    # -- from outside ----------------------------------------------------------------------------------------------

    def _describe(self, _: int, out: Outcome, event: events.DescribeGroup) -> None:
        out.replies.append((event.ticket, admin.describe_classic(event.group_id, self.groups.get(event.group_id))))

    def _describe_consumer(self, _: int, out: Outcome, event: events.DescribeConsumerGroup) -> None:
        group = self.groups.get(event.group_id)
        assignor = self.config.consumer_assignors[0]
        out.replies.append((event.ticket, admin.describe_consumer(event.group_id, group, self.topics, assignor)))

    def _list(self, _: int, out: Outcome, event: events.ListGroups) -> None:
        states = {state.lower() for state in event.states}
        types = {type_.lower() for type_ in event.types}
        listed = [admin.list_group(group) for group in self.groups.values()]
        out.replies.append(
            (
                event.ticket,
                [
                    one
                    for one in listed
                    if (not states or one.group_state.lower() in states)
                    and (not types or one.group_type.lower() in types)
                ],
            )
        )

    def _delete_group(self, now_ms: int, out: Outcome, event: events.DeleteGroup) -> None:
        group = self.groups.get(event.group_id)
        if group is None:
            out.replies.append((event.ticket, ErrorCode.GROUP_ID_NOT_FOUND))
            return
        if not group.empty:
            out.replies.append((event.ticket, ErrorCode.NON_EMPTY_GROUP))
            return
        tails = list(islice(group.offsets.committed, MAX_TOMBSTONES))
        out.records += [(offset_key(group.id_bytes, tail), None) for tail in tails]
        if len(tails) < len(group.offsets.committed):
            out.timers.append((("delete", event), now_ms))
            return
        self._bury(out, group)
        out.replies.append((event.ticket, ErrorCode.NONE))

    def _bury(self, out: Outcome, group: Group) -> None:
        """A group without members, whose offsets are gone or about to be."""
        if group.consumer is not None:
            Draft(group.consumer, out.records).remove_group()
            self.consumer.forget(group.id, ())
        elif group.classic is not None and group.classic.generation:
            out.records.append(group_metadata_tombstone(group.id))
        else:
            # Nobody has ever been in it, so no member is stored.
            group.classic = None
            if not group.offsets:
                del self.groups[group.id]

    # -- topics ----------------------------------------------------------------------------------------------------

    def _topics_changed(self, now_ms: int, out: Outcome, event: events.TopicsChanged) -> None:
        self.topics.replace(event.topics)
        self.consumer.stale.update(group.id for group in self.groups.values() if group.consumer is not None)
        self._deleted_topics.update(event.deleted)
        self._clean_up(now_ms, out)

    def _clean_up(self, now_ms: int, out: Outcome) -> None:
        """Forgets the offsets of topics that are gone: a new topic of the same name begins anew."""
        if not self._deleted_topics:
            return
        topics = frozenset(self._deleted_topics)
        found = (
            (offset_key(group.id_bytes, tail), None)
            for group in self.groups.values()
            for tail in group.offsets.tails_of_topics(topics)
        )
        out.records += islice(found, MAX_TOMBSTONES)
        if len(out.records) < MAX_TOMBSTONES:
            self._deleted_topics.clear()
        else:
            out.timers.append((("clean up",), now_ms))

    # -- time ------------------------------------------------------------------------------------------------------

    def _timer(self, now_ms: int, out: Outcome, event: TimerFired) -> None:
        kind, *rest = event.key
        if kind == "expiry":
            self._expire(now_ms, out)
            return
        if kind == "clean up":
            self._clean_up(now_ms, out)
            return
        if kind == "delete":
            self._delete_group(now_ms, out, rest[0])
            return
        group = self.groups.get(rest[0])
        if kind == "session" and (group is None or group.consumer is None or rest[1] not in group.consumer.members):
            # Of a member that could not be stored: should it come again, its session needs a timer anew.
            self.consumer.deadlines.pop((rest[0], rest[1]), None)
        if group is None:
            return
        if group.classic is not None:
            self._classic_timer(now_ms, out, group.classic, kind, *rest[1:])
        elif group.consumer is not None and len(rest) > 1:
            self._consumer_timer(now_ms, out, group.consumer, kind, rest[1])

    def _classic_timer(self, now_ms: int, out: Outcome, group: ClassicGroup, kind: str, member_id: str = "") -> None:
        if kind == "session":
            self.classic.session_timer(now_ms, out, group, member_id)
        elif kind == "pending":
            self.classic.pending_timer(now_ms, out, group, member_id)
        elif kind == "join":
            self.classic.join_time_is_up(now_ms, out, group)
        elif kind == "sync":
            self.classic.sync_time_is_up(now_ms, out, group)
        elif kind == "downgraded" and group.state is State.STABLE:
            self.classic.loaded(now_ms, out, group)
            self.classic.prepare(now_ms, out, group)

    def _consumer_timer(self, now_ms: int, out: Outcome, group: ConsumerGroup, kind: str, member_id: str) -> None:
        member = group.members.get(member_id)
        if member is None:
            return
        if kind == "session":
            late = self.consumer.session_ended(now_ms, out, group, member_id)
        elif kind == "revoke":
            late = group.current(member_id).state is MemberState.UNREVOKED_PARTITIONS
        else:
            late = kind == "rejoin"
        if late:
            self._remove_members(now_ms, out, group, [member_id])

    def _expire(self, now_ms: int, out: Outcome) -> None:
        """Offsets that nobody needs, groups that nobody is in. What does not fit into one batch follows at once."""
        again_ms = now_ms + self.config.offsets_check_interval_ms
        for group in list(self.groups.values()):
            tails = list(islice(commits.expired(now_ms, group, self.config), MAX_TOMBSTONES - len(out.records)))
            out.records += [(offset_key(group.id_bytes, tail), None) for tail in tails]
            if len(out.records) >= MAX_TOMBSTONES:
                again_ms = now_ms
                break
            if group.empty and not group.offsets.pending and len(tails) == len(group.offsets.committed):
                self._expire_group(now_ms, out, group)
        out.timers.append((("expiry",), again_ms))

    def _expire_group(self, now_ms: int, out: Outcome, group: Group) -> None:
        classic = group.classic
        if classic is not None and classic.state is State.PREPARING_REBALANCE:
            # Its last member left while nothing could be stored.
            value = classic.stored_value(now_ms, generation=classic.generation + 1)
            out.records.append(group_metadata_record(group.id, value))
            return
        if classic is None and group.consumer is None:
            if not group.offsets:
                del self.groups[group.id]
            return
        self._bury(out, group)
