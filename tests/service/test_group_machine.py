"""The state machine of a process in its group, without a network: every answer, and random orders of events."""

from __future__ import annotations

import random
from typing import Any

import pytest

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
from moldau.client.errors import BrokerUnavailable, ClusterAuthorizationFailed
from moldau.service.group_machine import (
    Action,
    Call,
    CallKind,
    Compute,
    Computed,
    ComputeFailed,
    Event,
    GroupMachine,
    GroupMemberState,
    RejoinRequested,
    Started,
)
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from moldau.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from moldau.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

CONFIG = MemberConfig(
    "g",
    session_timeout_s=10.0,
    heartbeat_interval_s=3.0,
    max_poll_interval_s=60.0,
    request_timeout_s=30.0,
    backoff=lambda failures: 0.1,
)


class Driver:
    """A machine with a clock, and the coordinator's answers."""

    def __init__(self) -> None:
        self.machine = GroupMachine(CONFIG, "connect", {"v1": lambda: b"me"})
        self.now = 100.0
        self.actions: list[Action] = []
        self.calls: list[CallKind] = []
        self.running: CallKind | None = None

    def step(self, event: Event) -> None:
        for action in self.machine.step(self.now, event):
            self.actions.append(action)
            if isinstance(action, Call):
                assert self.running is None, "two calls of the listener at once"
                self.running = action.kind
                self.calls.append(action.kind)

    def take(self, kind: type[Any]) -> Any:
        """The oldest action of a kind, or the oldest request of a kind, which is taken."""
        for action in self.actions:
            if isinstance(action, kind) or (isinstance(action, Send) and isinstance(action.request, kind)):
                self.actions.remove(action)
                return action
        raise AssertionError(f"no {kind.__name__} in {self.actions}")

    def has(self, kind: type[Any]) -> bool:
        return any(isinstance(one, kind) or isinstance(getattr(one, "request", None), kind) for one in self.actions)

    def returned(self) -> None:
        self.running = None
        self.step(CallbackDone())

    def answer_join(self, generation: int = 1, *, leader: bool = True, code: ErrorCode = ErrorCode.NONE) -> None:
        members = [JoinGroupResponseMember(member_id="m1", metadata=b"me")] if leader else []
        response = JoinGroupResponse(
            error_code=code,
            generation_id=generation,
            protocol_name="v1",
            leader="m1" if leader else "m0",
            member_id="m1",
            members=members,
        )
        self.step(Answered(self.take(JoinGroupRequest).ticket, response))

    def answer_sync(self, code: ErrorCode = ErrorCode.NONE) -> None:
        self.step(Answered(self.take(SyncGroupRequest).ticket, SyncGroupResponse(error_code=code, assignment=b"work")))

    def answer_heartbeat(self, code: ErrorCode = ErrorCode.NONE) -> None:
        self.step(Answered(self.take(HeartbeatRequest).ticket, HeartbeatResponse(error_code=code)))

    def computed(self) -> None:
        self.step(Computed(self.take(Compute).ticket, {"m1": b"work"}))

    def later(self, seconds: float) -> None:
        self.now += seconds
        self.step(Tick())

    def stable(self) -> None:
        self.step(Started())
        self.answer_join()
        self.computed()
        self.answer_sync()
        self.returned()
        assert self.machine.state is GroupMemberState.STABLE


@pytest.fixture
def driver() -> Driver:
    return Driver()


def test_the_way_into_the_group(driver: Driver) -> None:
    driver.stable()
    assert driver.calls == [CallKind.ASSIGNED]
    assert driver.machine.assignment is not None
    assert driver.machine.assignment.assignment == b"work"
    assert driver.machine.is_valid(driver.now)


def test_the_id_of_the_first_answer_is_used(driver: Driver) -> None:
    driver.step(Started())
    driver.answer_join(code=ErrorCode.MEMBER_ID_REQUIRED)
    assert driver.take(JoinGroupRequest).request.member_id == "m1"


def test_without_an_answer_within_the_session_the_work_is_lost(driver: Driver) -> None:
    driver.stable()
    driver.later(3.0)
    driver.step(RequestFailed(driver.take(HeartbeatRequest).ticket, BrokerUnavailable("gone")))
    assert driver.has(CoordinatorGone)
    driver.later(6.9)
    assert driver.machine.is_valid(driver.now)
    driver.now += 0.1
    assert not driver.machine.is_valid(driver.now)  # also before the machine has noticed
    driver.step(Tick())
    assert driver.calls[-1] is CallKind.LOST
    assert driver.machine.generation == -1


def test_a_late_answer_does_not_revive_a_membership(driver: Driver) -> None:
    """The process was stopped after it had sent a heartbeat, and wakes up with the answer in its buffer."""
    driver.stable()
    driver.later(3.0)
    driver.now += 20.0
    driver.answer_heartbeat()
    assert driver.calls[-1] is CallKind.LOST


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_removed_member_loses_its_work_and_joins_again(driver: Driver, code: ErrorCode) -> None:
    driver.stable()
    driver.later(3.0)
    driver.answer_heartbeat(code)
    assert driver.calls[-1] is CallKind.LOST
    assert not driver.has(JoinGroupRequest)  # not before the listener has stopped the work
    driver.returned()
    assert driver.machine.assignment is None
    assert driver.take(JoinGroupRequest).request.member_id == ("" if code is ErrorCode.UNKNOWN_MEMBER_ID else "m1")


def test_a_member_that_is_removed_during_a_call_is_told_after_it(driver: Driver) -> None:
    driver.step(Started())
    driver.answer_join()
    driver.computed()
    driver.answer_sync()
    assert driver.running is CallKind.ASSIGNED
    driver.later(3.0)
    driver.answer_heartbeat(ErrorCode.UNKNOWN_MEMBER_ID)
    assert not driver.machine.is_valid(driver.now)
    assert driver.calls == [CallKind.ASSIGNED]
    driver.returned()
    assert driver.calls == [CallKind.ASSIGNED, CallKind.LOST]


def test_a_rebalance_waits_for_the_listener_and_heartbeats_go_on(driver: Driver) -> None:
    driver.stable()
    driver.later(3.0)
    driver.answer_heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert driver.running is CallKind.REVOKED
    for _ in range(10):
        driver.later(3.0)
        driver.answer_heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert not driver.has(JoinGroupRequest)
    assert driver.machine.is_valid(driver.now)
    driver.returned()
    driver.answer_join(2)
    driver.computed()
    driver.answer_sync()
    assert driver.machine.assignment is not None
    assert driver.machine.assignment.generation == 2


def test_work_goes_on_while_a_join_waits_for_other_members(driver: Driver) -> None:
    driver.stable()
    driver.step(RejoinRequested("a test"))
    driver.returned()
    driver.later(50.0)
    assert driver.machine.is_valid(driver.now)
    driver.later(21.0)
    assert not driver.machine.is_valid(driver.now)
    assert driver.calls[-1] is CallKind.LOST


def test_a_leader_whose_function_fails_joins_again(driver: Driver) -> None:
    driver.step(Started())
    driver.answer_join()
    driver.step(ComputeFailed(driver.take(Compute).ticket))
    assert not driver.has(JoinGroupRequest)
    driver.later(0.1)
    driver.answer_join(2)
    driver.computed()
    driver.answer_sync()
    assert driver.calls == [CallKind.ASSIGNED]


def test_assignments_of_an_older_generation_are_ignored(driver: Driver) -> None:
    driver.step(Started())
    driver.answer_join()
    old = driver.take(Compute)
    driver.later(3.0)
    driver.answer_heartbeat(ErrorCode.ILLEGAL_GENERATION)
    driver.later(0.1)
    driver.answer_join(2)
    driver.step(Computed(old.ticket, {"m1": b"old"}))
    assert not driver.has(SyncGroupRequest)


def test_an_error_that_no_retry_solves_ends_the_membership(driver: Driver) -> None:
    driver.stable()
    driver.later(3.0)
    error = ClusterAuthorizationFailed("no")
    driver.step(RequestFailed(driver.take(HeartbeatRequest).ticket, error))
    assert driver.machine.failure is error
    assert driver.calls[-1] is CallKind.LOST
    driver.returned()
    assert driver.machine.wake_at is None
    assert driver.running is None


def test_leaving_revokes_first(driver: Driver) -> None:
    driver.stable()
    driver.step(LeaveRequested())
    assert driver.running is CallKind.REVOKED
    assert not driver.has(LeaveGroupRequest)
    driver.returned()
    assert driver.has(LeaveGroupRequest)
    assert driver.machine.state is GroupMemberState.LEFT


@pytest.mark.parametrize("seed", range(300))
def test_in_any_order_of_events_calls_do_not_overlap_and_the_member_can_always_leave(seed: int) -> None:
    chance, driver = random.Random(seed), Driver()
    driver.step(Started())
    for _ in range(80):
        _random_step(chance, driver)
        machine = driver.machine
        assert not (machine.is_valid(driver.now) and machine.assignment is None)
        assert sum(isinstance(one, Send) for one in driver.actions) < 40
        if machine.state not in (GroupMemberState.LEFT, GroupMemberState.FAILED, GroupMemberState.NEW):
            # Something is under way, or there is a time at which the machine goes on by itself.
            assert machine.wake_at is not None or driver.running or driver.actions
    driver.step(LeaveRequested())
    for _ in range(10):
        if driver.running is not None:
            driver.returned()
    assert driver.machine.state in (GroupMemberState.LEFT, GroupMemberState.FAILED)


ANSWERS = {
    JoinGroupRequest: lambda code: JoinGroupResponse(
        error_code=code,
        generation_id=7,
        protocol_name="v1",
        leader="m1",
        member_id="m1",
        members=[JoinGroupResponseMember(member_id="m1", metadata=b"me")],
    ),
    SyncGroupRequest: lambda code: SyncGroupResponse(error_code=code, assignment=b"work"),
    HeartbeatRequest: lambda code: HeartbeatResponse(error_code=code),
    LeaveGroupRequest: lambda code: LeaveGroupResponse(error_code=code),
}
CODES = [
    *[ErrorCode.NONE] * 8,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
]


def _random_step(chance: random.Random, driver: Driver) -> None:
    driver.now += chance.choice([0.0, 0.05, 0.2, 3.0, 11.0])
    sent = [one for one in driver.actions if isinstance(one, Send)]
    wanted = [one for one in driver.actions if isinstance(one, Compute)]
    roll = chance.random()
    if roll < 0.15 and driver.running is not None:
        driver.returned()
    elif roll < 0.6 and sent:
        one = chance.choice(sent)
        driver.actions.remove(one)
        if chance.random() < 0.15:
            driver.step(RequestFailed(one.ticket, BrokerUnavailable("gone")))
        else:
            driver.step(Answered(one.ticket, ANSWERS[type(one.request)](chance.choice(CODES))))
    elif roll < 0.75 and wanted:
        compute = chance.choice(wanted)
        driver.actions.remove(compute)
        failed = chance.random() < 0.2
        driver.step(ComputeFailed(compute.ticket) if failed else Computed(compute.ticket, {"m1": b"work"}))
    elif roll < 0.8:
        driver.step(RejoinRequested("a test"))
    else:
        driver.step(Tick())
