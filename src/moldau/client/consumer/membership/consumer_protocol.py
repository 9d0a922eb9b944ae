"""Consumer group protocol (KIP-848), member side: a state machine of heartbeats and partition changes.

The coordinator assigns partitions. A heartbeat contains what has changed since the last one that was answered; after a
missing response it contains everything. A response may contain a new assignment. The member reconciles step by step: it
revokes partitions that are not in the assignment, reports this with a heartbeat, and adds the new ones. Each step waits
for a call of the listener, inside poll. Heartbeats continue meanwhile, so a slow application keeps its partitions and
does not delay other members.

A heartbeat that the member has given up may arrive late, after the next one. The coordinator may then send partitions
in a response that the member ignores. So the member sends a full heartbeat once per session time-out and gets the full
assignment: a disagreement does not last.

No I/O: see `machine.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from moldau.client.consumer.membership.events import (
    NO_GENERATION,
    Answered,
    BeginRevocation,
    CallbackDone,
    MemberConfig,
    MetadataChanged,
    PollCalled,
    RefreshMetadata,
    RequestFailed,
    SetAssignment,
    Subscribed,
    TopicInfo,
    TopicsLookedUp,
)
from moldau.client.consumer.membership.machine import MemberStateMachine
from moldau.client.data_types import TopicPartition
from moldau.client.errors import MoldauError, error_for
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from moldau.wire.topic_partition import by_topic

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2
"""A static member leaves: the coordinator keeps its partitions until its session times out."""

UNRELEASED_TIMEOUT_S: Final = 60.0
"""How long a static member retries while its predecessor, killed perhaps, is still in the group; a session is 45 s."""

ANSWER_INTERVALS: Final = 3.0
"""A heartbeat without a response for this number of heartbeat intervals has failed."""

Slot = tuple[bytes, int]
"""A partition by topic id: a topic that is deleted and created again has another id, though its name is the same."""


class ConsumerMemberState(Enum):
    """States of the member."""

    OUT = "out"
    """Not in the group; joins when the application polls."""
    LOSING = "losing"
    """Removed from the group; waits for the call of the listener about the lost partitions."""
    JOINING = "joining"
    IN = "in the group"
    LEFT = "left"
    FAILED = "failed"


INACTIVE: Final = frozenset({ConsumerMemberState.OUT, ConsumerMemberState.LEFT, ConsumerMemberState.FAILED})


class HeartbeatReaction(Enum):
    """What a member does after an error code."""

    RETRY = "send the request again after a pause"
    FIND_COORDINATOR = "look up the coordinator, then retry"
    FENCED = "give up all partitions: the group has removed this member"
    WAIT_FOR_RELEASE = "retry: another member has the same instance id, and may leave soon"
    FAIL = "stop: a retry does not help"


REACTIONS: Final[Mapping[ErrorCode, HeartbeatReaction]] = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: HeartbeatReaction.RETRY,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: HeartbeatReaction.FIND_COORDINATOR,
    ErrorCode.NOT_COORDINATOR: HeartbeatReaction.FIND_COORDINATOR,
    ErrorCode.UNKNOWN_MEMBER_ID: HeartbeatReaction.FENCED,
    ErrorCode.FENCED_MEMBER_EPOCH: HeartbeatReaction.FENCED,
    # This member was the last one of this protocol. The group was deleted, or is a classic group by now.
    ErrorCode.GROUP_ID_NOT_FOUND: HeartbeatReaction.FENCED,
    ErrorCode.UNRELEASED_INSTANCE_ID: HeartbeatReaction.WAIT_FOR_RELEASE,
}


def reaction_to(code: ErrorCode) -> HeartbeatReaction:
    return REACTIONS.get(code) or (HeartbeatReaction.RETRY if code.retriable else HeartbeatReaction.FAIL)


class ConsumerMachine(MemberStateMachine):
    """One member of a consumer group. The client chooses `member_id`, and keeps it for its lifetime."""

    def __init__(self, config: MemberConfig, member_id: str) -> None:
        super().__init__(config)
        self.member_id = member_id
        self.state = ConsumerMemberState.OUT
        self.subscribed = Subscribed(())
        self._acked_subscription: Subscribed | None = None  # of the last heartbeat that was answered
        self._acked_owned: frozenset[Slot] | None = None  # likewise the owned partitions
        self._answer_missing = False  # a response is missing: the next heartbeat is a full one
        self._full_heartbeat_at = 0.0  # time of the next full heartbeat
        self._known: Mapping[str, TopicInfo] = {}
        self._names: dict[bytes, str] = {}
        self._target: frozenset[Slot] | None = None  # the last assignment of the coordinator; None before the first
        self._slots: dict[Slot, TopicPartition] = {}  # owned partitions
        self._moving: dict[Slot, TopicPartition] = {}  # the partitions of `due`
        self._had_callback = False
        self._request: int | None = None
        self._sent: tuple[Subscribed, frozenset[Slot], bool] | None = None  # topics, partitions, whether it was full
        self._interval_s = config.heartbeat_interval_s
        self._heartbeat_at = 0.0
        self._sent_at = 0.0
        self._unreleased_since: float | None = None

    # -- events ----------------------------------------------------------------------------------------------------

    def _on_subscribed(self, _: float, event: Subscribed) -> None:
        self.subscribed = event

    def _on_metadata(self, _: float, event: MetadataChanged | TopicsLookedUp) -> None:
        self._known = event.topics
        self._names.update((info.id, name) for name, info in event.topics.items())

    def _on_callback_done(self, now: float, event: CallbackDone) -> None:
        done = self._callback_done(now, event)
        self._on_poll(now, PollCalled())
        if done.kind == "assigned":
            self._slots |= self._moving
        else:
            for slot in self._moving:
                self._slots.pop(slot, None)
        self._moving = {}
        if self.state is ConsumerMemberState.LOSING or (self.state is ConsumerMemberState.FAILED and self.owned):
            self._lose_all()

    def _on_topics(self, now: float, event: TopicsLookedUp) -> None:
        self._on_metadata(now, event)

    def _leave(self) -> None:
        self._send_leave()
        self.state = ConsumerMemberState.LEFT
        self._slots = {}

    # -- responses -------------------------------------------------------------------------------------------------

    def _on_answer(self, now: float, event: Answered) -> None:
        if event.ticket != self._request:
            return  # the response to a heartbeat that the member has given up
        self._request = None
        response: ConsumerGroupHeartbeatResponse = event.response
        code = ErrorCode.of(response.error_code)
        if code is not ErrorCode.NONE:
            self._react(now, code, response.error_message)
            return
        self._succeeded()
        self._unreleased_since = None
        self._answer_missing = False
        assert self._sent is not None
        self._acked_subscription, self._acked_owned, full = self._sent
        if full:
            self._full_heartbeat_at = now + self.config.session_timeout_s
        self.state = ConsumerMemberState.IN
        self.generation = response.member_epoch
        if response.heartbeat_interval_ms > 0:
            self._interval_s = response.heartbeat_interval_ms / 1_000
        self._heartbeat_at = now + self._interval_s
        if response.assignment is not None:
            self._target = frozenset(
                (bytes(one.topic_id), index) for one in response.assignment.topic_partitions for index in one.partitions
            )

    def _on_failure(self, now: float, event: RequestFailed) -> None:
        if event.ticket != self._request:
            return
        self._request = None
        if not event.error.retriable:
            self._fail(event.error)
            return
        self._answer_missing = True
        self._back_off(now, coordinator_gone=True)

    def _react(self, now: float, code: ErrorCode, detail: str | None) -> None:
        match reaction_to(code):
            case HeartbeatReaction.RETRY | HeartbeatReaction.FIND_COORDINATOR as reaction:
                # The coordinator may have processed the heartbeat without storing the result.
                self._answer_missing = True
                self._back_off(now, coordinator_gone=reaction is HeartbeatReaction.FIND_COORDINATOR)
            case HeartbeatReaction.FENCED:
                self._removed_from_group(now)
            case HeartbeatReaction.WAIT_FOR_RELEASE if self._may_wait(now):
                self._back_off(now)
            case _:
                self._fail(error_for(code, f"staying in group {self.config.group_id!r}", detail))

    def _may_wait(self, now: float) -> bool:
        """Return whether to retry: the heartbeat was sent before the time-out. A paused process may retry once more."""
        if self._unreleased_since is None:
            self._unreleased_since = now
        return self._sent_at < self._unreleased_since + UNRELEASED_TIMEOUT_S

    def _removed_from_group(self, now: float) -> None:
        if self.state is ConsumerMemberState.JOINING:
            self._back_off(now)  # a join that is refused again and again must not become a busy loop
        self.state = ConsumerMemberState.LOSING
        self._forget()
        self._lose_all()

    def _lose_all(self) -> None:
        if self._lose_partitions():
            if not self._in_callback:
                self._moving = dict(self._slots)
        elif self.state is ConsumerMemberState.LOSING:
            self._slots = {}
            self.state = ConsumerMemberState.OUT

    def _forget(self) -> None:
        """Forget what was exchanged with the coordinator: the membership is over."""
        self.generation = NO_GENERATION
        self._request = None
        self._acked_subscription = self._acked_owned = self._target = None
        self._answer_missing = False
        self._had_callback = False

    def _fail(self, error: MoldauError) -> None:
        self.state = ConsumerMemberState.FAILED
        self.failure = error
        self._forget()
        self._lose_all()

    # -- leaving ---------------------------------------------------------------------------------------------------

    def _send_leave(self) -> None:
        """Send the last heartbeat. The coordinator keeps the partitions of a static member for a session time-out."""
        if self.state not in INACTIVE and self.state is not ConsumerMemberState.LOSING:
            epoch = LEAVE_EPOCH if self.config.instance_id is None else LEAVE_STATIC_EPOCH
            self._send(
                ConsumerGroupHeartbeatRequest(
                    group_id=self.config.group_id,
                    member_id=self.member_id,
                    member_epoch=epoch,
                    instance_id=self.config.instance_id,
                ),
                self.config.request_timeout_s,
            )
        self._forget()

    def _on_poll_overdue(self) -> None:
        """Leave the group after max.poll.interval.ms without a poll. Join again when the application polls."""
        self._send_leave()
        self.state = ConsumerMemberState.LOSING
        self._lose_all()

    # -- next steps ------------------------------------------------------------------------------------------------

    def _advance(self, now: float) -> None:
        if self.state is ConsumerMemberState.OUT and self._polling:
            self.state = ConsumerMemberState.JOINING
        if self.state is ConsumerMemberState.IN and not self._in_callback:
            self._reconcile()
        if self._request is None and now >= self._retry_at and self._heartbeat_due(now):
            self._send_heartbeat(now)

    def _reconcile(self) -> None:
        """Set the next callback on the way from the owned partitions to the assignment: revoke first, then add."""
        if self._target is None:
            return
        removed = {slot: name for slot, name in self._slots.items() if slot not in self._target}
        added = {slot: named for slot in self._target - self._slots.keys() if (named := self._named(slot)) is not None}
        unknown = len(self._target - self._slots.keys()) > len(added)
        if unknown and self.due is None:
            self._actions.append(RefreshMetadata())
        kind, moving = ("revoked", removed) if removed else ("assigned", added)
        if self.due is not None and self.due.kind == kind and moving == self._moving:
            return  # already due, and the callback has not run yet
        first = not self._had_callback and not unknown  # the first callback comes also without any partition
        if self.due is None and not moving and not first:
            return
        self.due, self._moving = None, moving
        if removed:
            self._actions += [SetAssignment(self.owned), BeginRevocation(tuple(sorted(removed.values())))]
            self._set_due("revoked", removed.values())
        else:
            self._actions.append(SetAssignment(tuple(sorted({*self.owned, *added.values()}))))
            if added or first:
                self._set_due("assigned", added.values())
        self._had_callback = True

    def _named(self, slot: Slot) -> TopicPartition | None:
        name = self._names.get(slot[0])
        return None if name is None else TopicPartition(name, slot[1])

    def _heartbeat_due(self, now: float) -> bool:
        if self.state is ConsumerMemberState.JOINING:
            return True
        if self.state is not ConsumerMemberState.IN:
            return False
        return (
            now >= self._heartbeat_at
            or self._answer_missing
            or self._acked_subscription != self.subscribed
            or self._acked_owned != self._owned_slots()
        )

    def _owned_slots(self) -> frozenset[Slot]:
        """Return the owned partitions, with those of a running "assigned" callback, which cannot be taken back."""
        coming = self._moving if self._in_callback and self.due is not None and self.due.kind == "assigned" else ()
        return frozenset((*self._slots, *coming))

    def _send_heartbeat(self, now: float) -> None:
        joining = self.state is ConsumerMemberState.JOINING
        full = joining or self._answer_missing or now >= self._full_heartbeat_at
        owned = frozenset() if joining else self._owned_slots()
        self._sent = self.subscribed, owned, full
        changed = full or self._acked_subscription != self.subscribed
        topics, pattern = self.subscribed
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.config.group_id,
            member_id=self.member_id,
            member_epoch=JOIN_EPOCH if joining else self.generation,
            instance_id=self.config.instance_id,
            rack_id=self.config.rack if full else None,
            rebalance_timeout_ms=round(self.config.max_poll_interval_s * 1_000) if full else -1,
            subscribed_topic_names=sorted(topics) if changed else None,
            subscribed_topic_regex=self._pattern_field(pattern) if changed else None,
            server_assignor=self.config.remote_assignor if full else None,
            topic_partitions=_topic_partitions(owned) if full or owned != self._acked_owned else None,
        )
        self._heartbeat_at = now + self._interval_s
        self._sent_at = now
        timeout_s = max(ANSWER_INTERVALS * self._interval_s, 1.0)
        self._request = self._send(request, min(self.config.request_timeout_s, timeout_s))

    def _pattern_field(self, pattern: str | None) -> str | None:
        """Return the pattern, or "" to remove the one sent before, or None: older brokers have no such field."""
        if pattern is not None:
            return pattern
        return "" if self._acked_subscription is not None and self._acked_subscription.pattern is not None else None

    @property
    def _active(self) -> bool:
        return self.state not in INACTIVE

    def _request_times(self) -> list[float]:
        if self._request is not None or self.state not in (ConsumerMemberState.JOINING, ConsumerMemberState.IN):
            return []
        urgent = self.state is ConsumerMemberState.JOINING or self._answer_missing
        return [self._retry_at if urgent else max(self._retry_at, self._heartbeat_at)]

    @property
    def rebalancing(self) -> bool:
        # The next response has the coordinator's epoch, and comes without any callback.
        return self.state is ConsumerMemberState.IN

    @property
    def settled(self) -> bool:
        return (
            self.state is ConsumerMemberState.IN
            and self.due is None
            and self._target is not None
            and self._target == self._slots.keys() == self._acked_owned
            and self._acked_subscription == self.subscribed
        )


def _topic_partitions(slots: frozenset[Slot]) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
    return [
        ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=indexes)
        for topic_id, indexes in by_topic(slots).items()
    ]
