"""Classic group protocol, member side: a state machine that joins, assigns, syncs, sends heartbeats and leaves.

    OUT ──poll──▶ (REVOKING) ──▶ JOINING ──▶ (LOOKING_UP) ──▶ SYNCING ──▶ (ASSIGNING) ──▶ STABLE
                       ▲                                                                     │
                       └──────────────────────────── rebalance ◀─────────────────────────────┘

In REVOKING and ASSIGNING the member waits for a call of the listener, inside poll; heartbeats continue meanwhile. An
eager member revokes all partitions before it joins. A cooperative member revokes, in ASSIGNING, the partitions that
were not assigned to it again, and then joins once more. A member that the group has removed has lost its partitions:
the listener is called with them, and the member joins again.

A JoinGroup may wait for the other members longer than request.timeout.ms. It is then sent again, on another connection,
and replaces the first one at the coordinator. So a connection that loses all data is detected in time.

No I/O: see `machine.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from moldau.client.consumer.assignors import Assignor, RebalanceProtocol, protocol_of
from moldau.client.consumer.assignors.consumer_protocol import decode_assignment
from moldau.client.consumer.membership.events import (
    NO_GENERATION,
    NO_MEMBER,
    Answered,
    BeginRevocation,
    CallbackDone,
    LookUpTopics,
    MemberConfig,
    MetadataChanged,
    PollCalled,
    RequestFailed,
    SetAssignment,
    Subscribed,
    TopicInfo,
    TopicsLookedUp,
)
from moldau.client.consumer.membership.fencing_doubt import FencingDoubt
from moldau.client.consumer.membership.group_leader import GroupLeader
from moldau.client.consumer.membership.machine import MemberStateMachine
from moldau.client.consumer.membership.reactions import Reaction, reaction_to
from moldau.client.consumer.membership.requests import heartbeat_request, join_request, leave_request, sync_request
from moldau.client.data_types import TopicPartition
from moldau.client.errors import MoldauError, error_for
from moldau.wire.errors import ErrorCode, WireError
from moldau.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from moldau.wire.messages.heartbeat import HeartbeatResponse
from moldau.wire.messages.join_group import JoinGroupResponse
from moldau.wire.messages.sync_group import SyncGroupResponse

HEARTBEATS_PER_SESSION: Final = 3
"""A heartbeat without a response for a third of the session time-out is sent again, on another connection."""


class ClassicMemberState(Enum):
    """States of the member; see the diagram of the module."""

    OUT = "out"
    """Not in the group; joins when the application polls."""
    LOSING = "losing"
    """Removed from the group; waits for the call of the listener about the lost partitions."""
    REVOKING = "revoking"
    JOINING = "joining"
    LOOKING_UP = "looking up topics"
    SYNCING = "syncing"
    ASSIGNING = "assigning"
    STABLE = "stable"
    LEFT = "left"
    FAILED = "failed"


HEARTBEATING: Final = frozenset({ClassicMemberState.REVOKING, ClassicMemberState.ASSIGNING, ClassicMemberState.STABLE})
"""In the other states a JoinGroup or SyncGroup is pending or due, or the member is not in the group."""

INACTIVE: Final = frozenset({ClassicMemberState.OUT, ClassicMemberState.LEFT, ClassicMemberState.FAILED})


class ClassicMachine(MemberStateMachine):
    """One member of a classic group. See the module."""

    def __init__(self, config: MemberConfig, assignors: Sequence[Assignor]) -> None:
        super().__init__(config)
        self.assignors = {one.name: one for one in assignors}
        self.cooperative = protocol_of(assignors) is RebalanceProtocol.COOPERATIVE
        self.state = ClassicMemberState.OUT
        self.topics: tuple[str, ...] = ()
        self._known: Mapping[str, TopicInfo] = {}
        self._rejoin = False
        self._join: int | None = None
        self._look_up: int | None = None
        self._sync: int | None = None
        self._heartbeat: int | None = None
        self._audit: int | None = None
        self._heartbeat_at = 0.0
        self._joined: JoinGroupResponse | None = None
        self._assigned: tuple[TopicPartition, ...] = ()
        self._leads: GroupLeader | None = None
        self._doubt = FencingDoubt()

    # -- events ----------------------------------------------------------------------------------------------------

    def _on_subscribed(self, _: float, event: Subscribed) -> None:
        if event.topics != self.topics:
            self.topics = event.topics
            self._rejoin = True

    def _on_metadata(self, _: float, event: MetadataChanged) -> None:
        self._known = event.topics
        if (
            self._leads is not None
            and self.state is not ClassicMemberState.LOOKING_UP
            and self._leads.is_outdated(self._known)
        ):
            self._rejoin = True

    def _on_topics(self, _: float, event: TopicsLookedUp) -> None:
        self._known = event.topics
        if event.ticket == self._look_up:
            self._assign()

    def _on_answer(self, now: float, event: Answered) -> None:
        # A response with any other ticket belongs to a request that the member has given up.
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

    def _on_failure(self, now: float, event: RequestFailed) -> None:
        if event.ticket == self._audit:
            self._audit = None
            self._back_off(now)
        if event.ticket not in (self._join, self._sync, self._heartbeat, self._look_up):
            return
        if not event.error.retriable:
            self._fail(event.error)
            return
        if event.ticket == self._look_up:
            # The other members wait for the leader's SyncGroup, and their rebalance may time out before the topics are
            # known. Join again, so that they do not wait in vain.
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

    def _on_callback_done(self, now: float, event: CallbackDone) -> None:
        done = self._callback_done(now, event)
        self._on_poll(now, PollCalled())
        if self.state is ClassicMemberState.ASSIGNING and self.generation != NO_GENERATION:
            if done.kind == "revoked":
                self._rejoin = True  # so that the next rebalance assigns the revoked partitions
                self._set_assignment()
            else:
                self.state = ClassicMemberState.STABLE
        elif self.state is ClassicMemberState.REVOKING and self.generation != NO_GENERATION:
            self._begin_rejoin()
        elif self.state is ClassicMemberState.FAILED:
            self._lose_partitions()
        else:
            self._removed_from_group()

    def _leave(self) -> None:
        self._send_leave("the consumer is closed, or has unsubscribed")
        self.state = ClassicMemberState.LEFT

    # -- joining ---------------------------------------------------------------------------------------------------

    def _begin_rejoin(self) -> None:
        """Prepare for a JoinGroup; responses to earlier requests are ignored."""
        self.state = ClassicMemberState.JOINING
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
        """Ignore the response to the pending JoinGroup. The coordinator may have processed it, or may still do so."""
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
        """Become the leader, which needs the metadata of all topics that members subscribe to."""
        self._leads = GroupLeader(response)
        if self._leads.topics <= self._known.keys():
            self._assign()
        else:
            self.state = ClassicMemberState.LOOKING_UP
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
        self.state = ClassicMemberState.SYNCING
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
            self._rejoin = True  # the application has changed its subscription since the JoinGroup
            assigned = tuple(one for one in assigned if one.topic in self.topics)
        self.assignors[self._joined.protocol_name or ""].on_assignment(assigned, self.generation)
        self._assigned = assigned
        self._heartbeat_at = now + self.config.heartbeat_interval_s
        self.state = ClassicMemberState.ASSIGNING
        revoked = tuple(sorted(set(self.owned) - set(assigned)))
        if revoked:
            self._actions.append(BeginRevocation(revoked))
            self._set_due("revoked", revoked)
        else:
            self._set_assignment()

    def _set_assignment(self) -> None:
        self._actions.append(SetAssignment(self._assigned))
        self._set_due("assigned", set(self._assigned) - set(self.owned))

    # -- heartbeats and errors -------------------------------------------------------------------------------------

    def _on_heartbeat(self, now: float, response: HeartbeatResponse) -> None:
        code = ErrorCode.of(response.error_code)
        if code is not ErrorCode.NONE:
            self._react(now, code, "sending a heartbeat to")
            return
        self._succeeded()
        self._doubt.heartbeat_answered(now)

    def _on_audit(self, now: float, response: DescribeGroupsResponse) -> None:
        assert self._leads is not None
        complete = self._leads.audit(response)
        if complete is None:
            self._back_off(now)  # the group is rebalancing, or its coordinator is moving: check again later
        elif not complete:
            self._rejoin = True

    def _react(self, now: float, code: ErrorCode, doing: str, member_id: str = NO_MEMBER) -> None:
        """Handle the error code of a response."""
        match reaction_to(code):
            case Reaction.RETRY | Reaction.FIND_COORDINATOR as reaction:
                self._back_off(now, coordinator_gone=reaction is Reaction.FIND_COORDINATOR)
                if self.state is ClassicMemberState.SYNCING:
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
                    self._back_off(now)  # a JoinGroup that is refused again and again must not become a busy loop
                self._removed_from_group()
            case Reaction.FENCED:
                self._fenced(now)
            case Reaction.FAIL:
                self._fail(error_for(code, f"{doing} group {self.config.group_id!r}"))

    def _fenced(self, now: float) -> None:
        """Fail, unless this member itself may have been given another member id; see `fencing_doubt.py`."""
        if self._doubt.may_be_own_request():
            self.member_id = NO_MEMBER
            self._back_off(now)
            self._removed_from_group()
            return
        doing = f"staying in group {self.config.group_id!r} as {self.config.instance_id!r}"
        self._fail(error_for(ErrorCode.FENCED_INSTANCE_ID, doing))

    def _removed_from_group(self) -> None:
        self._begin_rejoin()
        self._leads = None
        if self._lose_partitions():
            self.state = ClassicMemberState.LOSING

    def _fail(self, error: MoldauError) -> None:
        self._begin_rejoin()
        self._leads = None
        self._lose_partitions()
        self.state = ClassicMemberState.FAILED
        self.failure = error

    # -- leaving ---------------------------------------------------------------------------------------------------

    def _send_leave(self, reason: str) -> None:
        """Send LeaveGroup, except as a static member, which may return with its instance id. Forget the member id."""
        if self.member_id != NO_MEMBER and self.config.instance_id is None and self.state not in INACTIVE:
            self._send(leave_request(self.config, self.member_id, reason), self.config.request_timeout_s)
        if self._join is not None:
            self._give_up_join()
        self.member_id, self.generation = NO_MEMBER, NO_GENERATION
        self._sync = self._heartbeat = self._look_up = self._audit = None
        self._leads = None

    def _on_poll_overdue(self) -> None:
        """Leave the group after max.poll.interval.ms without a poll. Join again when the application polls."""
        self._send_leave("the application has not polled for max.poll.interval.ms")
        self.state = ClassicMemberState.LOSING if self._lose_partitions() else ClassicMemberState.OUT

    # -- next steps ------------------------------------------------------------------------------------------------

    def _advance(self, now: float) -> None:
        if self.state is ClassicMemberState.LOSING and not self._in_callback and self.due is None:
            self.state = ClassicMemberState.OUT
        if self.state is ClassicMemberState.OUT and self._polling:
            self._begin_rejoin()
        if self.state is ClassicMemberState.STABLE and self._rejoin:
            self._prepare()
        if now < self._retry_at:
            return
        if self.state is ClassicMemberState.JOINING and self._join is None:
            self._send_join()
        elif self.state in HEARTBEATING and self._heartbeat is None and now >= self._heartbeat_at:
            self._send_heartbeat(now)
        elif self._wants_audit:
            request = DescribeGroupsRequest(groups=[self.config.group_id])
            self._audit = self._send(request, self.config.request_timeout_s)

    @property
    def _wants_audit(self) -> bool:
        return (
            self.state is ClassicMemberState.STABLE
            and self._audit is None
            and self._leads is not None
            and self._leads.unaudited
        )

    def _prepare(self) -> None:
        """Revoke partitions before a rebalance: all if eager, those of unsubscribed topics if cooperative."""
        dropped = [one for one in self.owned if not self.cooperative or one.topic not in self.topics]
        if dropped:
            self.state = ClassicMemberState.REVOKING
            self._actions.append(BeginRevocation(tuple(dropped)))
            self._set_due("revoked", dropped)
        else:
            self._begin_rejoin()

    def _send_heartbeat(self, now: float) -> None:
        self._heartbeat_at = now + self.config.heartbeat_interval_s
        self._heartbeat = self._send(
            heartbeat_request(self.config, self.member_id, self.generation),
            min(self.config.request_timeout_s, self.config.session_timeout_s / HEARTBEATS_PER_SESSION),
        )

    @property
    def _active(self) -> bool:
        return self.state not in INACTIVE

    def _request_times(self) -> list[float]:
        times = []
        if self.state is ClassicMemberState.JOINING and self._join is None:
            times.append(self._retry_at)
        elif self.state in HEARTBEATING and self._heartbeat is None:
            times.append(max(self._retry_at, self._heartbeat_at))
        if self._wants_audit:
            times.append(self._retry_at)
        return times

    @property
    def rebalancing(self) -> bool:
        return self.state in (ClassicMemberState.JOINING, ClassicMemberState.LOOKING_UP, ClassicMemberState.SYNCING)

    @property
    def settled(self) -> bool:
        return self.state is ClassicMemberState.STABLE and not self._rejoin
