"""A classic group: its members, its state and the rules of its changes. What the members read is their own affair.

Between two stored records a rebalance is soft state: who has joined, who waits for an answer, which generation comes.
A coordinator that dies in between forgets it, and its successor begins with the last record: the members rejoin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final

from moldau.groups.consumer_protocol import CONSUMER_PROTOCOL, parse_subscription
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.join_group import JoinGroupResponseMember
from moldau.wire.stored.group_metadata import GroupMetadataValue, GroupMetadataValueMember

NO_GENERATION: Final = -1


class State(Enum):
    """Kafka's names, as they are told."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: Final[Mapping[State, frozenset[State]]] = {
    State.EMPTY: frozenset({State.PREPARING_REBALANCE, State.DEAD}),
    State.PREPARING_REBALANCE: frozenset({State.COMPLETING_REBALANCE, State.EMPTY, State.DEAD}),
    State.COMPLETING_REBALANCE: frozenset({State.STABLE, State.PREPARING_REBALANCE, State.DEAD}),
    State.STABLE: frozenset({State.PREPARING_REBALANCE, State.DEAD}),
    State.DEAD: frozenset(),
}
"""Where a group may go. A static member that is replaced stores a stable group again without leaving the state."""


class Member:
    """One member, as it described itself when it joined."""

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
        # Soft from here on.
        self.is_new = False
        """Has joined and has not been in any generation: it may take longer, but not for ever."""
        self.deadline_ms = 0
        """When the session ends, unless the member waits for an answer of ours."""
        self.join_ticket: Any = None
        self.sync_ticket: Any = None

    def __repr__(self) -> str:
        return f"Member({self.id})"

    def metadata(self, protocol: str | None) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    @property
    def waits(self) -> bool:
        """Whether its silence is our fault."""
        return self.join_ticket is not None or self.sync_ticket is not None


class ClassicGroup:
    """A group of the classic protocol."""

    __slots__ = (
        "_state",
        "generation",
        "id",
        "joined_anew",
        "leader",
        "members",
        "pending",
        "pending_sync",
        "previous_state",
        "protocol",
        "protocol_type",
        "rebalance_deadline_ms",
        "state_since_ms",
        "static",
    )

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self._state = State.EMPTY
        self.previous_state = State.EMPTY
        self.state_since_ms = -1
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static: dict[str, str] = {}
        """Member ids by group.instance.id."""
        # Soft from here on.
        self.pending: dict[str, int] = {}
        """Ids that were given out and not used yet, and until when they hold."""
        self.pending_sync: dict[str, None] = {}
        """Members of the generation that have not asked for their assignment."""
        self.joined_anew = False
        """Whether a member came during the initial delay, which is then prolonged."""
        self.rebalance_deadline_ms = 0
        """When the initial delay must end, however many still come."""

    # -- state -----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        return self._state

    def become(self, state: State, now_ms: int) -> None:
        assert state in TRANSITIONS[self._state], f"{self.id}: {self._state.value} to {state.value}"
        self.previous_state, self._state = self._state, state
        self.state_since_ms = now_ms

    # -- members ---------------------------------------------------------------------------------------------------

    def add(self, member: Member) -> None:
        if not self.members:
            self.leader = member.id
        self.members[member.id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member.id

    def remove(self, member_id: str) -> Member | None:
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self.pending_sync.pop(member_id, None)
        if member.instance_id is not None and self.static.get(member.instance_id) == member_id:
            del self.static[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def rename(self, old_id: str, new_id: str) -> Member:
        """A static member came back: the same place under a new id."""
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
        """Why this is no member, if so. A static member is known by its instance; its id says whether it is the last
        that came."""
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
        """Whether a member that speaks these can be in the group with the others."""
        names = set(protocols)
        if not self.members:
            return bool(protocol_type and names)
        return protocol_type == self.protocol_type and bool(names & self._common_protocols())

    def _common_protocols(self) -> set[str]:
        return set.intersection(*({name for name, _ in member.protocols} for member in self.members.values()))

    def select_protocol(self) -> str:
        """Each member votes for the first of its protocols that all have; the most votes win, the first of equals."""
        common = self._common_protocols()
        assert common, f"{self.id}: members without a common protocol"
        votes = Counter(
            next(name for name, _ in member.protocols if name in common) for member in self.members.values()
        )
        return votes.most_common(1)[0][0]

    def elect_leader(self) -> bool:
        """Keeps the leader if it has rejoined, else takes the first member that has; False where none has."""
        leader = self.members.get(self.leader or "")
        if leader is not None and leader.join_ticket is not None:
            return True
        joined = next((member.id for member in self.members.values() if member.join_ticket is not None), None)
        if joined is not None:
            self.leader = joined
        return joined is not None

    def subscribed_topics(self) -> frozenset[str] | None:
        """The topics that the group's consumers read; None where that cannot be known."""
        if self.protocol_type != CONSUMER_PROTOCOL or self.protocol is None:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            subscription = parse_subscription(member.metadata(self.protocol))
            if subscription is None:
                return None
            topics.update(subscription.topics)
        return frozenset(topics)

    # -- stored ----------------------------------------------------------------------------------------------------

    def stored_value(
        self, now_ms: int, assignments: Mapping[str, bytes] | None = None, *, generation: int | None = None
    ) -> GroupMetadataValue:
        """The group as it is stored: with these assignments, or with those it has."""
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
        """A stored record: the group is this now.

        Stored is what a member said about the protocol that was chosen. What it said about the others is kept as long
        as that agrees; a later record of a member that is known only from earlier ones takes their place.
        """
        known, self.members, self.static = self.members, {}, {}
        for stored in value.members:
            timeout_ms = stored.session_timeout if stored.rebalance_timeout < 0 else stored.rebalance_timeout
            member = Member(
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
        self.previous_state, self._state = self._state, State.STABLE if self.members else State.EMPTY
        self.state_since_ms = value.current_state_timestamp

    def joined_members(self) -> list[JoinGroupResponseMember]:
        """What the leader is told, so that it can assign."""
        return [
            JoinGroupResponseMember(
                member_id=member.id, group_instance_id=member.instance_id, metadata=member.metadata(self.protocol)
            )
            for member in self.members.values()
        ]
