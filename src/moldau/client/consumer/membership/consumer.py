"""The new group protocol (KIP-848), a member's side: one kind of request, and partitions that move singly. Pure.

The coordinator assigns. Every heartbeat says what has changed here since the last one that was answered, and everything
where an answer is missing; every answer may bring a new assignment. The member goes towards it in its own time: it
gives up what is not in it, tells so, and takes what is new. Each step waits until the application has heard of it,
inside its poll; heartbeats go on meanwhile, so a slow application keeps its partitions, and holds up nobody else's.

A heartbeat that was given up may arrive late, after its successor, and be answered with partitions that the member
never hears of. So once in a while it says everything, and is told everything: two sides that disagree do not stay so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

from moldau.client.consumer.membership.machine import Machine
from moldau.client.consumer.membership.model import (
    NO_GENERATION,
    Answered,
    Failed,
    LeaveWanted,
    MemberConfig,
    MetadataChanged,
    Polled,
    RefreshMetadata,
    StandStill,
    Subscribed,
    Take,
    TellingBegun,
    Tick,
    Told,
    TopicInfo,
    TopicsLookedUp,
)
from moldau.client.errors import MoldauError, error_for
from moldau.client.model import TopicPartition
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_FOR_A_WHILE_EPOCH: Final = -2
"""A static member keeps its partitions for as long as its session lasts, and is expected back."""

UNRELEASED_PATIENCE_S: Final = 60.0
"""How long a static member waits for the one before it, killed perhaps, to be forgotten; a session is 45 s."""

ANSWER_INTERVALS: Final = 3.0
"""A heartbeat that is not answered for so many intervals is not waited for any longer."""

Slot = tuple[bytes, int]
"""A partition by the topic's id: a topic that is deleted and made again is another, though its name is the same."""


class State(Enum):
    """Where the member stands."""

    OUT = "out"
    """In no group, and joins when the application polls."""
    LOSING = "losing"
    """Thrown out; the application has to hear that its partitions are gone."""
    JOINING = "joining"
    IN = "in the group"
    LEFT = "left"
    FAILED = "failed"


RESTING: Final = frozenset({State.OUT, State.LEFT, State.FAILED})


class Reaction(Enum):
    """What an error code means for a member."""

    RETRY = "the same again, after a while"
    FIND_COORDINATOR = "the same, to another broker"
    FENCED = "the group went on without us: what we had is another's"
    WAIT_FOR_RELEASE = "another member has our instance id, and may be gone soon"
    FAIL = "nothing that waiting could heal"


REACTIONS: Final[Mapping[ErrorCode, Reaction]] = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reaction.RETRY,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction.FIND_COORDINATOR,
    ErrorCode.NOT_COORDINATOR: Reaction.FIND_COORDINATOR,
    ErrorCode.UNKNOWN_MEMBER_ID: Reaction.FENCED,
    ErrorCode.FENCED_MEMBER_EPOCH: Reaction.FENCED,
    # The group has lost its last member of this protocol, us, and may be a classic one by now.
    ErrorCode.GROUP_ID_NOT_FOUND: Reaction.FENCED,
    ErrorCode.UNRELEASED_INSTANCE_ID: Reaction.WAIT_FOR_RELEASE,
}


def reaction_to(code: ErrorCode) -> Reaction:
    return REACTIONS.get(code) or (Reaction.RETRY if code.retriable else Reaction.FAIL)


class ConsumerMachine(Machine):
    """See the module. `member_id` is chosen by the member and kept as long as it lives."""

    def __init__(self, config: MemberConfig, member_id: str) -> None:
        super().__init__(config)
        self.member_id = member_id
        self.state = State.OUT
        self.subscribed = Subscribed(())
        self._said: Subscribed | None = None  # what the coordinator surely knows
        self._told_owned: frozenset[Slot] | None = None  # the same for what we read
        self._unsure = False  # whether an answer is missing: the next heartbeat says everything
        self._everything_at = 0.0  # when it does so in any case
        self._known: Mapping[str, TopicInfo] = {}
        self._names: dict[bytes, str] = {}
        self._target: frozenset[Slot] | None = None  # as the last answer said; None before the first
        self._slots: dict[Slot, TopicPartition] = {}  # what we read
        self._moving: dict[Slot, TopicPartition] = {}  # what `due` is about
        self._told_anything = False
        self._wanted = False
        self._request: int | None = None
        self._sent: tuple[Subscribed, frozenset[Slot], bool] | None = None  # the last: topics, partitions, all else
        self._interval_s = config.heartbeat_interval_s
        self._heartbeat_at = 0.0
        self._asked_at = 0.0
        self._unreleased_since: float | None = None

    def _handlers(self) -> Mapping[type[Any], Callable[[float, Any], None]]:
        return {
            Polled: self._on_poll,
            Tick: lambda _, __: None,
            Subscribed: self._on_subscribed,
            MetadataChanged: self._on_metadata,
            TopicsLookedUp: self._on_metadata,
            Answered: self._on_answer,
            Failed: self._on_failure,
            TellingBegun: self._begin_telling,
            Told: self._on_told,
            LeaveWanted: self._on_leave,
        }

    # -- what happens ----------------------------------------------------------------------------------------------

    def _on_poll(self, now: float, _: Polled) -> None:
        self._polled_at = now
        self._wanted = True

    def _on_subscribed(self, _: float, event: Subscribed) -> None:
        self.subscribed = event

    def _on_metadata(self, _: float, event: MetadataChanged | TopicsLookedUp) -> None:
        self._known = event.topics
        self._names.update((info.id, name) for name, info in event.topics.items())

    def _on_told(self, now: float, event: Told) -> None:
        heard = self._end_telling(now, event)
        self._on_poll(now, Polled())
        if heard.kind == "assigned":
            self._slots |= self._moving
        else:
            for slot in self._moving:
                self._slots.pop(slot, None)
        self._moving = {}
        if self.state is State.LOSING or (self.state is State.FAILED and self.owned):
            self._lose_all()

    def _on_leave(self, _: float, __: LeaveWanted) -> None:
        self._part()
        self.state = State.LEFT
        self.due = None
        self.owned, self._slots = (), {}
        self._actions.append(Take(()))

    # -- answers ---------------------------------------------------------------------------------------------------

    def _on_answer(self, now: float, event: Answered) -> None:
        if event.ticket != self._request:
            return  # to a question of the past
        self._request = None
        response: ConsumerGroupHeartbeatResponse = event.response
        code = ErrorCode.of(response.error_code)
        if code is not ErrorCode.NONE:
            self._react(now, code, response.error_message)
            return
        self._succeeded()
        self._unreleased_since = None
        self._unsure = False
        assert self._sent is not None
        self._said, self._told_owned, everything = self._sent
        if everything:
            self._everything_at = now + self.config.session_timeout_s
        self.state = State.IN
        self.generation = response.member_epoch
        if response.heartbeat_interval_ms > 0:
            self._interval_s = response.heartbeat_interval_ms / 1_000
        self._heartbeat_at = now + self._interval_s
        if response.assignment is not None:
            self._target = frozenset(
                (bytes(one.topic_id), index) for one in response.assignment.topic_partitions for index in one.partitions
            )

    def _on_failure(self, now: float, event: Failed) -> None:
        if event.ticket != self._request:
            return
        self._request = None
        if not event.error.retriable:
            self._fail(event.error)
            return
        self._unsure = True
        self._back_off(now, coordinator_gone=True)

    def _react(self, now: float, code: ErrorCode, detail: str | None) -> None:
        match reaction_to(code):
            case Reaction.RETRY | Reaction.FIND_COORDINATOR as reaction:
                # It may have been decided, and not stored.
                self._unsure = True
                self._back_off(now, coordinator_gone=reaction is Reaction.FIND_COORDINATOR)
            case Reaction.FENCED:
                self._thrown_out(now)
            case Reaction.WAIT_FOR_RELEASE if self._may_wait(now):
                self._back_off(now)
            case _:
                self._fail(error_for(code, f"staying in group {self.config.group_id!r}", detail))

    def _may_wait(self, now: float) -> bool:
        """Whether the question was asked before patience had ended: a process that stood still may ask once more."""
        if self._unreleased_since is None:
            self._unreleased_since = now
        return self._asked_at < self._unreleased_since + UNRELEASED_PATIENCE_S

    def _thrown_out(self, now: float) -> None:
        if self.state is State.JOINING:
            self._back_off(now)  # to be refused as a newcomer is odd; but not to be asked for without end
        self.state = State.LOSING
        self._forget()
        self._lose_all()

    def _lose_all(self) -> None:
        if self._lose():
            if not self._telling:
                self._moving = dict(self._slots)
        elif self.state is State.LOSING:
            self._slots = {}
            self.state = State.OUT

    def _forget(self) -> None:
        """What was said and heard belongs to a membership that is over."""
        self.generation = NO_GENERATION
        self._request = None
        self._said = self._told_owned = self._target = None
        self._unsure = False
        self._told_anything = False

    def _fail(self, error: MoldauError) -> None:
        self.state = State.FAILED
        self.failure = error
        self._forget()
        self._lose_all()

    # -- leaving ---------------------------------------------------------------------------------------------------

    def _part(self) -> None:
        """Says good-bye. A static member does so for a while only."""
        if self.state not in RESTING and self.state is not State.LOSING:
            epoch = LEAVE_EPOCH if self.config.instance_id is None else LEAVE_FOR_A_WHILE_EPOCH
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

    def _go_silent(self) -> None:
        """The application does not poll: nothing may be held for it. It joins again when it comes back."""
        self._part()
        self.state = State.LOSING
        self._wanted = False
        self._lose_all()

    # -- what is possible now --------------------------------------------------------------------------------------

    def _advance(self, now: float) -> None:
        if self.state not in RESTING and self._wanted and self._is_silent(now):
            self._go_silent()
        if self.state is State.OUT and self._wanted:
            self.state = State.JOINING
        if self.state is State.IN and not self._telling:
            self._reconcile()
        if self._request is None and now >= self._retry_at and self._has_something_to_say(now):
            self._send_heartbeat(now)

    def _reconcile(self) -> None:
        """The next step from what we read to what we should: give up first, then take."""
        if self._target is None:
            return
        gone = {slot: name for slot, name in self._slots.items() if slot not in self._target}
        come = {slot: named for slot in self._target - self._slots.keys() if (named := self._named(slot)) is not None}
        unknown = len(self._target - self._slots.keys()) > len(come)
        if unknown and self.due is None:
            self._actions.append(RefreshMetadata())
        kind, moving = ("revoked", gone) if gone else ("assigned", come)
        if self.due is not None and self.due.kind == kind and moving == self._moving:
            return  # stands there already, and has not been heard yet
        first = not self._told_anything and not unknown  # an application that gets nothing hears of it, once
        if self.due is None and not moving and not first:
            return
        self.due, self._moving = None, moving
        if gone:
            self._actions += [Take(self.owned), StandStill(tuple(sorted(gone.values())))]
            self._tell("revoked", gone.values())
        else:
            self._actions.append(Take(tuple(sorted({*self.owned, *come.values()}))))
            if come or first:
                self._tell("assigned", come.values())
        self._told_anything = True

    def _named(self, slot: Slot) -> TopicPartition | None:
        name = self._names.get(slot[0])
        return None if name is None else TopicPartition(name, slot[1])

    def _has_something_to_say(self, now: float) -> bool:
        if self.state is State.JOINING:
            return True
        if self.state is not State.IN:
            return False
        return (
            now >= self._heartbeat_at
            or self._unsure
            or self._said != self.subscribed
            or self._told_owned != self._reads()
        )

    def _reads(self) -> frozenset[Slot]:
        """What the application reads, or is about to: what it has begun to hear of cannot be taken back."""
        coming = self._moving if self._telling and self.due is not None and self.due.kind == "assigned" else ()
        return frozenset((*self._slots, *coming))

    def _send_heartbeat(self, now: float) -> None:
        joining = self.state is State.JOINING
        everything = joining or self._unsure or now >= self._everything_at
        owned = frozenset() if joining else self._reads()
        self._sent = self.subscribed, owned, everything
        changed = everything or self._said != self.subscribed
        topics, pattern = self.subscribed
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.config.group_id,
            member_id=self.member_id,
            member_epoch=JOIN_EPOCH if joining else self.generation,
            instance_id=self.config.instance_id,
            rack_id=self.config.rack if everything else None,
            rebalance_timeout_ms=round(self.config.max_poll_interval_s * 1_000) if everything else -1,
            subscribed_topic_names=sorted(topics) if changed else None,
            subscribed_topic_regex=self._pattern_to_say(pattern) if changed else None,
            server_assignor=self.config.remote_assignor if everything else None,
            topic_partitions=_by_topic(owned) if everything or owned != self._told_owned else None,
        )
        self._heartbeat_at = now + self._interval_s
        self._asked_at = now
        timeout_s = max(ANSWER_INTERVALS * self._interval_s, 1.0)
        self._request = self._send(request, min(self.config.request_timeout_s, timeout_s))

    def _pattern_to_say(self, pattern: str | None) -> str | None:
        """An empty pattern takes back one that was said before; brokers that know none must not hear of any."""
        if pattern is not None:
            return pattern
        return "" if self._said is not None and self._said.pattern is not None else None

    @property
    def wake_at(self) -> float | None:
        if self.state in RESTING:
            return None
        times = []
        if self._wanted:
            times.append(self._polled_at + self.config.max_poll_interval_s)
        if self._request is None and self.state in (State.JOINING, State.IN):
            urgent = self.state is State.JOINING or self._unsure
            times.append(self._retry_at if urgent else max(self._retry_at, self._heartbeat_at))
        return min(times, default=None)

    @property
    def rebalancing(self) -> bool:
        # The epoch that the coordinator has moved to is in the next answer; it comes whatever the application does.
        return self.state is State.IN

    @property
    def settled(self) -> bool:
        return (
            self.state is State.IN
            and self.due is None
            and self._target is not None
            and self._target == self._slots.keys() == self._told_owned
            and self._said == self.subscribed
        )


def _by_topic(slots: frozenset[Slot]) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
    topics: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(slots):
        topics.setdefault(topic_id, []).append(index)
    return [
        ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=indexes)
        for topic_id, indexes in topics.items()
    ]
