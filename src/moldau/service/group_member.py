"""Group membership of a process: joins a group through the broker, with a leader that assigns the work.

The classic group protocol carries it, with a protocol type of the service's own ("connect", "sr"). Every member sends
its metadata (bytes); the leader gets the metadata of all members and computes an assignment (bytes) for each. Works with
Moldau and with Apache Kafka.

    member = GroupMember(
        {"bootstrap.servers": brokers}, group_id="connect-cluster", protocol_type="connect",
        protocols={"default": metadata}, assign=assign, listener=listener,
    )
    await member.start()

The state machine is in `group_machine.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from moldau.client.errors import MoldauError


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


Assign = Callable[[GroupView], Mapping[str, bytes] | Awaitable[Mapping[str, bytes]]]
"""The leader's function: the assignment of each member, by member id. It may be a coroutine function (a leader may have
to read a topic to its end first); the rebalance waits for it, up to the rebalance time-out."""


class MemberListener(Protocol):
    """What a process does when its membership changes. The calls run one after another, never two at once.

    Order: `revoked` → `assigned` → … A rebalance begins with `revoked`. A member that the group has removed, or that had
    no contact with the coordinator for the session time-out, gets `lost` instead, as soon as it knows: other members may
    own its work already. After `lost` it joins again by itself, and gets `assigned`.
    """

    async def revoked(self, old: GroupAssignment) -> None:
        """A rebalance has begun. The group waits for this call to return, up to the rebalance time-out.

        A service that keeps its work over a rebalance returns at once, names its work in its metadata, and stops what
        it has lost in `assigned`. Heartbeats continue during the call.
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
        """`protocols`: by name, in the order of preference, a function that returns this member's metadata. It is called
        at every JoinGroup. The coordinator chooses a name that all members have."""
        raise NotImplementedError

    async def start(self) -> None:
        """Begin to join, in the background. An unreachable broker is not an error."""
        raise NotImplementedError

    async def stop(self, timeout_s: float = 5.0) -> None:
        """Call `revoked` if there is an assignment, leave the group, and close the connections."""
        raise NotImplementedError

    def rejoin(self, reason: str) -> None:
        """Ask for a rebalance: the metadata of this member, or (at the leader) what there is to assign, has changed."""
        raise NotImplementedError

    @property
    def assignment(self) -> GroupAssignment | None:
        """The valid assignment; None before the first one, after `lost`, and during a rebalance."""
        raise NotImplementedError

    @property
    def valid(self) -> bool:
        """Whether the assignment holds at this moment: the coordinator has confirmed the membership within the session
        time-out, by this process's clock now. Ask it before work that must not happen after a takeover; the last word
        has the broker's fencing (transactional ids), because the process may stop right after asking."""
        raise NotImplementedError

    @property
    def member_id(self) -> str:
        """The id that the coordinator gave this member; empty before."""
        raise NotImplementedError
