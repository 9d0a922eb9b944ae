"""Group membership of a process: joins a group through the broker, with a leader that assigns the work.

The classic group protocol carries it, with a protocol type of the service's own ("connect", "sr"). Every member sends
its metadata (bytes); the leader gets the metadata of all members and computes an assignment (bytes) for each. It works
with Moldau and with Apache Kafka.

    member = GroupMember(
        {"bootstrap.servers": brokers}, group_id="connect-cluster", protocol_type="connect",
        protocols={"default": metadata}, assign=assign, listener=listener,
    )
    await member.start()

This module runs the state machine of `group_machine.py` on the event loop.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, Protocol

from moldau.client.backoff import Backoff
from moldau.client.consumer.membership.events import (
    Answered,
    CallbackDone,
    CoordinatorGone,
    LeaveRequested,
    MemberConfig,
    RequestFailed,
    Send,
    Tick,
)
from moldau.client.errors import IllegalStateError, MoldauError
from moldau.client.network import CoordinatorKind, Network
from moldau.client.settings import ADMIN, ClientSettings
from moldau.host.clock import SystemRandomness
from moldau.host.event_log import event_logger
from moldau.service.group_machine import (
    Call,
    CallKind,
    Compute,
    Computed,
    ComputeFailed,
    Event,
    GroupAssignment,
    GroupMachine,
    GroupMemberState,
    GroupView,
    RejoinRequested,
    Started,
)

__all__ = ["Assign", "GroupAssignment", "GroupMember", "GroupView", "MemberListener"]

log = event_logger(__name__)

STOP_TIMEOUT_S: Final = 5.0

Assign = Callable[[GroupView], Mapping[str, bytes] | Awaitable[Mapping[str, bytes]]]
"""The leader's function: the assignment of each member, by member id. It may be a coroutine function (a leader may have
to read a topic to its end first); the rebalance waits for it, up to the rebalance time-out."""


class MemberListener(Protocol):
    """What a process does when its membership changes. The calls run one after another, never two at once.

    Order: `revoked` → `assigned` → `revoked` → … A rebalance begins with `revoked`. A member that the group has
    removed, or that had no contact with the coordinator for the session time-out, gets `lost` as soon as it knows:
    other members may own its work already. After `lost` it joins again by itself, and gets `assigned`.
    """

    async def revoked(self, old: GroupAssignment) -> None:
        """A rebalance has begun. The group waits for this call to return, up to the rebalance time-out.

        A service that keeps its work over a rebalance returns at once, names its work in its metadata, and stops what
        it has lost in `assigned`. Heartbeats continue during the call. It is also called before the member leaves.
        """

    async def assigned(self, new: GroupAssignment) -> None:
        """The group has a new generation. Heartbeats continue during the call; a further rebalance waits for it."""

    async def lost(self, old: GroupAssignment) -> None:
        """The assignment is void: stop all work of it at once, commit nothing. Must be short."""

    def failed(self, error: MoldauError) -> None:
        """The membership has ended with an error that no retry solves (no permission, wrong protocol type)."""


class GroupMember:
    """One process in its group. Used from one event loop."""

    def __init__(
        self,
        client_settings: Mapping[str, Any],
        *,
        group_id: str,
        protocol_type: str,
        protocols: Mapping[str, Callable[[], bytes]],
        assign: Assign,
        listener: MemberListener,
        session_timeout_ms: int = 10_000,
        heartbeat_interval_ms: int = 3_000,
        rebalance_timeout_ms: int = 60_000,
    ) -> None:
        """`protocols`: by name, in the order of preference, a function that returns this member's metadata. It is
        called at every JoinGroup. The coordinator chooses a name that all members have."""
        named = {"client.id": f"{protocol_type}-{group_id}", **client_settings}
        settings = ClientSettings.of(ADMIN, named)
        self.group_id = group_id
        self._assign = assign
        self._listener = listener
        self._rebalance_timeout_s = rebalance_timeout_ms / 1_000
        self._network = Network(settings)
        randomness = SystemRandomness()
        backoff = Backoff(settings.seconds("retry.backoff.ms"), settings.seconds("retry.backoff.max.ms"))
        config = MemberConfig(
            group_id,
            session_timeout_s=session_timeout_ms / 1_000,
            heartbeat_interval_s=heartbeat_interval_ms / 1_000,
            max_poll_interval_s=self._rebalance_timeout_s,
            request_timeout_s=settings.seconds("request.timeout.ms"),
            backoff=lambda failures: backoff.pause(failures + 1, randomness.random()),
        )
        self._machine = GroupMachine(config, protocol_type, protocols)
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._stepped = asyncio.Event()
        self._started = False
        self._closed = False

    # -- state -----------------------------------------------------------------------------------------------------

    @property
    def assignment(self) -> GroupAssignment | None:
        """The newest assignment; None before the first one and after `lost`. During a rebalance it is the old one."""
        return self._machine.assignment

    @property
    def valid(self) -> bool:
        """Whether the assignment holds at this moment: the coordinator has confirmed the membership within the session
        time-out, by this process's clock.

        Ask it before work that must not happen after a takeover. The last word has the broker's fencing (transactional
        ids), because the process may be stopped right after asking.
        """
        return self._started and self._machine.is_valid(asyncio.get_running_loop().time())

    @property
    def rebalancing(self) -> bool:
        """Whether the member waits for its next generation: a service answers changes with "try again" then."""
        return self._machine.rebalancing

    @property
    def member_id(self) -> str:
        """The id that the coordinator gave this member; empty before."""
        return self._machine.member_id

    @property
    def generation(self) -> int:
        """The generation that the member has joined; -1 before, and after it was removed."""
        return self._machine.generation

    # -- calls -----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to join, in the background. An unreachable broker is not an error."""
        if self._started:
            raise IllegalStateError("the membership was started before; create another GroupMember")
        self._started = True
        await self._network.start()
        self._step(Started())

    def rejoin(self, reason: str) -> None:
        """Ask for a rebalance: the metadata of this member, or (at the leader) what there is to assign, has changed."""
        if self._started and not self._closed:
            self._step(RejoinRequested(reason))

    async def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Call `revoked` if there is an assignment, leave the group, and close the connections.

        After `timeout_s` it leaves without waiting for the listener or the coordinator any longer.
        """
        if not self._started or self._closed:
            return
        self._step(LeaveRequested())
        try:
            async with asyncio.timeout(timeout_s):
                while self._tasks or self._machine.state not in (GroupMemberState.LEFT, GroupMemberState.FAILED):
                    if self._tasks:
                        await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
                    else:
                        self._stepped.clear()
                        await self._stepped.wait()
        except TimeoutError:
            log.warning("left the group without its answer", extra={"group": self.group_id, "after_s": timeout_s})
        finally:
            await self._close()

    async def abandon(self) -> None:
        """Close the connections without leaving the group, as a killed process would."""
        await self._close()

    async def _close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._network.close()

    # -- steps -----------------------------------------------------------------------------------------------------

    def _step(self, event: Event) -> None:
        if self._closed:
            return
        machine = self._machine
        failure = machine.failure
        for action in machine.step(asyncio.get_running_loop().time(), event):
            match action:
                case Send():
                    self._begin(self._send(action))
                case CoordinatorGone():
                    self._network.coordinator_gone(CoordinatorKind.GROUP, self.group_id)
                case Compute():
                    self._begin(self._compute(action))
                case Call():
                    self._begin(self._call(action))
        self._set_timer()
        self._stepped.set()
        if machine.failure is not None and failure is None:
            log.error("membership ended", extra={"group": self.group_id, "reason": str(machine.failure)})
            self._listener.failed(machine.failure)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        at = self._machine.wake_at
        if at is not None:
            self._timer = asyncio.get_running_loop().call_at(at, self._step, Tick())

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name=f"member of {self.group_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, action: Send) -> None:
        deadline = asyncio.get_running_loop().time() + action.timeout_s
        event: Event
        try:
            node = await self._network.coordinator(CoordinatorKind.GROUP, self.group_id, deadline)
            response = await self._network.call(
                node,
                action.request,
                deadline=deadline,
                timeout_s=action.timeout_s,
                what=f"being a member of group {self.group_id!r}",
            )
        except MoldauError as error:
            event = RequestFailed(action.ticket, error)
        else:
            event = Answered(action.ticket, response)
        self._step(event)

    async def _compute(self, action: Compute) -> None:
        event: Event
        try:
            async with asyncio.timeout(self._rebalance_timeout_s):
                outcome = self._assign(action.view)
                event = Computed(action.ticket, await outcome if inspect.isawaitable(outcome) else outcome)
        except Exception as error:  # the service's function: the group must not hang because of it
            log.exception("no assignments", extra={"group": self.group_id, "reason": repr(error)})
            event = ComputeFailed(action.ticket)
        self._step(event)

    async def _call(self, action: Call) -> None:
        facts = {
            "group": self.group_id,
            "generation": action.assignment.generation,
            "member": action.assignment.member_id,
        }
        log.info("membership changed", extra={**facts, "kind": action.kind.value})
        try:
            match action.kind:
                case CallKind.REVOKED:
                    await self._listener.revoked(action.assignment)
                case CallKind.ASSIGNED:
                    await self._listener.assigned(action.assignment)
                case CallKind.LOST:
                    await self._listener.lost(action.assignment)
        except Exception as error:  # the service's function: the membership must go on
            log.exception("listener failed", extra={**facts, "kind": action.kind.value, "reason": repr(error)})
        self._step(CallbackDone())
