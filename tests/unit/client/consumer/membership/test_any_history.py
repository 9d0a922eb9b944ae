"""Random histories of groups of Moldau consumers: lost, late and duplicated answers; members that die, hang and
return.

Invariants: no partition has two readers at once, by what their applications were told. When all members behave for a
while, every member is stable and every partition is read. Only a member whose instance id was taken fails.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moldau.client.errors import FencedInstanceId
from tests.unit.client.consumer.membership.simulation import (
    HEARTBEAT_MS,
    REBALANCE_MS,
    SESSION_MS,
    Client,
    Fate,
    Simulation,
)

MAX_CLIENTS = 5
SOAK = settings.default.max_examples > 1_000  # type: ignore[union-attr]

places = st.integers(0, MAX_CLIENTS - 1)
delays = st.sampled_from([1, 1, 50, HEARTBEAT_MS, 6_000, SESSION_MS + 1_000])
fates = st.builds(
    Fate,
    there_ms=delays | st.none(),
    back_ms=delays | st.none(),
    twice=st.booleans(),
    cut_ms=st.sampled_from([None, None, 1, 30, 4_000]),
)
subscriptions = st.sampled_from([("t",), ("t",), ("u",), ("t", "u")])


class GroupMachine(RuleBasedStateMachine):
    """One group; subclasses choose its protocol and assignor."""

    new_protocol = False
    strategies: tuple[str, ...] = ("range",)

    def __init__(self) -> None:
        super().__init__()
        self.sim = Simulation(new_protocol=self.new_protocol, strategies=self.strategies)

    def client(self, place: int) -> Client:
        return self.sim.living[place % len(self.sim.living)]

    @initialize(count=st.integers(1, 3), settle=st.booleans())
    def some_are_there(self, count: int, settle: bool) -> None:
        for _ in range(count):
            self.sim.start()
        if settle:
            self.sim.run(15_000)

    # -- rules -----------------------------------------------------------------------------------------------------

    @rule(instance=st.sampled_from([None, None, "one", "two"]), subscribed=subscriptions)
    def a_member_joins(self, instance: str | None, subscribed: tuple[str, ...]) -> None:
        taken = {one.instance for one in self.sim.living}
        if len(self.sim.living) < MAX_CLIENTS and (instance is None or instance not in taken):
            self.sim.start(instance, subscribed)

    @rule(milliseconds=st.sampled_from([1, 100, 1_000, HEARTBEAT_MS, 6_000, SESSION_MS, REBALANCE_MS]))
    def time_passes(self, milliseconds: int) -> None:
        self.sim.run(milliseconds)

    @rule(some=st.lists(fates, min_size=1, max_size=4), milliseconds=st.integers(0, 8_000))
    def the_network_is_bad(self, some: list[Fate], milliseconds: int) -> None:
        self.sim.fates.extend(some)
        self.sim.run(milliseconds)

    @precondition(lambda self: self.sim.living)
    @rule(place=places)
    def a_member_dies(self, place: int) -> None:
        self.client(place).die()

    @precondition(lambda self: self.sim.living)
    @rule(place=places)
    def a_member_leaves(self, place: int) -> None:
        self.client(place).leaving = True

    @precondition(lambda self: self.sim.living)
    @rule(place=places, milliseconds=st.sampled_from([500, SESSION_MS - 1_000, SESSION_MS + 1_000, REBALANCE_MS * 2]))
    def a_process_is_paused(self, place: int, milliseconds: int) -> None:
        client = self.client(place)
        client.stand_still()
        self.sim.run(milliseconds)
        client.go_on()

    @precondition(lambda self: self.sim.living)
    @rule(place=places, milliseconds=st.sampled_from([2_000, REBALANCE_MS - 500, REBALANCE_MS + 500]))
    def an_application_does_not_poll(self, place: int, milliseconds: int) -> None:
        client = self.client(place)
        client.polls = False
        self.sim.run(milliseconds)
        client.polls = True

    @precondition(lambda self: self.sim.living)
    @rule(place=places, milliseconds=st.sampled_from([0, 700, 6_000, REBALANCE_MS + 1_000]))
    def an_application_is_slow_to_hear(self, place: int, milliseconds: int) -> None:
        self.client(place).hearing_ms = milliseconds

    @precondition(lambda self: self.sim.living)
    @rule(place=places, subscribed=subscriptions)
    def a_member_changes_its_subscription(self, place: int, subscribed: tuple[str, ...]) -> None:
        self.sim.subscribe(self.client(place), subscribed)

    @precondition(lambda self: any(one.instance for one in self.sim.living))
    @rule(place=places)
    def a_static_member_is_restarted(self, place: int) -> None:
        static = [one for one in self.sim.living if one.instance]
        self.sim.restart(static[place % len(static)])

    @rule()
    def the_coordinator_dies(self) -> None:
        self.sim.coordinator_dies()

    @rule(milliseconds=st.integers(1, 4_000))
    def the_coordinator_can_store_nothing_for_a_while(self, milliseconds: int) -> None:
        self.sim.coordinator.broken = True
        self.sim.run(milliseconds)
        self.sim.coordinator.broken = False

    @rule(count=st.sampled_from([10, 11, 13]), other=st.sampled_from([3, 4]))
    def topics_grow(self, count: int, other: int) -> None:
        now = self.sim.coordinator.known
        self.sim.topics_are(t=max(count, len(now["t"].partitions)), u=max(other, len(now["u"].partitions)))

    # -- invariants ------------------------------------------------------------------------------------------------

    @invariant()
    def only_members_whose_instance_id_was_taken_fail(self) -> None:
        failed = [(one.name, one.machine.failure) for one in self.sim.living if one.machine.failure is not None]
        assert not failed

    @invariant()
    def no_partition_has_two_readers(self) -> None:
        self.sim.look()

    def teardown(self) -> None:
        self.sim.recover()
        self.only_members_whose_instance_id_was_taken_fail()


class EagerGroup(GroupMachine):
    strategies = ("range",)


class StickyGroup(GroupMachine):
    strategies = ("sticky", "roundrobin")


class CooperativeGroup(GroupMachine):
    strategies = ("cooperative-sticky",)


class NewGroup(GroupMachine):
    new_protocol = True


HISTORIES = settings(
    settings.default,
    derandomize=not SOAK,
    max_examples=2_000 if SOAK else 20,
    stateful_step_count=50 if SOAK else 25,
)
TestEagerGroup = EagerGroup.TestCase
TestStickyGroup = StickyGroup.TestCase
TestCooperativeGroup = CooperativeGroup.TestCase
TestNewGroup = NewGroup.TestCase
TestEagerGroup.settings = TestStickyGroup.settings = HISTORIES
TestCooperativeGroup.settings = TestNewGroup.settings = HISTORIES


def test_of_two_processes_with_one_instance_id_the_later_stays_and_the_earlier_is_fenced() -> None:
    sim = Simulation()
    first = sim.start("one")
    sim.run(15_000)
    second = sim.start("one")
    sim.run(15_000)
    assert isinstance(first.machine.failure, FencedInstanceId)
    assert not first.reads
    assert len(second.reads) == 10


def test_a_late_join_request_does_not_fence_its_own_static_member() -> None:
    sim = Simulation()
    sim.fates.append(Fate(there_ms=9_000, cut_ms=1))  # its first JoinGroup times out, and arrives after the second
    member = sim.start("one")
    sim.run(8_000)
    assert len(member.reads) == 10
    sim.run(30_000)
    assert member.machine.failure is None
    assert len(member.reads) == 10


def test_a_replaced_static_member_is_fenced_long_after_a_late_request() -> None:
    sim = Simulation()
    sim.fates.append(Fate(there_ms=None, cut_ms=1))
    first = sim.start("one")
    sim.run(60_000)
    second = sim.start("one")
    sim.run(15_000)
    assert isinstance(first.machine.failure, FencedInstanceId)
    assert second.machine.settled


def test_a_member_id_that_was_never_stored_does_not_fence_a_static_member() -> None:
    sim = Simulation()
    first = sim.start("one")
    sim.run(15_000)
    sim.coordinator.broken = True
    second = sim.restart(first)
    sim.run(300)
    sim.coordinator_dies()
    sim.coordinator.broken = False
    sim.run(15_000)
    assert second.machine.failure is None
    assert len(second.reads) == 10


def test_a_static_leader_that_was_away_while_partitions_were_added_finds_them() -> None:
    sim = Simulation()
    leader, other = sim.start("one"), sim.start("two")
    sim.run(15_000)
    assert len(leader.reads) == len(other.reads) == 5
    leader.die()
    sim.topics_are(t=12, u=3)
    sim.start("one")
    sim.run(15_000)
    assert sorted(len(one.reads) for one in sim.living) == [6, 6]


@pytest.mark.parametrize("new_protocol", [False, True])
def test_a_connection_that_drops_everything_is_detected(new_protocol: bool) -> None:
    sim = Simulation(new_protocol=new_protocol)
    sim.fates += [Fate(there_ms=None)] * 3
    member = sim.start()
    sim.run(25_000)
    assert len(member.reads) == 10


def test_a_late_heartbeat_costs_its_member_no_partition_for_long() -> None:
    sim = Simulation(new_protocol=True)
    first = sim.start()
    sim.run(5_000)
    # timed out; arrives after its successor was answered
    sim.fates.append(Fate(there_ms=2_500, back_ms=None, cut_ms=1))
    second = sim.start()
    sim.run(30_000)
    assert len(first.reads) == len(second.reads) == 5
