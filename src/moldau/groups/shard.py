"""Group coordinator shard: the groups of one partition of `__consumer_offsets` as a state machine.

`step` takes the time and an event, finds the group, and returns the outcome of the rule for them: records to store,
replies and timers. `replay` applies a stored record. The rules are in other modules:

- `classic_protocol`: groups of the classic protocol
- `consumer_group_protocol`: groups of the consumer protocol (KIP-848)
- `classic_members` and `migration`: groups that change from one protocol to the other
- `commits`: offsets
- `admin`: describing and listing
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Final, assert_never

from moldau.cluster.image import TopicImage
from moldau.coordinator.outcome import CoordinatorOutcome, TimerFired
from moldau.groups import admin, classic_members, commits, migration
from moldau.groups.classic_group import ClassicGroup, ClassicGroupState
from moldau.groups.classic_protocol import ClassicProtocol, join_error, leave_response, leaving_members, sync_error
from moldau.groups.config import GroupConfig, TimesOf, same_times
from moldau.groups.consumer_group import LEFT_EPOCH, ConsumerGroup, MemberState
from moldau.groups.consumer_group_draft import ConsumerGroupDraft
from moldau.groups.consumer_group_protocol import ConsumerProtocol, heartbeat_error
from moldau.groups.errors import GroupRequestError
from moldau.groups.events import (
    CommitOffsets,
    ConsumerGroupHeartbeat,
    DeleteGroup,
    DeleteOffsets,
    DescribeConsumerGroup,
    DescribeGroup,
    FetchOffsets,
    GroupRequestEvent,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    SyncGroup,
    TopicsChanged,
)
from moldau.groups.group import Group
from moldau.groups.replay import StoredGroups
from moldau.groups.stored_records import group_metadata_record, group_metadata_tombstone, offset_key
from moldau.groups.subscriptions import Topics
from moldau.groups.timers import (
    DeletedTopicsTimer,
    DeletionTimer,
    DowngradeTimer,
    ExpiryTimer,
    GroupTimer,
    JoinTimer,
    MemberTimer,
    PendingMemberTimer,
    RejoinTimer,
    RevocationTimer,
    SessionTimer,
    SyncTimer,
    TimerChange,
)
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.consumer_group_describe import ConsumerGroupDescribeResponseGroup
from moldau.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from moldau.wire.messages.heartbeat import HeartbeatResponse
from moldau.wire.messages.leave_group import LeaveGroupRequestMember, LeaveGroupResponseMember
from moldau.wire.messages.list_groups import ListGroupsResponseGroup

MAX_TOMBSTONES: Final = 2_000
"""Maximum number of offset deletions in one batch; the next batch follows at once."""

GroupEvent = GroupRequestEvent | TimerFired[GroupTimer]


class GroupShard(StoredGroups):
    """All groups of one partition."""

    def __init__(
        self,
        config: GroupConfig,
        new_id: Callable[[], str],
        topics: Mapping[str, TopicImage],
        times_of: TimesOf | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self._new_id = new_id
        self.topics = Topics(topics)
        self.classic = ClassicProtocol(config, new_id)
        self.consumer = ConsumerProtocol(config, self.topics, times_of or same_times(config))
        self._deleted_topics: set[str] = set()
        self._becoming_classic: Group | None = None
        """An empty consumer group that the last step replaced by a classic group."""

    def step(self, now_ms: int, event: GroupEvent) -> CoordinatorOutcome:
        if self._becoming_classic is None:
            return self._decide(now_ms, event)
        outcome = self._end_replacement(self._becoming_classic)
        outcome += self._decide(now_ms, event)
        return outcome

    def _decide(self, now_ms: int, event: GroupEvent) -> CoordinatorOutcome:
        match event:  # the frequent events first
            case Heartbeat():
                return self._heartbeat(now_ms, event)
            case CommitOffsets():
                return commits.commit(now_ms, self.groups.get(event.group_id), event, self.config.metadata_max_bytes)
            case ConsumerGroupHeartbeat():
                return self._consumer_heartbeat(now_ms, event)
            case FetchOffsets():
                return _reply(event.ticket, commits.fetch(self.groups.get(event.group_id), event))
            case TimerFired():
                return self._timer_fired(now_ms, event.key)
            case JoinGroup():
                return self._join(now_ms, event)
            case SyncGroup():
                return self._sync(now_ms, event)
            case LeaveGroup():
                return self._leave(now_ms, event)
            case DeleteOffsets():
                return commits.delete(self.groups.get(event.group_id), event)
            case DescribeGroup():
                return _reply(event.ticket, admin.describe_classic(event.group_id, self.groups.get(event.group_id)))
            case DescribeConsumerGroup():
                return _reply(event.ticket, self._describe_consumer(event.group_id))
            case ListGroups():
                return _reply(event.ticket, self._list(event))
            case DeleteGroup():
                return self._delete_group(now_ms, event)
            case TopicsChanged():
                return self._topics_changed(now_ms, event)
            case _:
                assert_never(event)

    def loaded(self, now_ms: int) -> CoordinatorOutcome:
        outcome = CoordinatorOutcome()
        for group in self.groups.values():
            if group.classic is not None:
                outcome += self.classic.loaded(now_ms, group.classic)
            if group.consumer is not None:
                outcome += self.consumer.loaded(now_ms, group.consumer)
        outcome.timers.append((ExpiryTimer(), now_ms + self.config.offsets_check_interval_ms))
        return outcome

    def topics_replayed(self, group_id: str) -> None:
        self.consumer.stale.discard(group_id)

    # -- classic protocol ------------------------------------------------------------------------------------------

    def _join(self, now_ms: int, event: JoinGroup) -> CoordinatorOutcome:
        request = event.request
        code = ErrorCode.NONE
        group = self.groups.get(request.group_id)
        if not request.group_id:
            code = ErrorCode.INVALID_GROUP_ID
        elif not self.config.min_session_ms <= request.session_timeout_ms <= self.config.max_session_ms:
            code = ErrorCode.INVALID_SESSION_TIMEOUT
        elif request.member_id and (group is None or (group.classic is None and group.consumer is None)):
            code = ErrorCode.UNKNOWN_MEMBER_ID
        if code != ErrorCode.NONE:
            return _reply(event.ticket, join_error(code, request.member_id))
        if group is None or group.consumer is None:
            return self._join_classic_group(now_ms, self.made(request.group_id), event)
        if not group.consumer.members:
            return self._replace_empty_group(now_ms, group, group.consumer, event)
        try:
            return classic_members.join(now_ms, self.consumer, group.consumer, event, self._new_id())
        except GroupRequestError as error:
            return _reply(event.ticket, join_error(error.code, request.member_id))

    def _join_classic_group(self, now_ms: int, group: Group, event: JoinGroup) -> CoordinatorOutcome:
        if group.classic is None:
            group.classic = ClassicGroup(group.id)
        return self.classic.join(now_ms, group.classic, event)

    def _replace_empty_group(
        self, now_ms: int, group: Group, consumer: ConsumerGroup, event: JoinGroup
    ) -> CoordinatorOutcome:
        """Replace a consumer group without members by a classic group."""
        draft = ConsumerGroupDraft(consumer)
        draft.remove_group()
        self._becoming_classic = group
        outcome = CoordinatorOutcome(records=draft.records)
        outcome += self._join_classic_group(now_ms, group, event)
        return outcome

    def _end_replacement(self, group: Group) -> CoordinatorOutcome:
        """Check the replacement of the last step. If it was not stored, the group is still a consumer group: drop the
        classic group, and let its waiting members rejoin."""
        self._becoming_classic = None
        if group.consumer is None or group.classic is None:
            return CoordinatorOutcome()
        outcome = migration.dissolve(group.classic)
        group.classic = None
        return outcome

    def _sync(self, now_ms: int, event: SyncGroup) -> CoordinatorOutcome:
        group = self.groups.get(event.request.group_id)
        if group is not None and group.consumer is not None:
            try:
                return classic_members.sync(now_ms, self.consumer, group.consumer, event)
            except GroupRequestError as error:
                return _reply(event.ticket, sync_error(error.code))
        if group is None or group.classic is None:
            return _reply(event.ticket, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
        return self.classic.sync(now_ms, group.classic, event)

    def _heartbeat(self, now_ms: int, event: Heartbeat) -> CoordinatorOutcome:
        group = self.groups.get(event.request.group_id)
        code = ErrorCode.UNKNOWN_MEMBER_ID
        if group is not None and group.classic is not None:
            code = self.classic.heartbeat(now_ms, group.classic, event.request)
        elif group is not None and group.consumer is not None:
            try:
                return classic_members.heartbeat(now_ms, self.consumer, group.consumer, event)
            except GroupRequestError as error:
                code = error.code
        return _reply(event.ticket, HeartbeatResponse(error_code=code))

    def _leave(self, now_ms: int, event: LeaveGroup) -> CoordinatorOutcome:
        group = self.groups.get(event.request.group_id)
        if group is not None and group.classic is not None:
            return self.classic.leave(now_ms, group.classic, event)
        if group is not None and group.consumer is not None:
            return self._leave_consumer_group(now_ms, group.consumer, event)
        unknown = [(one, ErrorCode.UNKNOWN_MEMBER_ID) for one in leaving_members(event)]
        return _reply(event.ticket, leave_response(event.version, _left(unknown)))

    def _leave_consumer_group(self, now_ms: int, group: ConsumerGroup, event: LeaveGroup) -> CoordinatorOutcome:
        members = leaving_members(event)
        found = classic_members.leaving(group, members)
        leaving = [member_id for member_id, code in found if code == ErrorCode.NONE]
        outcome = self._remove_members(now_ms, group, leaving) if leaving else CoordinatorOutcome()
        results = _left(zip(members, [code for _, code in found], strict=True))
        outcome.replies.append((event.ticket, leave_response(event.version, results)))
        return outcome

    # -- consumer protocol -----------------------------------------------------------------------------------------

    def _consumer_heartbeat(self, now_ms: int, event: ConsumerGroupHeartbeat) -> CoordinatorOutcome:
        try:
            self.consumer.check(event.request, event.version)
            if event.request.member_epoch <= LEFT_EPOCH:
                return self._leave_by_heartbeat(now_ms, event)
            return self._join_or_stay(now_ms, event)
        except GroupRequestError as error:
            return _reply(event.ticket, heartbeat_error(error.code, error.message))

    def _join_or_stay(self, now_ms: int, event: ConsumerGroupHeartbeat) -> CoordinatorOutcome:
        request = event.request
        if not request.member_id:
            request.member_id = self._new_id()
        draft = self._consumer_draft(request)
        outcome = self.consumer.heartbeat(now_ms, draft, event)
        known = self.groups.get(request.group_id)
        if known is not None and known.classic is not None:
            outcome += migration.dissolve(known.classic)
            for member in draft.group.members.values():
                outcome.timers += self.consumer.restart_session(now_ms, known.id, member)
        return outcome

    def _consumer_draft(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupDraft:
        """A draft of the member's group. For a member that joins, a group is created or upgraded if necessary."""
        group = self.groups.get(request.group_id)
        if group is not None and group.consumer is not None:
            return ConsumerGroupDraft(group.consumer)
        if request.member_epoch != 0:
            raise GroupRequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a consumer group.")
        if group is not None and group.classic is not None:
            return migration.upgrade(group.classic, self.topics, self.config)
        return ConsumerGroupDraft(ConsumerGroup(request.group_id))

    def _leave_by_heartbeat(self, now_ms: int, event: ConsumerGroupHeartbeat) -> CoordinatorOutcome:
        request = event.request
        group = self.groups.get(request.group_id)
        if group is None or group.consumer is None:
            raise GroupRequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a consumer group.")
        draft = ConsumerGroupDraft(group.consumer)
        timers = self.consumer.leave(draft, request)
        timers += self._downgrade_if_possible(now_ms, group.consumer, draft)
        answer = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        return CoordinatorOutcome(records=draft.records, replies=[(event.ticket, answer)], timers=timers)

    def _remove_members(self, now_ms: int, group: ConsumerGroup, member_ids: list[str]) -> CoordinatorOutcome:
        draft = ConsumerGroupDraft(group)
        timers = self.consumer.remove(draft, member_ids)
        timers += self._downgrade_if_possible(now_ms, group, draft)
        return CoordinatorOutcome(records=draft.records, timers=timers)

    def _downgrade_if_possible(self, now_ms: int, group: ConsumerGroup, draft: ConsumerGroupDraft) -> list[TimerChange]:
        """Downgrade the group if its last member of the consumer protocol leaves with this draft, and only then."""
        if group.all_classic or not migration.may_downgrade(draft.group, self.config):
            return []
        timers: list[TimerChange] = []
        self.consumer.forget(group.id, group.members)
        for member_id in draft.group.members:
            timers += [(RejoinTimer(group.id, member_id), None), (RevocationTimer(group.id, member_id), None)]
        migration.downgrade(now_ms, draft, self.topics)
        timers.append((DowngradeTimer(group.id), now_ms))
        return timers

    # -- administration --------------------------------------------------------------------------------------------

    def _describe_consumer(self, group_id: str) -> ConsumerGroupDescribeResponseGroup:
        assignor = self.config.consumer_assignors[0]
        return admin.describe_consumer(group_id, self.groups.get(group_id), self.topics, assignor)

    def _list(self, event: ListGroups) -> list[ListGroupsResponseGroup]:
        states = {state.lower() for state in event.states}
        types = {type_.lower() for type_ in event.types}
        return [
            one
            for one in map(admin.list_group, self.groups.values())
            if (not states or one.group_state.lower() in states) and (not types or one.group_type.lower() in types)
        ]

    def _delete_group(self, now_ms: int, event: DeleteGroup) -> CoordinatorOutcome:
        group = self.groups.get(event.group_id)
        if group is None:
            return _reply(event.ticket, ErrorCode.GROUP_ID_NOT_FOUND)
        if not group.empty:
            return _reply(event.ticket, ErrorCode.NON_EMPTY_GROUP)
        tails = list(islice(group.offsets.committed, MAX_TOMBSTONES))
        outcome = CoordinatorOutcome(records=[(offset_key(group.id_bytes, tail), None) for tail in tails])
        if len(tails) < len(group.offsets.committed):
            outcome.timers.append((DeletionTimer(event), now_ms))
            return outcome
        outcome += self._remove_group(group)
        outcome.replies.append((event.ticket, ErrorCode.NONE))
        return outcome

    def _remove_group(self, group: Group) -> CoordinatorOutcome:
        """Remove a group without members. Its offsets are deleted already, or by earlier records of the same batch."""
        if group.consumer is not None:
            draft = ConsumerGroupDraft(group.consumer)
            draft.remove_group()
            self.consumer.forget(group.id, ())
            return CoordinatorOutcome(records=draft.records)
        if group.classic is not None and group.classic.generation:
            return CoordinatorOutcome(records=[group_metadata_tombstone(group.id)])
        # The group never had a generation, so no record of it is stored.
        group.classic = None
        if not group.offsets:
            del self.groups[group.id]
        return CoordinatorOutcome()

    # -- topics ----------------------------------------------------------------------------------------------------

    def _topics_changed(self, now_ms: int, event: TopicsChanged) -> CoordinatorOutcome:
        self.topics.replace(event.topics)
        self.consumer.stale.update(group.id for group in self.groups.values() if group.consumer is not None)
        self._deleted_topics.update(event.deleted)
        return self._delete_offsets_of_deleted_topics(now_ms)

    def _delete_offsets_of_deleted_topics(self, now_ms: int) -> CoordinatorOutcome:
        """Delete the offsets of deleted topics: they are wrong for a new topic of the same name."""
        if not self._deleted_topics:
            return CoordinatorOutcome()
        topics = frozenset(self._deleted_topics)
        found = (
            (offset_key(group.id_bytes, tail), None)
            for group in self.groups.values()
            for tail in group.offsets.tails_of_topics(topics)
        )
        outcome = CoordinatorOutcome(records=list(islice(found, MAX_TOMBSTONES)))
        if len(outcome.records) < MAX_TOMBSTONES:
            self._deleted_topics.clear()
        else:
            outcome.timers.append((DeletedTopicsTimer(), now_ms))
        return outcome

    # -- timers ----------------------------------------------------------------------------------------------------

    def _timer_fired(self, now_ms: int, timer: GroupTimer) -> CoordinatorOutcome:
        match timer:
            case ExpiryTimer():
                return self._expire(now_ms)
            case DeletedTopicsTimer():
                return self._delete_offsets_of_deleted_topics(now_ms)
            case DeletionTimer():
                return self._delete_group(now_ms, timer.event)
            case JoinTimer() | SyncTimer() | DowngradeTimer():
                group = self.groups.get(timer.group_id)
                if group is None or group.classic is None:
                    return CoordinatorOutcome()
                return self._classic_group_timer(now_ms, group.classic, timer)
            case _:
                return self._member_timer(now_ms, timer)

    def _classic_group_timer(
        self, now_ms: int, group: ClassicGroup, timer: JoinTimer | SyncTimer | DowngradeTimer
    ) -> CoordinatorOutcome:
        match timer:
            case JoinTimer():
                return self.classic.join_timeout(now_ms, group)
            case SyncTimer():
                return self.classic.sync_timeout(now_ms, group)
            case DowngradeTimer():
                outcome = CoordinatorOutcome()
                if group.state is ClassicGroupState.STABLE:
                    outcome += self.classic.loaded(now_ms, group)
                    outcome += self.classic.prepare(now_ms, group)
                return outcome

    def _member_timer(self, now_ms: int, timer: MemberTimer) -> CoordinatorOutcome:
        group_id, member_id = timer.group_id, timer.member_id
        group = self.groups.get(group_id)
        consumer = None if group is None else group.consumer
        if isinstance(timer, SessionTimer) and (consumer is None or member_id not in consumer.members):
            # The member was never stored. If it joins again, its session needs a new timer.
            self.consumer.deadlines.pop((group_id, member_id), None)
            self.consumer.views.pop((group_id, member_id), None)
        if group is not None and group.classic is not None:
            if isinstance(timer, SessionTimer):
                return self.classic.session_timeout(now_ms, group.classic, member_id)
            if isinstance(timer, PendingMemberTimer):
                return self.classic.pending_member_timeout(now_ms, group.classic, member_id)
        elif consumer is not None and member_id in consumer.members:
            return self._consumer_member_timer(now_ms, consumer, timer)
        return CoordinatorOutcome()

    def _consumer_member_timer(self, now_ms: int, group: ConsumerGroup, timer: MemberTimer) -> CoordinatorOutcome:
        member_id = timer.member_id
        match timer:
            case SessionTimer():
                if (again := self.consumer.session_left(now_ms, group, member_id)) is not None:
                    return CoordinatorOutcome(timers=[again])
            case RevocationTimer():
                if group.current(member_id).state is not MemberState.UNREVOKED_PARTITIONS:
                    return CoordinatorOutcome()
            case PendingMemberTimer():
                return CoordinatorOutcome()
            case RejoinTimer():
                pass
        return self._remove_members(now_ms, group, [member_id])

    def _expire(self, now_ms: int) -> CoordinatorOutcome:
        """Delete expired offsets and empty groups. If they exceed one batch, the next check follows at once."""
        outcome = CoordinatorOutcome()
        again_ms = now_ms + self.config.offsets_check_interval_ms
        for group in list(self.groups.values()):
            tails = list(islice(commits.expired(now_ms, group, self.config), MAX_TOMBSTONES - len(outcome.records)))
            outcome.records += [(offset_key(group.id_bytes, tail), None) for tail in tails]
            if len(outcome.records) >= MAX_TOMBSTONES:
                again_ms = now_ms
                break
            if group.empty and not group.offsets.pending and len(tails) == len(group.offsets.committed):
                outcome += self._expire_group(now_ms, group)
        outcome.timers.append((ExpiryTimer(), again_ms))
        return outcome

    def _expire_group(self, now_ms: int, group: Group) -> CoordinatorOutcome:
        classic = group.classic
        if classic is not None and classic.state is ClassicGroupState.PREPARING_REBALANCE:
            # Its last member left while nothing could be stored.
            value = classic.stored_value(now_ms, generation=classic.generation + 1)
            return CoordinatorOutcome(records=[group_metadata_record(group.id, value)])
        if classic is None and group.consumer is None:
            if not group.offsets:
                del self.groups[group.id]
            return CoordinatorOutcome()
        return self._remove_group(group)


def _left(results: Iterable[tuple[LeaveGroupRequestMember, ErrorCode]]) -> list[LeaveGroupResponseMember]:
    return [
        LeaveGroupResponseMember(member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=code)
        for one, code in results
    ]


def _reply(ticket: Any, answer: Any) -> CoordinatorOutcome:
    return CoordinatorOutcome(replies=[(ticket, answer)])
