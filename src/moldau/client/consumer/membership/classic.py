"""The classic group protocol, a member's side: join, be assigned or assign, sync, send heartbeats, rejoin, leave. Pure.

    OUT ──poll──▶ (GIVING_UP) ──▶ JOINING ──▶ (LOOKING_UP) ──▶ SYNCING ──▶ (TAKING) ──▶ STABLE
                       ▲                                                                   │
                       └──────────────────────────── a rebalance ◀─────────────────────────┘

In GIVING_UP and TAKING the application has to hear something first, inside its poll; heartbeats go on meanwhile. An
eager member gives up everything before it joins; a cooperative one gives up what was not assigned to it again, in
TAKING, and then joins once more. A member that is thrown out has lost its partitions: it is told so and comes back.

A JoinGroup may rightly wait for the other members longer than request.timeout.ms. It is sent again then, on another
connection, which takes the place of the first: so a connection that swallows everything is found out in time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Final

from moldau.client.consumer.assignors import Assignor, RebalanceProtocol, protocol_of
from moldau.client.consumer.assignors.wire import decode_assignment
from moldau.client.consumer.membership.doubt import Doubt
from moldau.client.consumer.membership.leader import Leadership
from moldau.client.consumer.membership.machine import Machine
from moldau.client.consumer.membership.model import (
    NO_GENERATION,
    NO_MEMBER,
    Answered,
    Failed,
    LeaveWanted,
    LookUpTopics,
    MemberConfig,
    MetadataChanged,
    Polled,
    StandStill,
    Subscribed,
    Take,
    TellingBegun,
    Tick,
    Told,
    TopicInfo,
    TopicsLookedUp,
)
from moldau.client.consumer.membership.reactions import Reaction, reaction_to
from moldau.client.consumer.membership.requests import heartbeat_request, join_request, leave_request, sync_request
from moldau.client.errors import MoldauError, error_for
from moldau.client.model import TopicPartition
from moldau.wire.errors import ErrorCode, WireError
from moldau.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from moldau.wire.messages.heartbeat import HeartbeatResponse
from moldau.wire.messages.join_group import JoinGroupResponse
from moldau.wire.messages.sync_group import SyncGroupResponse

HEARTBEATS_A_SESSION: Final = 3
"""A heartbeat that is not answered in this part of a session is sent again, elsewhere, while there is time."""


class State(Enum):
    """Where the member stands. The names in the module's picture."""

    OUT = "out"
    """In no group, and joins when the application polls."""
    LOSING = "losing"
    """Thrown out; the application has to hear that its partitions are gone."""
    GIVING_UP = "giving up"
    JOINING = "joining"
    LOOKING_UP = "looking up topics"
    SYNCING = "syncing"
    TAKING = "taking"
    STABLE = "stable"
    LEFT = "left"
    FAILED = "failed"


HEARTBEATING: Final = frozenset({State.GIVING_UP, State.TAKING, State.STABLE})
"""Elsewhere the coordinator waits for us, or we for it, or there is nobody to be kept alive."""

RESTING: Final = frozenset({State.OUT, State.LEFT, State.FAILED})


class ClassicMachine(Machine):
    """See the module."""

    def __init__(self, config: MemberConfig, assignors: Sequence[Assignor]) -> None:
        super().__init__(config)
        self.assignors = {one.name: one for one in assignors}
        self.cooperative = protocol_of(assignors) is RebalanceProtocol.COOPERATIVE
        self.state = State.OUT
        self.topics: tuple[str, ...] = ()
        self._known: Mapping[str, TopicInfo] = {}
        self._rejoin = False
        self._wanted = False  # whether the application has polled since we went out
        self._join: int | None = None
        self._look_up: int | None = None
        self._sync: int | None = None
        self._heartbeat: int | None = None
        self._audit: int | None = None
        self._heartbeat_at = 0.0
        self._joined: JoinGroupResponse | None = None
        self._assigned: tuple[TopicPartition, ...] = ()
        self._leads: Leadership | None = None
        self._doubt = Doubt()

    def _handlers(self) -> Mapping[type[Any], Callable[[float, Any], None]]:
        return {
            Polled: self._on_poll,
            Tick: lambda _, __: None,
            Subscribed: self._on_subscribed,
            MetadataChanged: self._on_metadata,
            TopicsLookedUp: self._on_topics,
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
        if event.topics != self.topics:
            self.topics = event.topics
            self._rejoin = True

    def _on_metadata(self, _: float, event: MetadataChanged) -> None:
        self._known = event.topics
        if self._leads is not None and self.state is not State.LOOKING_UP and self._leads.is_outdated(self._known):
            self._rejoin = True

    def _on_topics(self, _: float, event: TopicsLookedUp) -> None:
        self._known = event.topics
        if event.ticket == self._look_up:
            self._assign()

    def _on_answer(self, now: float, event: Answered) -> None:
        # An answer that nobody waits for any more is to a question of the past.
        if event.ticket == self._join:
            self._join = None
            self._on_join(now, event.response)
        elif event.ticket == self._sync:
            self._sync = None
            self._on_sync(now, event.response)
        elif event.ticket == self._heartbeat:
            self._heartbeat = None
            self._on_heartbeat(now, event.response)
        elif event.ticket == self._audit:
            self._audit = None
            self._on_audit(now, event.response)

    def _on_failure(self, now: float, event: Failed) -> None:
        if event.ticket == self._audit:
            self._audit = None
            self._back_off(now)
        if event.ticket not in (self._join, self._sync, self._heartbeat, self._look_up):
            return
        if not event.error.retriable:
            self._fail(event.error)
            return
        if event.ticket == self._look_up:
            # Time may be up before topics are known; whoever waits for us would then wait in vain.
            self._look_up = None
            self._back_off(now)
            self._begin_rejoin()
            return
        self._back_off(now, coordinator_gone=True)
        if event.ticket == self._heartbeat:
            self._heartbeat, self._heartbeat_at = None, self._retry_at
        elif event.ticket == self._join:
            self._give_up_join()
        else:
            self._sync = None
            self._begin_rejoin()

    def _on_told(self, now: float, event: Told) -> None:
        heard = self._end_telling(now, event)
        self._on_poll(now, Polled())
        if self.state is State.TAKING and self.generation != NO_GENERATION:
            if heard.kind == "revoked":
                self._rejoin = True  # so that others can have what was given up
                self._take()
            else:
                self.state = State.STABLE
        elif self.state is State.GIVING_UP and self.generation != NO_GENERATION:
            self._begin_rejoin()
        elif self.state is State.FAILED:
            self._lose()
        else:
            self._thrown_out()

    def _on_leave(self, _: float, __: LeaveWanted) -> None:
        self._part("the consumer is closed, or has unsubscribed")
        self.state = State.LEFT
        self.due = None
        self.owned = ()
        self._actions.append(Take(()))

    # -- joining ---------------------------------------------------------------------------------------------------

    def _begin_rejoin(self) -> None:
        """The next thing is a JoinGroup; nothing that was sent before matters any more."""
        self.state = State.JOINING
        self._join = self._sync = self._heartbeat = self._look_up = self._audit = None

    def _send_join(self) -> None:
        self._rejoin = False
        owned = self.owned if self.cooperative else ()
        assignors = self.assignors.values()
        self._join = self._send(
            join_request(self.config, self.member_id, assignors, self.topics, owned, self.generation),
            self.config.request_timeout_s,
        )

    def _give_up_join(self) -> None:
        """The request may have been heard, or may be heard yet."""
        self._join = None
        if self.member_id == NO_MEMBER:
            self._doubt.gave_up_joining()

    def _on_join(self, now: float, response: JoinGroupResponse) -> None:
        code = ErrorCode.of(response.error_code)
        if code is not ErrorCode.NONE:
            self._react(now, code, "joining", response.member_id)
            return
        self._succeeded()
        self._doubt.joined(now, self.config.session_timeout_s, new_id=self.member_id != response.member_id)
        self.member_id = response.member_id
        self.generation = response.generation_id
        self._joined = response
        if response.protocol_name not in self.assignors:
            self._fail(
                error_for(
                    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                    f"joining group {self.config.group_id!r}",
                    f"the group chose {response.protocol_name!r}, which this member did not offer",
                )
            )
        elif response.leader == response.member_id and response.members:
            self._lead(response)
        else:
            self._leads = None
            self._send_sync({})

    def _lead(self, response: JoinGroupResponse) -> None:
        """This member assigns: it has to know all topics that any member subscribes to."""
        self._leads = Leadership(response)
        if self._leads.topics <= self._known.keys():
            self._assign()
        else:
            self.state = State.LOOKING_UP
            self._look_up = self._ticket()
            self._actions.append(LookUpTopics(self._look_up, tuple(sorted(self._leads.topics))))

    def _assign(self) -> None:
        self._look_up = None
        assert self._joined is not None and self._leads is not None
        self._leads.note(self._known)
        try:
            given = self._leads.assign(self.assignors[self._joined.protocol_name or ""], cooperative=self.cooperative)
        except MoldauError as error:
            self._fail(error)
        else:
            self._send_sync(given)

    # -- syncing ---------------------------------------------------------------------------------------------------

    def _send_sync(self, given: Mapping[str, bytes]) -> None:
        assert self._joined is not None
        self.state = State.SYNCING
        protocol = self._joined.protocol_name
        self._sync = self._send(
            sync_request(self.config, self.member_id, self.generation, protocol, given), self.config.request_timeout_s
        )

    def _on_sync(self, now: float, response: SyncGroupResponse) -> None:
        code = ErrorCode.of(response.error_code)
        if code is not ErrorCode.NONE:
            self._react(now, code, "being assigned partitions in")
            return
        self._succeeded()
        self._doubt.synced()
        assert self._joined is not None
        try:
            assigned = tuple(decode_assignment(bytes(response.assignment)))
        except WireError as error:
            self._fail(MoldauError(f"the assignment in group {self.config.group_id!r} cannot be read: {error}"))
            return
        if any(one.topic not in self.topics for one in assigned):
            self._rejoin = True  # made for a subscription that the application has changed since
            assigned = tuple(one for one in assigned if one.topic in self.topics)
        self.assignors[self._joined.protocol_name or ""].on_assignment(assigned, self.generation)
        self._assigned = assigned
        self._heartbeat_at = now + self.config.heartbeat_interval_s
        self.state = State.TAKING
        revoked = tuple(sorted(set(self.owned) - set(assigned)))
        if revoked:
            self._actions.append(StandStill(revoked))
            self._tell("revoked", revoked)
        else:
            self._take()

    def _take(self) -> None:
        self._actions.append(Take(self._assigned))
        self._tell("assigned", set(self._assigned) - set(self.owned))

    # -- staying ---------------------------------------------------------------------------------------------------

    def _on_heartbeat(self, now: float, response: HeartbeatResponse) -> None:
        code = ErrorCode.of(response.error_code)
        if code is not ErrorCode.NONE:
            self._react(now, code, "sending a heartbeat to")
            return
        self._succeeded()
        self._doubt.is_known(now)

    def _on_audit(self, now: float, response: DescribeGroupsResponse) -> None:
        assert self._leads is not None
        complete = self._leads.audit(response)
        if complete is None:
            self._back_off(now)  # the group is in motion, or its coordinator: look again
        elif not complete:
            self._rejoin = True

    def _react(self, now: float, code: ErrorCode, doing: str, member_id: str = NO_MEMBER) -> None:
        """An error in an answer."""
        match reaction_to(code):
            case Reaction.RETRY | Reaction.FIND_COORDINATOR as reaction:
                self._back_off(now, coordinator_gone=reaction is Reaction.FIND_COORDINATOR)
                if self.state is State.SYNCING:
                    self._begin_rejoin()
            case Reaction.REJOIN:
                if self.state in HEARTBEATING:
                    self._rejoin = True
                else:
                    self._back_off(now)
                    self._begin_rejoin()
            case Reaction.USE_ID:
                self.member_id = member_id
            case Reaction.GENERATION_OVER | Reaction.UNKNOWN as reaction:
                if reaction is Reaction.UNKNOWN:
                    self.member_id = NO_MEMBER
                if self.state not in HEARTBEATING:
                    self._back_off(now)  # to be refused while joining must not become a loop
                self._thrown_out()
            case Reaction.FENCED:
                self._fenced(now)
            case Reaction.FAIL:
                self._fail(error_for(code, f"{doing} group {self.config.group_id!r}"))

    def _fenced(self, now: float) -> None:
        """Another member has our instance id; or we have it ourselves, under an id that we have not heard of."""
        if self._doubt.excuses():
            self.member_id = NO_MEMBER
            self._back_off(now)
            self._thrown_out()
            return
        doing = f"staying in group {self.config.group_id!r} as {self.config.instance_id!r}"
        self._fail(error_for(ErrorCode.FENCED_INSTANCE_ID, doing))

    def _thrown_out(self) -> None:
        self._begin_rejoin()
        self._leads = None
        if self._lose():
            self.state = State.LOSING

    def _fail(self, error: MoldauError) -> None:
        self._begin_rejoin()
        self._leads = None
        self._lose()
        self.state = State.FAILED
        self.failure = error

    # -- leaving ---------------------------------------------------------------------------------------------------

    def _part(self, reason: str) -> None:
        """Says good-bye, unless static: that one is expected back under its instance id."""
        if self.member_id != NO_MEMBER and self.config.instance_id is None and self.state not in RESTING:
            self._send(leave_request(self.config, self.member_id, reason), self.config.request_timeout_s)
        if self._join is not None:
            self._give_up_join()
        self.member_id, self.generation = NO_MEMBER, NO_GENERATION
        self._sync = self._heartbeat = self._look_up = self._audit = None
        self._leads = None

    def _go_silent(self) -> None:
        """The application does not poll: nothing may be held for it. It joins again when it comes back."""
        self._part("the application has not polled for max.poll.interval.ms")
        self.state = State.LOSING if self._lose() else State.OUT
        self._wanted = False

    # -- what is possible now --------------------------------------------------------------------------------------

    def _advance(self, now: float) -> None:
        if self.state not in RESTING and self._wanted and self._is_silent(now):
            self._go_silent()
        if self.state is State.LOSING and not self._telling and self.due is None:
            self.state = State.OUT
        if self.state is State.OUT and self._wanted:
            self._begin_rejoin()
        if self.state is State.STABLE and self._rejoin:
            self._prepare()
        if now < self._retry_at:
            return
        if self.state is State.JOINING and self._join is None:
            self._send_join()
        elif self.state in HEARTBEATING and self._heartbeat is None and now >= self._heartbeat_at:
            self._send_heartbeat(now)
        elif self._wants_audit:
            request = DescribeGroupsRequest(groups=[self.config.group_id])
            self._audit = self._send(request, self.config.request_timeout_s)

    @property
    def _wants_audit(self) -> bool:
        return self.state is State.STABLE and self._audit is None and self._leads is not None and self._leads.unaudited

    def _prepare(self) -> None:
        """Before a rebalance: what has to be given up first."""
        dropped = [one for one in self.owned if not self.cooperative or one.topic not in self.topics]
        if dropped:
            self.state = State.GIVING_UP
            self._actions.append(StandStill(tuple(dropped)))
            self._tell("revoked", dropped)
        else:
            self._begin_rejoin()

    def _send_heartbeat(self, now: float) -> None:
        self._heartbeat_at = now + self.config.heartbeat_interval_s
        self._heartbeat = self._send(
            heartbeat_request(self.config, self.member_id, self.generation),
            min(self.config.request_timeout_s, self.config.session_timeout_s / HEARTBEATS_A_SESSION),
        )

    @property
    def wake_at(self) -> float | None:
        if self.state in RESTING:
            return None
        times = []
        if self._wanted:
            times.append(self._polled_at + self.config.max_poll_interval_s)
        if self.state is State.JOINING and self._join is None:
            times.append(self._retry_at)
        elif self.state in HEARTBEATING and self._heartbeat is None:
            times.append(max(self._retry_at, self._heartbeat_at))
        if self._wants_audit:
            times.append(self._retry_at)
        return min(times, default=None)

    @property
    def rebalancing(self) -> bool:
        return self.state in (State.JOINING, State.LOOKING_UP, State.SYNCING)

    @property
    def settled(self) -> bool:
        return self.state is State.STABLE and not self._rejoin
