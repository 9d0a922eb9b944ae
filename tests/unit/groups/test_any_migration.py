"""Random histories of groups with classic members and members of the consumer protocol.

Members join, leave and die, and coordinators and disks fail. No two members read the same partition. When the members
behave well, the group becomes stable, in the protocol of its remaining members.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from moldau.groups.classic_group import ClassicGroupState
from moldau.groups.consumer_group import GroupState
from tests.unit.groups.members import ClassicMember, ConsumerMember
from tests.unit.groups.shard_driver import REBALANCE_MS, ShardDriver

TICK_MS = 1_000
SLACK_TICKS = 10
MAX_MEMBERS = 5
CONSUMER_SESSION_MS = 45_000

places = st.integers(0, MAX_MEMBERS - 1)


class MixedGroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.driver = ShardDriver()
        self.members: list[ClassicMember | ConsumerMember] = []

    @initialize(classic=st.integers(0, 2), modern=st.integers(0, 2))
    def a_group_exists(self, classic: int, modern: int) -> None:
        for _ in range(classic):
            self.a_member_joins(False)
        self.all_members_act_for_a_while(5)
        for _ in range(modern):
            self.a_member_joins(True)

    @rule(modern=st.booleans())
    def a_member_joins(self, modern: bool) -> None:
        if sum(member.alive for member in self.members) < MAX_MEMBERS:
            kind = ConsumerMember if modern else ClassicMember
            self.members.append(kind(self.driver, f"member{len(self.members)}"))
            self.members[-1].act()

    @rule(ticks=st.integers(1, 12))
    def all_members_act_for_a_while(self, ticks: int) -> None:
        for _ in range(ticks):
            for member in self.members:
                if member.alive:
                    member.act()
                    self.no_two_members_read_the_same_partition()
            self.driver.advance(TICK_MS)

    @rule(place=places)
    def a_member_leaves(self, place: int) -> None:
        if self.members and (member := self.members[place % len(self.members)]).alive:
            member.leave()

    @rule(place=places)
    def a_member_dies(self, place: int) -> None:
        if self.members:
            self.members[place % len(self.members)].alive = False

    @rule(milliseconds=st.sampled_from([1, 5_000, 30_000]))
    def time_passes(self, milliseconds: int) -> None:
        self.driver.advance(milliseconds)

    @rule()
    def the_coordinator_restarts(self) -> None:
        self.driver.reload()

    @rule(ticks=st.integers(1, 3))
    def the_disk_fails_for_a_while(self, ticks: int) -> None:
        self.driver.broken = True
        self.all_members_act_for_a_while(ticks)
        self.driver.broken = False

    @invariant()
    def no_two_members_read_the_same_partition(self) -> None:
        group = self.driver.shard.groups.get("g")
        if group is None:
            return
        read: list[int] = []
        for member in self.members:
            if group.consumer is not None and member.id in group.consumer.members:
                read += member.reads if isinstance(member, ConsumerMember) else member.partitions
            elif (
                group.classic is not None
                and isinstance(member, ClassicMember)
                and member.id in group.classic.members
                and member.generation == group.classic.generation
                and member.phase == "in"
            ):
                read += member.partitions
        assert len(read) == len(set(read))

    def teardown(self) -> None:
        self.all_members_act_for_a_while((CONSUMER_SESSION_MS + REBALANCE_MS) // TICK_MS + SLACK_TICKS)
        alive = [member for member in self.members if member.alive]
        group = self.driver.shard.groups.get("g")
        if not alive:
            assert group is None or group.empty
            return
        assert group is not None
        if any(isinstance(member, ConsumerMember) for member in alive):
            assert group.consumer is not None
            assert group.consumer.state is GroupState.STABLE
        elif group.classic is not None:
            assert group.classic.state is ClassicGroupState.STABLE
        else:
            assert group.consumer is not None
            assert group.consumer.state is GroupState.STABLE
        read = [
            index
            for member in alive
            for index in (member.reads if isinstance(member, ConsumerMember) else member.partitions)
        ]
        assert sorted(read) == list(range(10))


TestMixedGroup = MixedGroupMachine.TestCase
TestMixedGroup.settings = settings(settings.default, stateful_step_count=30, max_examples=60)
