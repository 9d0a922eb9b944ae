"""Simulation of a group in virtual time: the real client and coordinator state machines, and a scripted network.

Simulated are only the things between them: requests and answers that are late, lost or duplicated; processes that die,
pause and restart; applications that do not poll.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import Any, NamedTuple

from moldau.client.consumer.assignors import assignors_of
from moldau.client.consumer.membership import classic_protocol, consumer_protocol
from moldau.client.consumer.membership.events import (
    NO_GENERATION,
    Answered,
    BeginRevocation,
    CallbackDone,
    CallbackStarted,
    Event,
    LeaveRequested,
    LookUpTopics,
    MemberConfig,
    MetadataChanged,
    PollCalled,
    RequestFailed,
    Send,
    SetAssignment,
    Subscribed,
    Tick,
    TopicInfo,
    TopicsLookedUp,
)
from moldau.client.consumer.membership.machine import MemberStateMachine
from moldau.client.data_types import TopicPartition
from moldau.client.errors import BrokerUnavailable, TimedOut
from moldau.groups.config import GroupConfig
from moldau.groups.events import DescribeGroup, TopicsChanged
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from moldau.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from moldau.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from moldau.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.unit.groups.shard_driver import ShardDriver, topics

SESSION_MS = 10_000
REBALANCE_MS = 30_000
HEARTBEAT_MS = 3_000
POLL_MS = 500
GROUP = "g"

RESPONSES: dict[type[Any], tuple[type[Any], int]] = {
    JoinGroupRequest: (JoinGroupResponse, 9),
    SyncGroupRequest: (SyncGroupResponse, 5),
    HeartbeatRequest: (HeartbeatResponse, 4),
    LeaveGroupRequest: (LeaveGroupResponse, 5),
    ConsumerGroupHeartbeatRequest: (ConsumerGroupHeartbeatResponse, 1),
    DescribeGroupsRequest: (DescribeGroupsResponse, 5),
}
"""The response type and the version of each request."""


class Fate(NamedTuple):
    """Delays and losses of one request."""

    there_ms: int | None = 1
    """The delay until the coordinator gets it; None if it is lost."""
    back_ms: int | None = 1
    """The delay of its answer; None if it is lost."""
    twice: bool = False
    """Whether the answer is delivered again a little later."""
    cut_ms: int | None = None
    """The time at which the connection breaks. The member notices it; the request may still arrive."""


GOOD = Fate()


class Client:
    """A process with one consumer: its state machine, its application, and their views of the assignment."""

    def __init__(self, sim: Simulation, name: str, machine: MemberStateMachine, instance: str | None) -> None:
        self.sim = sim
        self.name = name
        self.machine = machine
        self.instance = instance
        self.alive = True
        self.leaving = False
        self.stands_still = False
        self.polls = True
        self.hearing_ms = 0
        """The time that the application needs for a rebalance callback."""
        self.reads: set[TopicPartition] = set()
        """The partitions that the application was told to own."""
        self.taken: tuple[TopicPartition, ...] = ()
        self.still: set[TopicPartition] = set()
        self.connection = 0
        self.answered: set[int] = set()
        self.misread: int | None = None
        """The generation in which the coordinator took an old JoinGroup request for a new one."""
        self.sent_until_ms = 0
        self._missed: list[Callable[[], None]] = []
        self._wake_at: float | None = None

    def step(self, event: Event) -> None:
        for action in self.machine.step(self.sim.now_s, event):
            if isinstance(action, Send):
                self.sim.send(self, action)
            elif isinstance(action, LookUpTopics):
                self._look_up(action.ticket)
            elif isinstance(action, SetAssignment):
                self.taken = action.partitions
                self.still &= set(self.taken)
            elif isinstance(action, BeginRevocation):
                assert set(action.partitions) <= set(self.taken), "told to revoke a partition that it does not own"
                self.still.update(action.partitions)
        self._check()
        self._set_alarm()

    def hear(self, answer: Answered) -> None:
        self.answered.add(answer.ticket)
        self.step(answer)

    def _look_up(self, ticket: int) -> None:
        self.sim.later(5, self, lambda: self.step(TopicsLookedUp(ticket, self.sim.topic_infos())))

    def _check(self) -> None:
        if self.misread is not None and self.machine.settled and self.machine.generation != self.misread:
            self.misread = None
        assert set(self.machine.owned) == self.reads, "the state machine and the application disagree"
        assert self.reads <= set(self.taken)

    def _set_alarm(self) -> None:
        at_s = self.machine.wake_at
        if at_s is None or at_s == self._wake_at:
            return
        self._wake_at = at_s
        wait_ms = max(0, -int((self.sim.now_s - at_s) * 1_000 // 1))
        self.sim.later(max(1, wait_ms), self, lambda: self._alarm(at_s))

    def _alarm(self, at_s: float) -> None:
        if self._wake_at == at_s:
            self._wake_at = None
            self.step(Tick())

    def turn(self) -> None:
        """One poll of the application, repeated at intervals."""
        if not self.alive:
            return
        self.sim.later(POLL_MS, self, self.turn)
        if self.polls:
            self.poll()

    def poll(self) -> None:
        if self.machine.due is not None and self.machine._in_callback:
            return  # the application is inside a callback
        self.step(PollCalled())
        self._hear_next()
        if self.leaving and self.machine.due is None:
            self._leave()

    def _hear_next(self) -> None:
        if self.machine.due is None:
            return
        self.step(CallbackStarted())
        if self.hearing_ms:
            self.sim.later(self.hearing_ms, self, self._heard)
        else:
            self._heard()

    def _heard(self) -> None:
        due = self.machine.due
        assert due is not None
        if due.kind == "assigned":
            assert not self.reads & set(due.partitions), "assigned a partition that it already owns"
            assert set(due.partitions) <= set(self.taken)
            self.reads.update(due.partitions)
        else:
            assert set(due.partitions) <= self.reads, "revoked a partition that it does not own"
            assert set(due.partitions) <= self.still, "records were returned while partitions were being revoked"
            self.reads.difference_update(due.partitions)
        self.step(CallbackDone())
        self.sim.look()

    def _leave(self) -> None:
        self.reads.clear()
        self.step(LeaveRequested())
        self.alive = False

    def die(self) -> None:
        self.alive = False
        self.reads.clear()
        self.machine.owned = ()

    def deliver(self, what: Callable[[], None]) -> None:
        if not self.alive:
            return
        if self.stands_still:
            self._missed.append(what)
        else:
            what()

    def stand_still(self) -> None:
        self.stands_still = True

    def go_on(self) -> None:
        self.stands_still = False
        missed, self._missed = self._missed, []
        for what in missed:
            what()


def _leaves(request: Any) -> bool:
    return isinstance(request, LeaveGroupRequest) or getattr(request, "member_epoch", 0) < 0


def _joins(request: Any) -> bool:
    return isinstance(request, JoinGroupRequest) or getattr(request, "member_epoch", None) == 0


class Simulation:
    """One group, its coordinator, and all messages in flight between them."""

    def __init__(self, *, new_protocol: bool = False, strategies: Iterable[str] = ("range",)) -> None:
        config = GroupConfig(
            initial_rebalance_delay_ms=500, consumer_session_ms=SESSION_MS, consumer_heartbeat_ms=HEARTBEAT_MS
        )
        self.coordinator = ShardDriver(config, topics(t=10, u=3))
        self.new_protocol = new_protocol
        self.strategies = tuple(strategies)
        self.clients: list[Client] = []
        self.fates: deque[Fate] = deque()
        """Delays and losses of the next requests of any client."""
        self._agenda: list[tuple[int, int, Client | None, Callable[[], None]]] = []
        self._sequence = 0
        self._waiting: dict[Any, tuple[Client, int, int, Send, Fate]] = {}

    @property
    def now_s(self) -> float:
        return self.coordinator.now / 1_000

    def topic_infos(self) -> dict[str, TopicInfo]:
        return {name: TopicInfo(one.id, len(one.partitions)) for name, one in self.coordinator.known.items()}

    # -- clients ---------------------------------------------------------------------------------------------------

    def start(self, instance: str | None = None, subscribed: tuple[str, ...] = ("t",)) -> Client:
        name = f"client{len(self.clients)}"
        config = MemberConfig(
            GROUP,
            instance,
            session_timeout_s=SESSION_MS / 1_000,
            heartbeat_interval_s=HEARTBEAT_MS / 1_000,
            max_poll_interval_s=REBALANCE_MS / 1_000,
            request_timeout_s=5.0,
        )
        machine: MemberStateMachine
        if self.new_protocol:
            machine = consumer_protocol.ConsumerMachine(config, name)
        else:
            machine = classic_protocol.ClassicMachine(config, assignors_of(list(self.strategies)))
        client = Client(self, name, machine, instance)
        self.clients.append(client)
        client.step(MetadataChanged(self.topic_infos()))
        client.step(Subscribed(subscribed))
        client.turn()
        return client

    @property
    def living(self) -> list[Client]:
        return [one for one in self.clients if one.alive]

    def subscribe(self, client: Client, subscribed: tuple[str, ...]) -> None:
        client.deliver(lambda: client.step(Subscribed(subscribed)))

    def restart(self, client: Client) -> Client:
        """Kill the process, and start another one with the same instance id."""
        subscribed = self.subscribed(client)
        client.die()
        return self.start(client.instance, subscribed)

    def subscribed(self, client: Client) -> tuple[str, ...]:
        machine = client.machine
        return machine.topics if isinstance(machine, classic_protocol.ClassicMachine) else machine.subscribed.topics  # type: ignore[attr-defined, no-any-return]

    # -- the network -----------------------------------------------------------------------------------------------

    def later(self, wait_ms: int, client: Client | None, what: Callable[[], None]) -> None:
        self._sequence += 1
        heappush(self._agenda, (self.coordinator.now + wait_ms, self._sequence, client, what))

    def send(self, client: Client, action: Send) -> None:
        fate = self.fates.popleft() if self.fates else GOOD
        connection = client.connection
        give_up_ms = round(action.timeout_s * 1_000)
        if fate.cut_ms is not None:
            give_up_ms = min(give_up_ms, fate.cut_ms)
        self.later(give_up_ms, client, lambda: self._give_up(client, connection, action, cut=fate.cut_ms is not None))
        if fate.there_ms is not None:
            # One connection keeps the order of requests; another connection does not wait for it.
            at_ms = max(self.coordinator.now + fate.there_ms, client.sent_until_ms + 1)
            client.sent_until_ms = at_ms
            self.later(at_ms - self.coordinator.now, None, lambda: self._arrive(client, connection, action, fate))

    def _give_up(self, client: Client, connection: int, action: Send, *, cut: bool) -> None:
        if action.ticket in client.answered:
            return
        if client.connection == connection:
            client.connection += 1
            client.sent_until_ms = 0
        error = BrokerUnavailable("the connection broke") if cut else TimedOut("no answer")
        client.step(RequestFailed(action.ticket, error))

    def _arrive(self, client: Client, connection: int, action: Send, fate: Fate) -> None:
        if not client.alive and not _leaves(action.request):
            return  # Requests of a process that has ended are lost with its socket, except for its LeaveGroup.
        if connection != client.connection and _joins(action.request) and client.machine.generation != NO_GENERATION:
            client.misread = client.machine.generation
        version = RESPONSES[type(action.request)][1]
        # Encode and decode, so that only messages are sent that can be encoded.
        request = type(action.request).decode(action.request.encode(version), version)
        if isinstance(request, DescribeGroupsRequest):
            groups = [self.coordinator.ask(DescribeGroup, GROUP)]
            ticket: Any = object()
            self.coordinator.answers[ticket] = DescribeGroupsResponse(groups=groups)
        else:
            ticket = self.coordinator.call(request, version, client.name)
        self._waiting[ticket] = client, connection, self.coordinator.now, action, fate
        self._pass_on()

    def _pass_on(self) -> None:
        """Send the coordinator's answers to their members."""
        for ticket in [one for one in self._waiting if one in self.coordinator.answers]:
            client, _, _, action, fate = self._waiting.pop(ticket)
            answer = self.coordinator.answers.pop(ticket)
            response_type, version = RESPONSES[type(action.request)]
            if isinstance(answer, ErrorCode):  # nothing could be stored
                answer = response_type(error_code=answer)
            response = response_type.decode(answer.encode(version), version)
            if fate.back_ms is not None:
                event = Answered(action.ticket, response)
                self.later(fate.back_ms, client, lambda c=client, e=event: c.hear(e))  # type: ignore[misc]
                if fate.twice:
                    self.later(fate.back_ms + 700, client, lambda c=client, e=event: c.hear(e))  # type: ignore[misc]
        self.look()

    # -- the coordinator -------------------------------------------------------------------------------------------

    def coordinator_dies(self) -> None:
        self.coordinator.reload()
        waiting, self._waiting = self._waiting, {}
        for client, connection, _, action, _ in waiting.values():
            self.later(1, client, lambda c=client, n=connection, a=action: self._give_up(c, n, a, cut=True))  # type: ignore[misc]

    def topics_are(self, **counts: int) -> None:
        self.coordinator.known = topics(**counts)
        self.coordinator.feed(TopicsChanged(self.coordinator.known))
        for client in self.living:
            self.later(200, client, lambda c=client: c.step(MetadataChanged(self.topic_infos())))  # type: ignore[misc]

    # -- time ------------------------------------------------------------------------------------------------------

    def run(self, milliseconds: int) -> None:
        end = self.coordinator.now + milliseconds
        while True:
            next_timer = min(self.coordinator.timers.values(), default=end + 1)
            next_mine = self._agenda[0][0] if self._agenda else end + 1
            at_ms = min(next_timer, next_mine)
            if at_ms > end:
                break
            self.coordinator.advance(max(0, at_ms - self.coordinator.now))
            self._pass_on()
            while self._agenda and self._agenda[0][0] <= self.coordinator.now:
                _, _, client, what = heappop(self._agenda)
                if client is None:
                    what()
                else:
                    client.deliver(what)
        self.coordinator.advance(end - self.coordinator.now)
        self._pass_on()

    # -- invariants ------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Check that no partition has two readers, as far as the coordinator knows both."""
        readers: dict[TopicPartition, str] = {}
        for client in self.clients:
            if client.alive and self._counts_as_reader(client):
                for partition in client.reads:
                    other = readers.setdefault(partition, client.name)
                    assert other == client.name, f"{other} and {client.name} both read {partition}"

    def _counts_as_reader(self, client: Client) -> bool:
        """Whether both sides consider it a member.

        A member that was removed, or that knows that its session is over, can tell its application only when that
        polls.

        A static member that misses a rebalance of the classic protocol keeps its place, but not its partitions: the
        others learn of its absence only when its session ends, and it learns of the rebalance with its next heartbeat.

        A JoinGroup that arrives after the member has joined by a later one makes the coordinator believe that it has
        given up everything. Neither protocol can detect this; the simulation checks that the group recovers.
        """
        if client.misread is not None:
            return False
        group = self.coordinator.shard.groups.get(GROUP)
        member_id = client.machine.member_id
        if group is None or client.machine.generation == NO_GENERATION:
            return False
        if group.classic is not None:
            known = member_id in group.classic.members
            return known and (client.instance is None or client.machine.generation == group.classic.generation)
        return group.consumer is not None and member_id in group.consumer.members

    def recover(self) -> None:
        """No fault on the network, no paused process, and every application polls, until the group must have
        recovered."""
        self.fates.clear()
        self.coordinator.broken = False
        for client in self.living:
            client.polls, client.hearing_ms = True, 0
            if client.stands_still:
                client.go_on()
        self.run(2 * (REBALANCE_MS + SESSION_MS) + 5 * HEARTBEAT_MS)
        expected = sorted(
            TopicPartition(name, index)
            for name in {topic for one in self._members() for topic in self.subscribed(one)}
            if name in self.coordinator.known
            for index in range(len(self.coordinator.known[name].partitions))
        )
        assert sorted(p for one in self._members() for p in one.reads) == expected, self.state()
        assert all(one.machine.settled for one in self._members()), self.state()

    def _members(self) -> list[Client]:
        return [one for one in self.living if one.machine.failure is None]

    def state(self) -> str:
        return "\n".join(
            f"{one.name} ({one.instance}): {getattr(one.machine, 'state', '')} generation {one.machine.generation} "
            f"id {one.machine.member_id!r} {one.machine.failure or ''} due {one.machine.due} reads {len(one.reads)}"
            for one in self.living
        )
