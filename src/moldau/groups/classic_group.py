"""Classic group: its members, its state and the allowed transitions.

A rebalance is soft state between two stored records: which members have joined, which requests wait, and the next
generation. A coordinator that fails during a rebalance loses it. The next coordinator begins with the last record, and
the members rejoin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final

from moldau.assignment.consumer_protocol import CONSUMER_PROTOCOL, parse_subscription
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.join_group import JoinGroupResponseMember
from moldau.wire.stored.group_metadata import GroupMetadataValue, GroupMetadataValueMember

NO_GENERATION: Final = -1


class ClassicGroupState(Enum):
    """The states, with the names that Kafka reports."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: Final[Mapping[ClassicGroupState, frozenset[ClassicGroupState]]] = {
    ClassicGroupState.EMPTY: frozenset({ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.DEAD}),
    ClassicGroupState.PREPARING_REBALANCE: frozenset(
        {ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.EMPTY, ClassicGroupState.DEAD}
    ),
    ClassicGroupState.COMPLETING_REBALANCE: frozenset(
        {ClassicGroupState.STABLE, ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.DEAD}
    ),
    ClassicGroupState.STABLE: frozenset({ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.DEAD}),
    ClassicGroupState.DEAD: frozenset(),
}
"""The states that may follow each state. The replacement of a static member stores a stable group again, without a
transition."""


class ClassicMember:
    """One member, as described by its last JoinGroup."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "deadline_ms",
        "id",
        "instance_id",
        "is_new",
        "join_ticket",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_ticket",
    )

    def __init__(
        self,
        id_: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Sequence[tuple[str, bytes]],
    ) -> None:
        self.id = id_
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = tuple(protocols)
        self.assignment = b""
        # Soft state:
        self.is_new = False
        """Whether it has not been in any generation. Until then NEW_MEMBER_JOIN_TIMEOUT_MS limits its wait."""
        self.deadline_ms = 0
        """When the session ends, unless a request of the member waits for the coordinator."""
        self.join_ticket: Any = None
        self.sync_ticket: Any = None

    def __repr__(self) -> str:
        return f"Member({self.id})"

    def metadata(self, protocol: str | None) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    @property
    def waits(self) -> bool:
        """Whether a JoinGroup or SyncGroup of the member waits: it sends no heartbeats meanwhile."""
        return self.join_ticket is not None or self.sync_ticket is not None


class ClassicGroup:
    """A group of the classic protocol."""

    __slots__ = (
        "_state",
        "awaits_pending",
        "generation",
        "id",
        "leader",
        "members",
        "pending",
        "pending_sync",
        "previous_state",
        "prolong_initial_delay",
        "protocol",
        "protocol_type",
        "rebalance_deadline_ms",
        "state_since_ms",
        "static",
    )

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self._state = ClassicGroupState.EMPTY
        self.previous_state = ClassicGroupState.EMPTY
        self.state_since_ms = -1
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static: dict[str, str] = {}
        """Member ids by group.instance.id."""
        # Soft state:
        self.pending: dict[str, int] = {}
        """Member ids that were given out with MEMBER_ID_REQUIRED and not used yet, with the time when they expire."""
        self.pending_sync: dict[str, None] = {}
        """Members of the generation that have not sent SyncGroup."""
        self.prolong_initial_delay = False
        """Whether a member joined during the initial delay, which is then prolonged."""
        self.awaits_pending = False
        """Whether the initial delay is over and the first generation waits only for pending members."""
        self.rebalance_deadline_ms = 0
        """When the initial delay ends, even if more members join."""

    # -- state -----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> ClassicGroupState:
        return self._state

    def become(self, state: ClassicGroupState, now_ms: int) -> None:
        assert state in TRANSITIONS[self._state], f"{self.id}: {self._state.value} to {state.value}"
        self.previous_state, self._state = self._state, state
        self.state_since_ms = now_ms

    # -- members ---------------------------------------------------------------------------------------------------

    def add(self, member: ClassicMember) -> None:
        if not self.members:
            self.leader = member.id
        self.members[member.id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member.id

    def remove(self, member_id: str) -> ClassicMember | None:
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self.pending_sync.pop(member_id, None)
        if member.instance_id is not None and self.static.get(member.instance_id) == member_id:
            del self.static[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def rename(self, old_id: str, new_id: str) -> ClassicMember:
        """Give a static member that came back a new member id and the place of the old one."""
        member = self.members.pop(old_id)
        member.id = new_id
        self.members[new_id] = member
        assert member.instance_id is not None
        self.static[member.instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        if old_id in self.pending_sync:
            del self.pending_sync[old_id]
            self.pending_sync[new_id] = None
        return member

    def member_error(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """The error for a request of this member; NONE if it is in the group.

        A static member is found by its group.instance.id. If another member id has joined with that id since, the
        request is fenced.
        """
        if instance_id is not None:
            known = self.static.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            return ErrorCode.NONE if known == member_id else ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    @property
    def waiting_to_join(self) -> int:
        return sum(member.join_ticket is not None for member in self.members.values())

    @property
    def all_joined(self) -> bool:
        return not self.pending and all(member.join_ticket is not None for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # -- protocols -------------------------------------------------------------------------------------------------

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Whether a member with these protocols has one in common with all other members."""
        names = set(protocols)
        if not self.members:
            return bool(protocol_type and names)
        return protocol_type == self.protocol_type and bool(names & self._common_protocols())

    def _common_protocols(self) -> set[str]:
        return set.intersection(*({name for name, _ in member.protocols} for member in self.members.values()))

    def select_protocol(self) -> str:
        """The protocol with the most votes; of several, the one that was voted for first.

        Each member votes for the first of its protocols that all members support.
        """
        common = self._common_protocols()
        assert common, f"{self.id}: members without a common protocol"
        votes = Counter(
            next(name for name, _ in member.protocols if name in common) for member in self.members.values()
        )
        return votes.most_common(1)[0][0]

    def elect_leader(self) -> bool:
        """Keep the leader if it has rejoined, otherwise choose the first member that has. False if none has."""
        leader = self.members.get(self.leader or "")
        if leader is not None and leader.join_ticket is not None:
            return True
        joined = next((member.id for member in self.members.values() if member.join_ticket is not None), None)
        if joined is not None:
            self.leader = joined
        return joined is not None

    def subscribed_topics(self) -> frozenset[str] | None:
        """The topics that the members subscribe to; None if a member is not a consumer or cannot be decoded."""
        if self.protocol_type != CONSUMER_PROTOCOL or self.protocol is None:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            subscription = parse_subscription(member.metadata(self.protocol))
            if subscription is None:
                return None
            topics.update(subscription.topics)
        return frozenset(topics)

    # -- stored form -------------------------------------------------------------------------------------------------

    def stored_value(
        self, now_ms: int, assignments: Mapping[str, bytes] | None = None, *, generation: int | None = None
    ) -> GroupMetadataValue:
        """The value to store, with the given assignments or the current ones."""
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation if generation is None else generation,
            protocol=self.protocol if self.members else None,
            leader=self.leader if self.members else None,
            current_state_timestamp=now_ms,
            members=[
                GroupMetadataValueMember(
                    member_id=member.id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(self.protocol),
                    assignment=member.assignment if assignments is None else assignments.get(member.id, b""),
                )
                for member in self.members.values()
            ],
        )

    def apply(self, value: GroupMetadataValue) -> None:
        """Replay a stored record: replace the state of the group.

        The record has the metadata of each member only for the chosen protocol. If a known member has the same
        metadata for it, the known member stays, with the metadata of all its protocols. Otherwise the member from the
        record replaces it.
        """
        known, self.members, self.static = self.members, {}, {}
        for stored in value.members:
            timeout_ms = stored.session_timeout if stored.rebalance_timeout < 0 else stored.rebalance_timeout
            member = ClassicMember(
                stored.member_id,
                stored.group_instance_id,
                stored.client_id,
                stored.client_host,
                timeout_ms,
                stored.session_timeout,
                [(value.protocol or "", bytes(stored.subscription))],
            )
            earlier = known.get(stored.member_id)
            if earlier is not None and member.protocols[0] in earlier.protocols:
                member = earlier
            member.assignment = bytes(stored.assignment)
            self.add(member)
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol = value.protocol
        self.leader = value.leader
        self.previous_state, self._state = (
            self._state,
            ClassicGroupState.STABLE if self.members else ClassicGroupState.EMPTY,
        )
        self.state_since_ms = value.current_state_timestamp

    def joined_members(self) -> list[JoinGroupResponseMember]:
        """The members, as the JoinGroup response lists them for the leader."""
        return [
            JoinGroupResponseMember(
                member_id=member.id, group_instance_id=member.instance_id, metadata=member.metadata(self.protocol)
            )
            for member in self.members.values()
        ]
