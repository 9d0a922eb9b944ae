"""Assignment of partitions to group members that join, leave and die, also with other client libraries."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from moldau import Admin, Consumer, NewTopic, TopicPartition
from moldau.client.consumer.assignors import Assignor, MemberSubscription
from moldau.client.errors import (
    CommitFailed,
    FencedInstanceId,
    IllegalStateError,
    InconsistentGroupProtocol,
    InvalidSessionTimeout,
)
from moldau.testing import Broker
from tests.client.groups.members import PATIENCE_S, ConfluentMember, KafkaPythonMember, Member, drive, share

NewMember = Callable[..., Member]
NewTopicName = Callable[..., str]

WORKER = Path(__file__).with_name("worker.py")

WAYS: list[dict[str, Any]] = [
    {"partition.assignment.strategy": "range"},
    {"partition.assignment.strategy": "cooperative-sticky"},
    {"group.protocol": "consumer"},
]
every_way = pytest.mark.parametrize("way", WAYS, ids=["eager", "cooperative", "new-protocol"])


@every_way
def test_two_members_get_five_of_ten_partitions_each_and_the_last_one_gets_all(
    new_topic: NewTopicName, new_member: NewMember, way: dict[str, Any]
) -> None:
    topic = new_topic(10)
    members = [new_member(topic, **way), new_member(topic, **way)]
    share(members, 5, 5)
    members.append(new_member(topic, **way))
    share(members, 3, 3, 4)
    members.pop(0).consumer.close()
    share(members, 5, 5)


def test_partitions_of_a_killed_member_go_to_the_others(
    new_topic: NewTopicName, new_member: NewMember, settings: dict[str, Any]
) -> None:
    topic = new_topic(4)
    member = new_member(topic)
    with worker(topic, settings) as process:
        drive([member], lambda: len(member.partitions) == 2, "the other member has half of the partitions")
        process.kill()
        process.wait(PATIENCE_S)
        share([member], 4)


def test_partitions_of_a_killed_member_of_the_new_protocol_go_to_the_others() -> None:
    with Broker({"group.consumer.heartbeat.interval.ms": 100}) as broker:
        broker.create_topic("t", partitions=4)
        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "g",
            "group.protocol": "consumer",
        }
        with Consumer(settings) as consumer, worker("t", settings) as process:
            member = Member(consumer)
            consumer.subscribe(["t"], listener=member)
            drive([member], lambda: len(member.partitions) == 2, "the other member has half of the partitions")
            process.kill()
            process.wait(PATIENCE_S)
            broker.advance(minutes=1)  # the clock passes the session time-out of both; the living member joins again
            share([member], 4)


@contextmanager
def worker(topic: str, settings: dict[str, Any]) -> Iterator[subprocess.Popen[bytes]]:
    """A member in a separate process, which polls until it is ended."""
    process = subprocess.Popen(
        [sys.executable, str(WORKER), topic, *(f"{name}={value}" for name, value in settings.items())]
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE_S)


# -- other client libraries --------------------------------------------------------------------------------------------

MAKES = {"confluent-kafka": ConfluentMember, "kafka-python": KafkaPythonMember}


@pytest.mark.parametrize(
    ("make", "strategy"),
    [
        ("confluent-kafka", "range"),
        ("confluent-kafka", "roundrobin"),
        ("confluent-kafka", "cooperative-sticky"),
        ("kafka-python", "range"),
        ("kafka-python", "roundrobin"),
        ("kafka-python", "sticky"),
        ("kafka-python", "cooperative-sticky"),
    ],
)
def test_members_of_another_library_share_with_ours_whichever_leads_the_group(
    new_topic: NewTopicName, new_member: NewMember, settings: dict[str, Any], make: str, strategy: str
) -> None:
    topic = new_topic(10)
    settings["partition.assignment.strategy"] = strategy
    ours = new_member(topic)
    share([ours], 10)
    other = MAKES[make](topic, settings)
    try:
        share([ours, other], 5, 5)
        ours.consumer.close()
        share([other], 10)
        ours = new_member(topic)
        share([ours, other], 5, 5)
    finally:
        other.close()


def test_a_member_of_another_library_shares_by_the_new_protocol(
    new_topic: NewTopicName, new_member: NewMember, settings: dict[str, Any]
) -> None:
    topic = new_topic(10)
    ours = new_member(topic, group_protocol="consumer")
    known = {name: settings[name] for name in ("bootstrap.servers", "group.id", "auto.offset.reset")}
    other = ConfluentMember(topic, known | {"group.protocol": "consumer"})
    try:
        share([ours, other], 5, 5)
    finally:
        other.close()
    share([ours], 10)


# -- static members ----------------------------------------------------------------------------------------------------


@every_way
def test_a_static_member_restarts_without_a_rebalance(
    new_topic: NewTopicName, new_member: NewMember, way: dict[str, Any]
) -> None:
    topic = new_topic(6)
    way = way | {"session.timeout.ms": 30_000}
    stays = new_member(topic, group_instance_id="stays", **way)
    goes = new_member(topic, group_instance_id="goes", **way)
    share([stays, goes], 3, 3)
    before, told = goes.partitions, stays.moves
    goes.consumer.close()
    comes = new_member(topic, group_instance_id="goes", **way)
    drive([stays, comes], lambda: comes.partitions)
    assert comes.partitions == before
    assert stays.moves == told


def test_of_two_members_with_one_instance_id_the_later_stays(new_topic: NewTopicName, new_member: NewMember) -> None:
    topic = new_topic(2)
    first = new_member(topic, group_instance_id="me")
    share([first], 2)
    second = new_member(topic, group_instance_id="me")

    def first_is_told() -> bool:
        second.poll()
        try:
            first.poll()
        except FencedInstanceId:
            return True
        return False

    drive([], first_is_told)
    share([second], 2)
    with pytest.raises(FencedInstanceId):
        first.poll()


# -- application behaviour ---------------------------------------------------------------------------------------------


@every_way
def test_a_listener_may_call_the_consumer_in_the_thread_that_polls(
    new_topic: NewTopicName, new_member: NewMember, produce: Callable[..., None], way: dict[str, Any]
) -> None:
    topic = new_topic(4)
    produce(topic, 5, partitions=4)
    member = new_member(topic, **way, enable_auto_commit=False)
    positions: dict[TopicPartition, int] = {}

    def during(kind: str, partitions: Any) -> None:
        if kind == "assigned":
            for one in partitions:
                positions[one] = member.consumer.position(one)
                member.consumer.seek(one, 3)
        else:
            member.consumer.commit({one: member.consumer.position(one) for one in partitions})

    member.during = during
    drive([member], lambda: len(member.records) == 8)
    assert positions == {TopicPartition(topic, index): 0 for index in range(4)}
    assert {record.offset for record in member.records} == {3, 4}
    other = new_member(topic, **way)
    share([member, other], 2, 2)
    gone = [TopicPartition(topic, index) for index in range(4) if index not in member.partitions]
    committed = member.consumer.committed(*gone)
    assert {one: found and found.offset for one, found in committed.items()} == dict.fromkeys(gone, 5)
    member.consumer.close()
    other.consumer.close()
    assert member.threads == {threading.get_ident()}
    assert member.heard[-1][0] == "revoked"


def test_an_application_that_does_not_poll_loses_its_partitions_and_gets_them_back(
    new_topic: NewTopicName, new_member: NewMember
) -> None:
    topic = new_topic(4)
    slow = new_member(topic, max_poll_interval_ms=700, enable_auto_commit=False)
    share([slow], 4)
    quick = new_member(topic)
    share([quick], 4)  # only one of them polls
    with pytest.raises(CommitFailed):
        slow.consumer.commit({TopicPartition(topic, 0): 1})
    share([slow, quick], 2, 2)
    assert ("lost", [0, 1, 2, 3]) in slow.heard


@every_way
def test_a_pattern_finds_topics_that_are_created_later(
    bootstrap: str, new_topic: NewTopicName, new_member: NewMember, unused_name: Callable[[], str], way: dict[str, Any]
) -> None:
    first = new_topic(2)
    prefix = first.rpartition(".")[0]
    member = new_member(pattern=f"{re.escape(prefix)}.*", **way)
    drive([member], lambda: {one.topic for one in member.reads} == {first})
    second = unused_name()
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(second, 3)])
    drive([member], lambda: len(member.reads) == 5)
    assert {one.topic for one in member.reads} == {first, second}


@every_way
def test_new_partitions_are_read(
    bootstrap: str, new_topic: NewTopicName, new_member: NewMember, way: dict[str, Any]
) -> None:
    topic = new_topic(2)
    members = [new_member(topic, **way), new_member(topic, **way)]
    share(members, 1, 1)
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_partitions({topic: 6})
    share(members, 3, 3)


def test_a_member_that_changes_its_subscription_reads_the_new_topic(
    new_topic: NewTopicName, new_member: NewMember
) -> None:
    first, second = new_topic(2), new_topic(3)
    member = new_member(first)
    share([member], 2)
    member.consumer.subscribe([second], listener=member)
    drive([member], lambda: {one.topic for one in member.reads} == {second})
    member.consumer.unsubscribe()
    assert member.reads == set()
    member.consumer.subscribe([first], listener=member)
    drive([member], lambda: {one.topic for one in member.reads} == {first})


class Alternating(Assignor):
    """An assignor that gives even partitions to one member and odd ones to the other."""

    name = "alternating"

    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, MemberSubscription]
    ) -> dict[str, list[TopicPartition]]:
        order = sorted(members)
        return {
            member: [
                TopicPartition(topic, index)
                for topic, count in partitions.items()
                for index in range(place, count, len(order))
            ]
            for place, member in enumerate(order)
        }


def test_a_custom_assignor_assigns_the_partitions(new_topic: NewTopicName, new_member: NewMember) -> None:
    topic = new_topic(4)
    members = [new_member(topic, partition_assignment_strategy=[Alternating]) for _ in range(2)]
    share(members, 2, 2)
    assert sorted(one.partitions for one in members) == [[0, 2], [1, 3]]


class Forgetful(Alternating):
    """An assignor that fails in its notification callback."""

    name = "forgetful"

    def on_assignment(self, partitions: Sequence[TopicPartition], generation: int) -> None:
        raise ZeroDivisionError("what was that?")


def test_the_error_of_an_assignor_is_raised_by_poll(new_topic: NewTopicName, new_member: NewMember) -> None:
    member = new_member(new_topic(1), partition_assignment_strategy=[Forgetful])
    with pytest.raises(IllegalStateError, match="what was that"):
        member.poll(PATIENCE_S)


def test_members_without_a_common_assignor_get_an_error(new_topic: NewTopicName, new_member: NewMember) -> None:
    topic = new_topic(1)
    share([new_member(topic, partition_assignment_strategy="range")], 1)
    with pytest.raises(InconsistentGroupProtocol, match=r"partition\.assignment\.strategy"):
        new_member(topic, partition_assignment_strategy="roundrobin").poll(PATIENCE_S)


def test_a_session_that_the_broker_does_not_allow_is_an_error(new_topic: NewTopicName, new_member: NewMember) -> None:
    with pytest.raises(InvalidSessionTimeout, match=r"session\.timeout\.ms"):
        new_member(new_topic(1), session_timeout_ms=2_000_000_000).poll(PATIENCE_S)
