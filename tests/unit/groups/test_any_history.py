"""Random histories of groups: members join, leave, die, hang and are fenced; coordinators and disks fail.

In every history:

- a partition has one reader per generation
- no commit is lost, and no member of an earlier generation overwrites one
- after the members behave well for one session and one rebalance timeout, the group is stable or empty
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moldau.coordinator.outcome import TxnProducer
from moldau.groups.classic_group import ClassicGroupState
from moldau.groups.config import GroupConfig
from moldau.groups.consumer_group import GroupState
from moldau.wire.errors import ErrorCode
from tests.unit.groups.members import ClassicMember, ConsumerMember
from tests.unit.groups.shard_driver import REBALANCE_MS, SESSION_MS, ShardDriver

E = ErrorCode
TICK_MS = 1_000
SLACK_TICKS = 8
"""Heartbeats until all members have learned what has happened."""
MAX_MEMBERS = 6

places = st.integers(0, MAX_MEMBERS - 1)


class ClassicGroupMachine(RuleBasedStateMachine):
    """One classic group."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = ShardDriver(GroupConfig(initial_rebalance_delay_ms=3_000))
        self.members: list[ClassicMember] = []
        self.owners: dict[tuple[int, int], str] = {}
        self.identities: set[tuple[str, int]] = set()
        self.committed = -1
        self.named = 0
        self.pending: dict[int, int] = {}

    def member(self, place: int) -> ClassicMember:
        return self.members[place % len(self.members)]

    # -- rules -----------------------------------------------------------------------------------------------------

    @initialize(count=st.integers(0, 3), initial_delay_ms=st.sampled_from([0, 3_000]))
    def a_group_exists(self, count: int, initial_delay_ms: int) -> None:
        self.driver = ShardDriver(GroupConfig(initial_rebalance_delay_ms=initial_delay_ms))
        for _ in range(count):
            self.a_member_joins(None)
        self.all_members_act_for_a_while(8)

    @rule(instance=st.sampled_from([None, None, "one", "two"]))
    def a_member_joins(self, instance: str | None) -> None:
        if sum(member.alive for member in self.members) < MAX_MEMBERS:
            self.named += 1
            self.members.append(ClassicMember(self.driver, f"member{self.named}", instance))
            self.members[-1].act()

    @precondition(lambda self: self.members)
    @rule(place=places)
    def a_member_acts(self, place: int) -> None:
        self.member(place).act()

    @rule(ticks=st.integers(1, 8))
    def all_members_act_for_a_while(self, ticks: int) -> None:
        for _ in range(ticks):
            for member in self.members:
                if member.alive:
                    member.act()
            self.driver.advance(TICK_MS)
            self.a_partition_has_one_reader_per_generation()

    @precondition(lambda self: self.members)
    @rule(place=places)
    def a_member_leaves(self, place: int) -> None:
        if self.member(place).alive:
            self.member(place).leave()

    @precondition(lambda self: self.members)
    @rule(place=places)
    def a_member_dies(self, place: int) -> None:
        self.member(place).alive = False

    @precondition(lambda self: self.members)
    @rule(place=places, ticks=st.integers(0, 8))
    def a_member_requests_a_rebalance(self, place: int, ticks: int) -> None:
        if self.member(place).phase == "in":
            self.member(place).phase = "out"
        self.all_members_act_for_a_while(ticks)

    @rule(milliseconds=st.sampled_from([1, 500, 3_000, SESSION_MS, REBALANCE_MS]))
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

    @precondition(lambda self: self.members)
    @rule(place=places)
    def a_member_commits(self, place: int) -> None:
        member = self.member(place)
        if member.generation >= 0:
            self._commit(member.id, member.generation, member.instance)

    @precondition(lambda self: self.identities)
    @rule(place=st.integers(0, 1_000))
    def a_member_of_an_earlier_generation_commits(self, place: int) -> None:
        self._commit(*sorted(self.identities)[place % len(self.identities)], None)

    def _commit(self, member_id: str, generation: int, instance: str | None) -> None:
        group = self.driver.shard.groups["g"].classic if "g" in self.driver.shard.groups else None
        current = (
            group is not None
            and group.generation == generation
            and member_id in group.members
            and group.state is not ClassicGroupState.COMPLETING_REBALANCE
        )
        code = self.driver.commit(self.committed + 1, member_id, generation, instance=instance)
        assert (code == E.NONE) <= current, f"{code!r} for a member of an earlier generation"
        if code == E.NONE:
            self.committed += 1

    @precondition(lambda self: self.members)
    @rule(place=places, producer=st.integers(1, 3))
    def a_member_commits_in_a_transaction(self, place: int, producer: int) -> None:
        member = self.member(place)
        if producer in self.pending or member.generation < 0:
            return
        offset = self.committed + 1
        code = self.driver.commit(
            offset, member.id, member.generation, instance=member.instance, producer=TxnProducer(producer, 0)
        )
        if code == E.NONE:
            self.pending[producer] = offset

    @precondition(lambda self: self.pending)
    @rule(place=places, committed=st.booleans())
    def a_transaction_ends(self, place: int, committed: bool) -> None:
        producer = sorted(self.pending)[place % len(self.pending)]
        offset = self.pending.pop(producer)
        self.driver.marker(producer, committed)
        if committed:
            # A commit that was stored after the offset of the transaction wins.
            self.committed = max(self.committed, offset)

    # -- invariants ------------------------------------------------------------------------------------------------

    @invariant()
    def a_partition_has_one_reader_per_generation(self) -> None:
        for member in self.members:
            if member.phase != "in":
                continue
            self.identities.add((member.id, member.generation))
            for partition in member.partitions:
                owner = self.owners.setdefault((member.generation, partition), member.identity)
                assert owner == member.identity, f"{owner} and {member.identity} read {partition}"

    @invariant()
    def fetch_returns_the_committed_offset(self) -> None:
        assert self.driver.committed().offset == self.committed

    @invariant()
    def a_replay_of_the_log_gives_the_same_offsets(self) -> None:
        known = {name: group.offsets.committed for name, group in self.driver.shard.groups.items() if group.offsets}
        shard = self.driver._new_shard()
        for producer, record in self.driver.log:
            if isinstance(producer, int):
                shard.replay_marker(producer, bool(record))
            elif producer is None:
                shard.replay(*record)  # type: ignore[misc]
            else:
                shard.replay_pending(producer.id, *record)  # type: ignore[misc]
        assert {name: group.offsets.committed for name, group in shard.groups.items() if group.offsets} == known

    def teardown(self) -> None:
        """From any state, the group becomes stable when the members behave well."""
        for _ in range((SESSION_MS + REBALANCE_MS) // TICK_MS + SLACK_TICKS):
            for member in self.members:
                if member.alive:
                    member.act()
            self.driver.advance(TICK_MS)
            self.a_partition_has_one_reader_per_generation()
        alive = [member for member in self.members if member.alive]
        group = self.driver.shard.groups["g"].classic if "g" in self.driver.shard.groups else None
        state = ClassicGroupState.EMPTY if group is None else group.state
        assert state is (ClassicGroupState.STABLE if alive else ClassicGroupState.EMPTY), (
            f"{state} with {len(alive)} members"
        )
        assert all(member.phase == "in" for member in alive)
        read = sorted(partition for member in alive for partition in member.partitions)
        assert read == (list(range(10)) if alive else [])


class ConsumerGroupMachine(RuleBasedStateMachine):
    """One group of the consumer protocol."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = ShardDriver()
        self.members: list[ConsumerMember] = []
        self.named = 0

    def member(self, place: int) -> ConsumerMember:
        return self.members[place % len(self.members)]

    @initialize()
    def a_first_member_exists(self) -> None:
        self.a_member_joins(None)

    @rule(instance=st.sampled_from([None, None, "one", "two"]))
    def a_member_joins(self, instance: str | None) -> None:
        if sum(member.alive for member in self.members) < MAX_MEMBERS:
            self.named += 1
            self.members.append(ConsumerMember(self.driver, f"member{self.named}", instance))
            self.members[-1].act()

    @rule(place=places, lost=st.booleans(), slow=st.booleans())
    def a_member_acts(self, place: int, lost: bool, slow: bool) -> None:
        if self.member(place).alive:
            self.member(place).act(lost=lost, slow=slow)

    @rule(ticks=st.integers(1, 8))
    def all_members_act_for_a_while(self, ticks: int) -> None:
        for _ in range(ticks):
            for member in self.members:
                if member.alive:
                    member.act()
            self.driver.advance(TICK_MS)
            self.no_two_members_read_the_same_partition()

    @rule(place=places)
    def a_member_leaves(self, place: int) -> None:
        member = self.member(place)
        if member.alive:
            member.leave(-2 if member.instance else -1)

    @rule(place=places)
    def a_member_dies(self, place: int) -> None:
        self.member(place).alive = False

    @rule(place=places)
    def a_member_restarts(self, place: int) -> None:
        member = self.member(place)
        if member.alive:
            member.epoch, member.reads = 0, set()

    @rule(milliseconds=st.sampled_from([1, 5_000, 30_000, 45_000]))
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
        group = self.driver.shard.groups["g"].consumer if "g" in self.driver.shard.groups else None
        known = {} if group is None else group.members
        read = [partition for one in self.members if one.id in known for partition in one.reads]
        assert len(read) == len(set(read))

    def teardown(self) -> None:
        for _ in range((45_000 + REBALANCE_MS) // TICK_MS + SLACK_TICKS):
            for member in self.members:
                if member.alive:
                    member.act()
            self.driver.advance(TICK_MS)
            self.no_two_members_read_the_same_partition()
        alive = [member for member in self.members if member.alive]
        group = self.driver.shard.groups["g"].consumer if "g" in self.driver.shard.groups else None
        state = GroupState.EMPTY if group is None else group.state
        assert state is (GroupState.STABLE if alive else GroupState.EMPTY)
        assert sorted(index for one in alive for index in one.reads) == (list(range(10)) if alive else [])
        sizes = [len(one.reads) for one in alive]
        assert not sizes or max(sizes) - min(sizes) <= 1


TestClassicGroup = ClassicGroupMachine.TestCase
TestClassicGroup.settings = settings(settings.default, stateful_step_count=40, max_examples=60)
TestConsumerGroup = ConsumerGroupMachine.TestCase
TestConsumerGroup.settings = settings(settings.default, stateful_step_count=40, max_examples=60)


def test_a_second_consumer_takes_five_of_ten_partitions() -> None:
    for kind in (ClassicMember, ConsumerMember):
        driver = ShardDriver()
        members = [kind(driver, "first")]
        for tick in range(30):
            if tick == 10:
                members.append(kind(driver, "second"))
            for member in members:
                member.act()
            driver.advance(TICK_MS)
            if tick == 9:
                assert [_count(member) for member in members] == [10]
        assert [_count(member) for member in members] == [5, 5]


def _count(member: ClassicMember | ConsumerMember) -> int:
    return len(member.partitions if isinstance(member, ClassicMember) else member.reads)
