"""State machine of a process in its group: joins, assigns work as the leader, sends heartbeats, leaves.

    JOINING ──▶ (COMPUTING) ──▶ SYNCING ──▶ TAKING ──▶ STABLE
       ▲                                                 │
       └───────────────── REVOKING ◀──── rebalance ──────┘

COMPUTING is the leader's. In TAKING and REVOKING a call of the listener runs; heartbeats continue meanwhile. From every
state the member may find that it was removed: LOSING, then JOINING again. It also gives up its assignment when
the coordinator has not confirmed the membership for the session time-out, because the coordinator has removed it then.

No I/O: `step(now, event)` changes the machine and returns actions; `wake_at` is the time of the next `Tick`. Requests,
error reactions and request events are those of the consumer's membership (`client/consumer/membership/`). The machine
of the consumer itself is not used: its assignments are partitions, and its callbacks wait for polls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

from moldau.client.consumer.membership.events import (
    NO_GENERATION,
    NO_MEMBER,
    Answered,
    CallbackDone,
    CoordinatorGone,
    LeaveRequested,
    MemberConfig,
    RequestFailed,
    Send,
    Tick,
)
from moldau.client.consumer.membership.reactions import Reaction, reaction_to
from moldau.client.consumer.membership.requests import heartbeat_request, leave_request, sync_request
from moldau.client.errors import MoldauError, error_for
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.heartbeat import HeartbeatResponse
from moldau.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from moldau.wire.messages.sync_group import SyncGroupResponse

HEARTBEATS_PER_SESSION: Final = 3
"""A heartbeat without a response for a third of the session time-out is sent again, on another connection."""


@dataclass(frozen=True)
class GroupAssignment:
    """What a member was assigned in one generation of its group."""

    generation: int
    member_id: str
    leader_id: str
    protocol: str
    assignment: bytes
    """What the leader's function returned for this member; empty if it returned nothing for it."""

    @property
    def leads(self) -> bool:
        """Whether this member is the leader."""
        return self.member_id == self.leader_id


@dataclass(frozen=True)
class GroupView:
    """What the leader sees when it assigns."""

    generation: int
    protocol: str
    leader_id: str
    members: Mapping[str, bytes]
    """The metadata of each member, by member id."""


# -- events ----------------------------------------------------------------------------------------------------------


class Started(NamedTuple):
    """The process wants to be a member."""


class Computed(NamedTuple):
    """The leader's function has returned the assignments."""

    ticket: int
    assignments: Mapping[str, bytes]


class ComputeFailed(NamedTuple):
    """The leader's function raised."""

    ticket: int


class RejoinRequested(NamedTuple):
    """The process asks for a rebalance."""

    reason: str


Event = (
    Started
    | Tick
    | Answered
    | RequestFailed
    | Computed
    | ComputeFailed
    | CallbackDone
    | RejoinRequested
    | LeaveRequested
)

# -- actions ---------------------------------------------------------------------------------------------------------


class Compute(NamedTuple):
    """Call the leader's function, and report the assignments with the ticket."""

    ticket: int
    view: GroupView


class CallKind(Enum):
    REVOKED = "revoked"
    ASSIGNED = "assigned"
    LOST = "lost"


class Call(NamedTuple):
    """Call the listener, and report `CallbackDone`."""

    kind: CallKind
    assignment: GroupAssignment


Action = Send | CoordinatorGone | Compute | Call


class GroupMemberState(Enum):
    """States of the member; see the diagram of the module."""

    NEW = "new"
    JOINING = "joining"
    COMPUTING = "computing"
    SYNCING = "syncing"
    TAKING = "taking"
    STABLE = "stable"
    REVOKING = "revoking"
    LOSING = "losing"
    LEAVING = "leaving"
    LEFT = "left"
    FAILED = "failed"


HEARTBEATING: Final = frozenset(
    {
        GroupMemberState.COMPUTING,
        GroupMemberState.TAKING,
        GroupMemberState.STABLE,
        GroupMemberState.REVOKING,
        GroupMemberState.LEAVING,
    }
)
OVER: Final = frozenset({GroupMemberState.NEW, GroupMemberState.LEFT, GroupMemberState.FAILED})


class GroupMachine:
    """One member of one group. See the module."""

    def __init__(self, config: MemberConfig, protocol_type: str, protocols: Mapping[str, Callable[[], bytes]]) -> None:
        self.config = config
        """`max_poll_interval_s` is the rebalance time-out."""
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.state = GroupMemberState.NEW
        self.member_id = NO_MEMBER
        self.generation = NO_GENERATION
        self.assignment: GroupAssignment | None = None
        """The newest assignment that was not lost; during a rebalance the one before it."""
        self.failure: MoldauError | None = None
        self._calling: CallKind | None = None
        self._lost = False
        """The assignment is void, and the listener does not know it yet."""
        self._leaving = False
        self._rejoin: str | None = None
        self._joined: JoinGroupResponse | None = None
        self._pending: int | None = None
        """The ticket of the pending JoinGroup or SyncGroup, or of the leader's function."""
        self._pending_since = 0.0
        self._heartbeat: int | None = None
        self._heartbeat_since = 0.0
        self._heartbeat_at = 0.0
        self._confirmed_at = 0.0
        """When the newest request was sent that the coordinator accepted: its session timer started not before."""
        self._join_began_at: float | None = None
        self._retry_at = 0.0
        self._failures = 0
        self._tickets = 0
        self._actions: list[Action] = []

    # -- interface -------------------------------------------------------------------------------------------------

    def step(self, now: float, event: Event) -> list[Action]:
        """Take an event, and return what is to be done."""
        if self.state is not GroupMemberState.FAILED:
            self._on_event(now, event)
            self._check_session(now)
            self._advance(now)
        elif isinstance(event, CallbackDone):
            self._on_callback_done()
        actions, self._actions = self._actions, []
        return actions

    @property
    def wake_at(self) -> float | None:
        """The time of the next Tick, if no other event comes first."""
        if self.state in OVER:
            return None
        times = []
        if self.assignment is not None and not self._lost:
            times.append(self.expires_at)
        if self.state is GroupMemberState.JOINING and self._pending is None:
            times.append(self._retry_at)
        if self.state in HEARTBEATING and self._heartbeat is None:
            times.append(max(self._retry_at, self._heartbeat_at))
        return min(times, default=None)

    @property
    def expires_at(self) -> float:
        """When the assignment is void unless the coordinator confirms the membership before.

        While JoinGroup waits for other members, the coordinator answers nothing and keeps this member.
        """
        session = self._confirmed_at + self.config.session_timeout_s
        if self.state is GroupMemberState.JOINING and self._pending is not None and self._join_began_at is not None:
            return max(session, self._join_began_at + self.config.max_poll_interval_s + self.config.session_timeout_s)
        return session

    def is_valid(self, now: float) -> bool:
        """Whether the assignment holds at this time."""
        return self.assignment is not None and not self._lost and now < self.expires_at

    @property
    def rebalancing(self) -> bool:
        """Whether the member is in a group, and waits for its next generation."""
        return self.state not in OVER and self.state not in (GroupMemberState.STABLE, GroupMemberState.TAKING)

    # -- events ----------------------------------------------------------------------------------------------------

    def _on_event(self, now: float, event: Event) -> None:
        match event:
            case Started():
                if self.state in (GroupMemberState.NEW, GroupMemberState.LEFT):
                    self._leaving = False
                    self.state = GroupMemberState.JOINING
            case Answered():
                self._on_answer(now, event)
            case RequestFailed():
                self._on_failure(now, event)
            case Computed(ticket, assignments):
                if ticket == self._pending and self.state is GroupMemberState.COMPUTING:
                    self._send_sync(now, assignments)
            case ComputeFailed(ticket):
                if ticket == self._pending and self.state is GroupMemberState.COMPUTING:
                    self._back_off(now)
                    self._begin_join("the leader could not compute assignments")
            case CallbackDone():
                self._on_callback_done()
            case RejoinRequested(reason):
                self._rejoin = reason
            case LeaveRequested():
                self._leaving = True
            case Tick():
                pass

    def _on_answer(self, now: float, event: Answered) -> None:
        # A response with any other ticket belongs to a request that the member has given up.
        if event.ticket == self._heartbeat:
            self._heartbeat = None
            self._on_heartbeat(now, event.response)
        elif event.ticket == self._pending:
            self._pending = None
            if self.state is GroupMemberState.JOINING:
                self._on_join(now, event.response)
            elif self.state is GroupMemberState.SYNCING:
                self._on_sync(now, event.response)

    def _on_failure(self, now: float, event: RequestFailed) -> None:
        if event.ticket not in (self._pending, self._heartbeat):
            return
        if not event.error.retriable:
            self._fail(event.error)
            return
        self._back_off(now, coordinator_gone=True)
        if event.ticket == self._heartbeat:
            self._heartbeat, self._heartbeat_at = None, self._retry_at
        else:
            self._begin_join(None)

    def _on_callback_done(self) -> None:
        done, self._calling = self._calling, None
        if done is CallKind.LOST:
            self.assignment, self._lost = None, False
            if self.state is GroupMemberState.LOSING:
                self._begin_join("removed from the group")
        elif self._lost:
            self._call_lost()
        elif self.state is GroupMemberState.TAKING:
            self.state = GroupMemberState.STABLE
        elif self.state is GroupMemberState.REVOKING:
            self._begin_join(None)
        elif self.state is GroupMemberState.LEAVING:
            self._leave()

    # -- joining ---------------------------------------------------------------------------------------------------

    def _begin_join(self, reason: str | None) -> None:
        self.state = GroupMemberState.JOINING
        self._pending = self._heartbeat = None
        if reason is not None:
            self._rejoin = reason

    def _send_join(self, now: float) -> None:
        reason, self._rejoin = self._rejoin, None
        request = JoinGroupRequest(
            group_id=self.config.group_id,
            session_timeout_ms=round(self.config.session_timeout_s * 1_000),
            rebalance_timeout_ms=round(self.config.max_poll_interval_s * 1_000),
            member_id=self.member_id,
            protocol_type=self.protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata()) for name, metadata in self.protocols.items()
            ],
            reason=reason,
        )
        if self._join_began_at is None:
            self._join_began_at = now
        self._pending = self._send(request, self.config.request_timeout_s)
        self._pending_since = now

    def _on_join(self, now: float, response: JoinGroupResponse) -> None:
        code = ErrorCode.of(response.error_code)
        if code is not ErrorCode.NONE:
            self._react(now, code, "joining", response.member_id)
            return
        self._succeeded(now)  # the coordinator's session timer starts again when it answers, which is just now
        self._join_began_at = None
        self.member_id = response.member_id
        self.generation = response.generation_id
        self._joined = response
        self._heartbeat_at = now + self.config.heartbeat_interval_s
        if response.protocol_name not in self.protocols:
            offered = f"the group chose {response.protocol_name!r}, which this member did not offer"
            self._fail(
                error_for(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"joining group {self.config.group_id!r}", offered)
            )
        elif response.leader == response.member_id and response.members:
            members = {one.member_id: bytes(one.metadata) for one in response.members}
            self.state = GroupMemberState.COMPUTING
            self._pending = self._ticket()
            view = GroupView(response.generation_id, response.protocol_name or "", response.leader, members)
            self._actions.append(Compute(self._pending, view))
        else:
            self._send_sync(now, {})

    # -- syncing ---------------------------------------------------------------------------------------------------

    def _send_sync(self, now: float, assignments: Mapping[str, bytes]) -> None:
        assert self._joined is not None
        self.state = GroupMemberState.SYNCING
        self._heartbeat = None
        self._pending = self._send(
            sync_request(
                self.config,
                self.member_id,
                self.generation,
                self._joined.protocol_name,
                assignments,
                self.protocol_type,
            ),
            self.config.request_timeout_s,
        )
        self._pending_since = now

    def _on_sync(self, now: float, response: SyncGroupResponse) -> None:
        code = ErrorCode.of(response.error_code)
        if code is not ErrorCode.NONE:
            self._react(now, code, "being assigned work in")
            return
        assert self._joined is not None
        self._succeeded(self._pending_since)
        self._heartbeat_at = now + self.config.heartbeat_interval_s
        self.assignment = GroupAssignment(
            self.generation,
            self.member_id,
            self._joined.leader,
            self._joined.protocol_name or "",
            bytes(response.assignment),
        )
        self.state = GroupMemberState.TAKING
        self._call(CallKind.ASSIGNED)

    # -- heartbeats and errors -------------------------------------------------------------------------------------

    def _send_heartbeat(self, now: float) -> None:
        self._heartbeat_at = now + self.config.heartbeat_interval_s
        self._heartbeat_since = now
        self._heartbeat = self._send(
            heartbeat_request(self.config, self.member_id, self.generation),
            min(self.config.request_timeout_s, self.config.session_timeout_s / HEARTBEATS_PER_SESSION),
        )

    def _on_heartbeat(self, now: float, response: HeartbeatResponse) -> None:
        code = ErrorCode.of(response.error_code)
        if code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._succeeded(self._heartbeat_since)
        if code is not ErrorCode.NONE:
            self._react(now, code, "sending a heartbeat to")

    def _react(self, now: float, code: ErrorCode, doing: str, member_id: str = NO_MEMBER) -> None:
        match reaction_to(code):
            case Reaction.RETRY | Reaction.FIND_COORDINATOR as reaction:
                self._back_off(now, coordinator_gone=reaction is Reaction.FIND_COORDINATOR)
                if self.state not in HEARTBEATING:
                    self._begin_join(None)
            case Reaction.REJOIN:
                if self.state in HEARTBEATING:
                    self._rejoin = self._rejoin or "another member has started a rebalance"
                else:
                    self._begin_join(None)
            case Reaction.USE_ID:
                self.member_id = member_id
            case Reaction.GENERATION_OVER | Reaction.UNKNOWN as reaction:
                if reaction is Reaction.UNKNOWN:
                    self.member_id = NO_MEMBER
                if self.state not in HEARTBEATING:
                    self._back_off(now)  # a JoinGroup that is refused again and again must not become a busy loop
                self._removed()
            case Reaction.FENCED | Reaction.FAIL:
                self._fail(error_for(code, f"{doing} group {self.config.group_id!r}"))

    def _check_session(self, now: float) -> None:
        if self.assignment is not None and not self._lost and self.state not in OVER and now >= self.expires_at:
            self._back_off(now, coordinator_gone=True)
            self._removed()

    def _removed(self) -> None:
        """The assignment is void: the group may have given it to others."""
        self.generation = NO_GENERATION
        self._join_began_at = None
        if self.assignment is None:
            self._begin_join("removed from the group")
            return
        self._pending = self._heartbeat = None
        self.state = GroupMemberState.LOSING
        self._lost = True
        self._call_lost()

    def _fail(self, error: MoldauError) -> None:
        self.state = GroupMemberState.FAILED
        self.failure = error
        self.generation = NO_GENERATION
        self._pending = self._heartbeat = None
        self._lost = self.assignment is not None
        self._call_lost()

    def _call_lost(self) -> None:
        if self._lost and self._calling is None:
            self._call(CallKind.LOST)

    def _call(self, kind: CallKind) -> None:
        assert self.assignment is not None and self._calling is None
        self._calling = kind
        self._actions.append(Call(kind, self.assignment))

    # -- next steps ------------------------------------------------------------------------------------------------

    def _advance(self, now: float) -> None:
        if self._leaving and self.state not in OVER:
            self._advance_leaving()
        elif self.state is GroupMemberState.STABLE and self._rejoin is not None:
            self.state = GroupMemberState.REVOKING
            self._call(CallKind.REVOKED)
        if now < self._retry_at:
            return
        if self.state is GroupMemberState.JOINING and self._pending is None:
            self._send_join(now)
        elif self.state in HEARTBEATING and self._heartbeat is None and now >= self._heartbeat_at:
            self._send_heartbeat(now)

    def _advance_leaving(self) -> None:
        """Revoke once, then leave. A call that runs is waited for first."""
        if self._calling is not None:
            return
        if self.assignment is None or self._lost or self.state is GroupMemberState.LEAVING:
            self._leave()
            return
        self._pending = None
        self.state = GroupMemberState.LEAVING
        self._call(CallKind.REVOKED)

    def _leave(self) -> None:
        if self.member_id != NO_MEMBER:
            self._send(leave_request(self.config, self.member_id, "the process stops"), self.config.request_timeout_s)
        self.state = GroupMemberState.LEFT
        self.assignment = None
        self.member_id, self.generation = NO_MEMBER, NO_GENERATION
        self._pending = self._heartbeat = None

    def _ticket(self) -> int:
        self._tickets += 1
        return self._tickets

    def _send(self, request: Any, timeout_s: float) -> int:
        ticket = self._ticket()
        self._actions.append(Send(ticket, request, timeout_s))
        return ticket

    def _succeeded(self, sent_at: float) -> None:
        self._confirmed_at = max(self._confirmed_at, sent_at)
        self._failures, self._retry_at = 0, 0.0

    def _back_off(self, now: float, *, coordinator_gone: bool = False) -> None:
        if coordinator_gone:
            self._actions.append(CoordinatorGone())
        self._retry_at = now + self.config.backoff(self._failures)
        self._failures += 1
