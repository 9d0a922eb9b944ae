"""Reactions of a member to error codes: for every code in every response it continues, or fails with an error."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.client.consumer.assignors import assignors_of
from moldau.client.consumer.assignors.consumer_protocol import encode_assignment
from moldau.client.consumer.membership import classic_protocol, consumer_protocol
from moldau.client.consumer.membership.events import (
    Action,
    Answered,
    CallbackDone,
    CallbackStarted,
    CoordinatorGone,
    LeaveRequested,
    MemberConfig,
    MetadataChanged,
    PollCalled,
    RequestFailed,
    Send,
    Subscribed,
    Tick,
    TopicInfo,
)
from moldau.client.consumer.membership.machine import MemberStateMachine
from moldau.client.data_types import TopicPartition
from moldau.client.errors import BrokerUnavailable, GroupAuthorizationFailed, TimedOut, UnsupportedByBroker
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from moldau.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.wire.messages.leave_group import LeaveGroupRequest
from moldau.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

E = ErrorCode
TOPIC_ID = b"t" * 16
KNOWN = {"t": TopicInfo(TOPIC_ID, 2)}
BOTH = (TopicPartition("t", 0), TopicPartition("t", 1))
CONFIG = MemberConfig("g", session_timeout_s=10, heartbeat_interval_s=3, max_poll_interval_s=30, request_timeout_s=5)


class Driver:
    """A state machine, the time, and the last request that it sent."""

    def __init__(self, machine: MemberStateMachine) -> None:
        self.machine = machine
        self.now = 1_000.0
        self.sent: list[Send] = []
        self.actions: list[Action] = []
        self.feed(MetadataChanged(KNOWN))
        self.feed(Subscribed(("t",)))

    def feed(self, event: Any) -> None:
        self.actions = self.machine.step(self.now, event)
        self.sent += [one for one in self.actions if isinstance(one, Send)]

    @property
    def last(self) -> Any:
        return self.sent[-1].request

    def answer(self, response: Any) -> None:
        self.feed(Answered(self.sent[-1].ticket, response))

    def hear(self) -> str:
        assert self.machine.due is not None
        kind = self.machine.due.kind
        self.feed(CallbackStarted())
        self.feed(CallbackDone())
        return kind

    def wait(self) -> None:
        """Advance the time to the next timer; nothing else happens."""
        assert self.machine.wake_at is not None
        self.now = max(self.now, self.machine.wake_at)
        self.feed(Tick())


def joining(instance: str | None = None) -> Driver:
    strategy = "cooperative-sticky"
    driver = Driver(classic_protocol.ClassicMachine(CONFIG._replace(instance_id=instance), assignors_of(strategy)))
    driver.feed(PollCalled())
    assert isinstance(driver.last, JoinGroupRequest)
    return driver


def syncing(instance: str | None = None) -> Driver:
    driver = joining(instance)
    driver.answer(
        JoinGroupResponse(generation_id=1, protocol_name="cooperative-sticky", leader="other", member_id="me")
    )
    assert isinstance(driver.last, SyncGroupRequest)
    return driver


def stable(instance: str | None = None) -> Driver:
    driver = syncing(instance)
    driver.answer(SyncGroupResponse(assignment=encode_assignment(BOTH)))
    assert driver.hear() == "assigned"
    assert driver.machine.settled and driver.machine.owned == BOTH
    return driver


def beating(instance: str | None = None) -> Driver:
    driver = stable(instance)
    driver.wait()
    assert isinstance(driver.last, HeartbeatRequest)
    return driver


def member(instance: str | None = None) -> Driver:
    """A member of the consumer protocol with both partitions, and a heartbeat in flight."""
    driver = Driver(consumer_protocol.ConsumerMachine(CONFIG._replace(instance_id=instance), "me"))
    driver.feed(PollCalled())
    given = ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=TOPIC_ID, partitions=[0, 1])
    driver.answer(
        ConsumerGroupHeartbeatResponse(
            member_id="me",
            member_epoch=1,
            heartbeat_interval_ms=3_000,
            assignment=ConsumerGroupHeartbeatResponseAssignment(topic_partitions=[given]),
        )
    )
    assert driver.hear() == "assigned"
    assert driver.last.topic_partitions[0].partitions == [0, 1]
    return driver


ANSWERS = {
    joining: JoinGroupResponse,
    syncing: SyncGroupResponse,
    beating: HeartbeatResponse,
    member: ConsumerGroupHeartbeatResponse,
}


@pytest.mark.parametrize("place", ANSWERS, ids=lambda place: place.__name__)
@pytest.mark.parametrize(
    "code", [code for code in E if code not in (E.NONE, E.MEMBER_ID_REQUIRED)], ids=lambda c: c.name
)
def test_after_any_error_a_member_continues_or_fails_but_never_stalls(place: Any, code: ErrorCode) -> None:
    driver = place()
    before = len(driver.sent)
    driver.answer(ANSWERS[place](error_code=code))
    if driver.machine.failure is not None:
        assert code.name in str(driver.machine.failure) and "'g'" in str(driver.machine.failure)
        assert not code.retriable
    for _ in range(4):
        if driver.machine.due is not None:
            driver.hear()
        if driver.machine.failure is None and len(driver.sent) == before:
            driver.wait()
    assert (len(driver.sent) > before) != (driver.machine.failure is not None)
    if driver.machine.failure is not None:
        assert driver.machine.owned == () and driver.machine.wake_at is None


@pytest.mark.parametrize("place", [joining, syncing, beating, member], ids=lambda place: place.__name__)
@pytest.mark.parametrize("code", [E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE])
def test_after_not_coordinator_the_coordinator_is_looked_up_again(place: Any, code: ErrorCode) -> None:
    driver = place()
    driver.answer(ANSWERS[place](error_code=code))
    assert CoordinatorGone() in driver.actions
    assert driver.machine.owned == (BOTH if place in (beating, member) else ())


@pytest.mark.parametrize("place", [joining, syncing, beating, member], ids=lambda place: place.__name__)
@pytest.mark.parametrize("error", [TimedOut("late"), BrokerUnavailable("cut")], ids=["late", "cut"])
def test_a_missing_answer_costs_no_partition(place: Any, error: Any) -> None:
    driver = place()
    before = driver.machine.owned
    driver.feed(RequestFailed(driver.sent[-1].ticket, error))
    driver.wait()
    assert driver.machine.owned == before and driver.machine.failure is None
    assert driver.machine.due is None


@pytest.mark.parametrize("place", [joining, syncing, beating, member], ids=lambda place: place.__name__)
def test_fatal_errors_are_raised(place: Any) -> None:
    driver = place()
    error = UnsupportedByBroker("too old")
    driver.feed(RequestFailed(driver.sent[-1].ticket, error))
    assert driver.machine.failure is error


def test_duplicate_and_late_answers_are_ignored() -> None:
    driver = beating()
    ticket = driver.sent[-1].ticket
    driver.feed(Answered(ticket, HeartbeatResponse()))
    driver.feed(Answered(ticket, HeartbeatResponse(error_code=E.UNKNOWN_MEMBER_ID)))
    assert driver.machine.settled


def test_an_assigned_member_id_is_used_at_once() -> None:
    driver = joining()
    driver.answer(JoinGroupResponse(error_code=E.MEMBER_ID_REQUIRED, member_id="me-1"))
    assert isinstance(driver.last, JoinGroupRequest) and driver.last.member_id == "me-1"


@pytest.mark.parametrize(("code", "member_id"), [(E.UNKNOWN_MEMBER_ID, ""), (E.ILLEGAL_GENERATION, "me")])
def test_a_removed_member_loses_its_partitions_before_it_joins_again(code: ErrorCode, member_id: str) -> None:
    driver = beating()
    driver.answer(HeartbeatResponse(error_code=code))
    assert driver.machine.generation == -1
    assert isinstance(driver.last, HeartbeatRequest)
    assert driver.hear() == "lost"
    assert isinstance(driver.last, JoinGroupRequest) and driver.last.member_id == member_id


def test_a_cooperative_member_continues_to_read_during_a_rebalance() -> None:
    driver = beating()
    driver.answer(HeartbeatResponse(error_code=E.REBALANCE_IN_PROGRESS))
    assert isinstance(driver.last, JoinGroupRequest)
    assert driver.machine.owned == BOTH and driver.machine.due is None


def test_partitions_to_revoke_may_be_lost_before_the_callback() -> None:
    driver = member()
    given = ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=TOPIC_ID, partitions=[0])
    driver.answer(
        ConsumerGroupHeartbeatResponse(
            member_epoch=1,
            heartbeat_interval_ms=3_000,
            assignment=ConsumerGroupHeartbeatResponseAssignment(topic_partitions=[given]),
        )
    )
    assert driver.machine.due == ("revoked", (BOTH[1],))
    driver.wait()
    driver.answer(ConsumerGroupHeartbeatResponse(error_code=E.FENCED_MEMBER_EPOCH))
    assert driver.machine.due == ("lost", BOTH)
    driver.hear()
    assert driver.last.member_epoch == 0 and driver.last.topic_partitions == []


def test_a_loss_during_a_callback_is_reported_after_it() -> None:
    driver = syncing()
    driver.answer(SyncGroupResponse(assignment=encode_assignment(BOTH)))
    driver.feed(CallbackStarted())
    driver.wait()
    driver.answer(HeartbeatResponse(error_code=E.UNKNOWN_MEMBER_ID))
    assert driver.machine.due == ("assigned", BOTH)
    driver.feed(CallbackDone())
    assert driver.machine.due == ("lost", BOTH)


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("one", -2)])
def test_a_member_of_the_new_protocol_leaves_permanently_or_as_a_static_member(
    instance: str | None, epoch: int
) -> None:
    driver = member(instance)
    driver.feed(LeaveRequested())
    assert isinstance(driver.last, ConsumerGroupHeartbeatRequest) and driver.last.member_epoch == epoch


@pytest.mark.parametrize(("instance", "leaves"), [(None, True), ("one", False)])
def test_a_classic_member_sends_leave_group_unless_it_is_static(instance: str | None, leaves: bool) -> None:
    driver = stable(instance)
    driver.feed(LeaveRequested())
    assert isinstance(driver.last, LeaveGroupRequest) == leaves
    assert driver.machine.wake_at is None


@pytest.mark.parametrize("make", [stable, member], ids=lambda make: make.__name__)
def test_a_member_whose_application_does_not_poll_leaves_and_rejoins_at_the_next_poll(make: Any) -> None:
    driver = make()
    driver.now += CONFIG.max_poll_interval_s
    driver.feed(Tick())
    assert isinstance(driver.last, LeaveGroupRequest | ConsumerGroupHeartbeatRequest)
    assert driver.machine.generation == -1 and driver.machine.wake_at is None
    driver.feed(PollCalled())
    assert driver.hear() == "lost"
    assert isinstance(driver.last, JoinGroupRequest) or driver.last.member_epoch == 0


def test_a_static_member_of_the_new_protocol_waits_a_bounded_time_for_its_instance_id() -> None:
    driver = Driver(consumer_protocol.ConsumerMachine(CONFIG._replace(instance_id="one"), "me"))
    driver.feed(PollCalled())
    for _ in range(1_000):
        if driver.machine.failure is not None:
            break
        driver.feed(PollCalled())
        driver.answer(ConsumerGroupHeartbeatResponse(error_code=E.UNRELEASED_INSTANCE_ID))
        if driver.machine.failure is None:
            driver.wait()
    assert "UNRELEASED_INSTANCE_ID" in str(driver.machine.failure)
    assert driver.now >= 1_000 + consumer_protocol.UNRELEASED_TIMEOUT_S


def test_group_errors_have_the_public_class() -> None:
    driver = joining()
    driver.answer(JoinGroupResponse(error_code=E.GROUP_AUTHORIZATION_FAILED))
    assert isinstance(driver.machine.failure, GroupAuthorizationFailed)


def test_only_changed_fields_are_sent_to_a_coordinator_that_answers() -> None:
    driver = member()
    driver.answer(ConsumerGroupHeartbeatResponse(member_epoch=1, heartbeat_interval_ms=3_000))
    driver.wait()
    assert driver.last.subscribed_topic_names is None and driver.last.topic_partitions is None
    assert driver.last.rebalance_timeout_ms == -1
    driver.feed(RequestFailed(driver.sent[-1].ticket, TimedOut("late")))
    driver.wait()
    assert driver.last.subscribed_topic_names == ["t"] and driver.last.topic_partitions[0].partitions == [0, 1]
    driver.answer(ConsumerGroupHeartbeatResponse(member_epoch=1, heartbeat_interval_ms=3_000))
    driver.feed(Subscribed((), "t.*"))
    assert driver.last.subscribed_topic_names == [] and driver.last.subscribed_topic_regex == "t.*"
    driver.answer(ConsumerGroupHeartbeatResponse(member_epoch=1, heartbeat_interval_ms=3_000))
    driver.feed(Subscribed(("t",)))
    assert driver.last.subscribed_topic_names == ["t"] and driver.last.subscribed_topic_regex == ""


def test_a_topic_that_was_created_again_is_another_one() -> None:
    driver = member()
    driver.answer(ConsumerGroupHeartbeatResponse(member_epoch=1, heartbeat_interval_ms=3_000))
    driver.feed(MetadataChanged({"t": TopicInfo(b"u" * 16, 1)}))
    driver.wait()
    given = ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=b"u" * 16, partitions=[0])
    driver.answer(
        ConsumerGroupHeartbeatResponse(
            member_epoch=2,
            heartbeat_interval_ms=3_000,
            assignment=ConsumerGroupHeartbeatResponseAssignment(topic_partitions=[given]),
        )
    )
    assert driver.hear() == "revoked"
    assert driver.machine.due == ("assigned", (BOTH[0],))


def test_partitions_in_a_running_callback_are_not_given_up() -> None:
    driver = Driver(consumer_protocol.ConsumerMachine(CONFIG, "me"))
    driver.feed(PollCalled())
    given = ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=TOPIC_ID, partitions=[0, 1])
    driver.answer(
        ConsumerGroupHeartbeatResponse(
            member_epoch=1,
            heartbeat_interval_ms=3_000,
            assignment=ConsumerGroupHeartbeatResponseAssignment(topic_partitions=[given]),
        )
    )
    driver.feed(CallbackStarted())
    assert driver.last.topic_partitions[0].partitions == [0, 1]
    driver.answer(
        ConsumerGroupHeartbeatResponse(
            member_epoch=1, heartbeat_interval_ms=3_000, assignment=ConsumerGroupHeartbeatResponseAssignment()
        )
    )
    driver.wait()
    assert driver.last.topic_partitions is None  # it still owns the partitions that it reported
    driver.answer(ConsumerGroupHeartbeatResponse(member_epoch=1, heartbeat_interval_ms=3_000))
    driver.feed(CallbackDone())
    assert driver.hear() == "revoked"
    assert driver.last.topic_partitions == []
