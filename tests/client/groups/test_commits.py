"""Commits of group members: every kind of commit, refused commits, and the limits of automatic commits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moldau import Consumer, OffsetAndMetadata, TopicPartition
from moldau.client.errors import CommitFailed, MoldauError, OffsetMetadataTooLarge, TimedOut
from moldau.testing import Broker
from moldau.testing.faults import Faults
from tests.client.groups.members import PATIENCE_S, Member, drive, share

NewMember = Callable[..., Member]
Produce = Callable[..., None]
RECORDS = 20


def committed(settings: dict[str, Any], topic: str, partition: int = 0) -> int | None:
    """The group's committed offset, as another client reads it."""
    with Consumer(settings) as consumer:
        found = consumer.committed(TopicPartition(topic, partition))[TopicPartition(topic, partition)]
        return None if found is None else found.offset


@pytest.fixture
def records(topic: str, produce: Produce) -> str:
    """A topic with twenty records."""
    produce(topic, RECORDS)
    return topic


def test_the_next_member_continues_at_the_committed_offset(
    records: str, settings: dict[str, Any], new_member: NewMember
) -> None:
    member = new_member(records, enable_auto_commit=False)
    drive([member], lambda: len(member.records) == RECORDS)
    assert committed(settings, records) is None
    place = TopicPartition(records, 0)
    member.consumer.commit({place: OffsetAndMetadata(7, "half way")})
    assert member.consumer.committed(place) == {place: OffsetAndMetadata(7, "half way")}
    member.consumer.close()
    successor = new_member(records)
    drive([successor], lambda: successor.records)
    assert successor.records[0].offset == 7


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_records_positions_and_given_offsets_are_committed_now_or_later(
    records: str, settings: dict[str, Any], new_member: NewMember, protocol: str
) -> None:
    member = new_member(records, enable_auto_commit=False, group_protocol=protocol, max_poll_records=5)
    consumer, place = member.consumer, TopicPartition(records, 0)
    drive([member], lambda: member.records)
    consumer.commit(member.records[2])
    assert committed(settings, records) == 3
    consumer.commit()
    assert committed(settings, records) == 5
    told: list[tuple[Any, MoldauError | None]] = []
    consumer.commit_async({place: 4}, lambda offsets, error: told.append((offsets, error)))
    consumer.commit_async(member.records[0], lambda offsets, error: told.append((offsets, error)))
    drive([member], lambda: len(told) == 2)
    assert told == [({place: OffsetAndMetadata(4)}, None), ({place: told[1][0][place]}, None)]
    assert committed(settings, records) == 1


@pytest.mark.parametrize("taken", [1, 7, RECORDS])
def test_automatic_commits_stop_at_the_last_record_that_was_yielded(
    records: str, settings: dict[str, Any], taken: int
) -> None:
    with Consumer(records, settings) as consumer:
        for _, record in zip(range(taken), consumer, strict=False):
            assert record.offset < taken
    # All twenty records are in one batch, which the iterator already holds.
    assert committed(settings, records) == taken


def test_automatic_commits_happen_while_polling(records: str, settings: dict[str, Any], new_member: NewMember) -> None:
    member = new_member(records, auto_commit_interval_ms=50, max_poll_records=5)
    drive([member], lambda: committed(settings, records) == RECORDS)


def test_read_records_are_committed_before_partitions_are_revoked(
    new_topic: Callable[..., str], produce: Produce, settings: dict[str, Any], new_member: NewMember
) -> None:
    topic = new_topic(2)
    produce(topic, RECORDS, partitions=2)
    first = new_member(topic, auto_commit_interval_ms=3_600_000)
    drive([first], lambda: len(first.records) == 2 * RECORDS)
    second = new_member(topic)
    share([first, second], 1, 1)
    assert [committed(settings, topic, index) for index in range(2)] == [RECORDS, RECORDS]
    second.poll()
    assert second.records == []


def test_close_commits_and_leaves_at_once(records: str, settings: dict[str, Any], new_member: NewMember) -> None:
    patient = {"session.timeout.ms": 300_000}
    member = new_member(records, auto_commit_interval_ms=3_600_000, **patient)
    drive([member], lambda: len(member.records) == RECORDS)
    member.consumer.close()
    assert committed(settings, records) == RECORDS
    share([new_member(records, **patient)], 1)  # without waiting for a session time-out


def test_a_consumer_that_chose_its_partitions_commits_without_being_a_member(
    records: str, settings: dict[str, Any]
) -> None:
    with Consumer(settings | {"enable.auto.commit": False}) as consumer:
        consumer.assign([(records, 0)])
        read = consumer.poll(PATIENCE_S)
        consumer.commit(read[4])
    assert committed(settings, records) == 5


def test_a_removed_member_cannot_commit(moldau_own_broker: Broker) -> None:
    moldau_own_broker.create_topic("t", partitions=1)
    settings = {
        "bootstrap.servers": moldau_own_broker.bootstrap_servers,
        "group.id": "g",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "heartbeat.interval.ms": 30_000,  # no event tells this member that it was removed
    }
    with Consumer(settings) as consumer:
        member = Member(consumer)
        consumer.subscribe(["t"], listener=member)
        share([member], 1)
        moldau_own_broker.advance(minutes=10)
        with pytest.raises(CommitFailed, match=r"max\.poll\.interval\.ms"):
            consumer.commit({TopicPartition("t", 0): 1})
        told: list[MoldauError | None] = []
        consumer.commit_async({TopicPartition("t", 0): 1}, lambda offsets, error: told.append(error))
        drive([member], lambda: told)
        assert isinstance(told[0], CommitFailed)
        assert committed(settings, "t") is None


@pytest.mark.parametrize(
    "inject_fault",
    [
        lambda faults: faults.fail_next("OffsetCommit", "NOT_COORDINATOR", times=2),
        lambda faults: faults.fail_next("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", times=2),
        lambda faults: faults.drop_next("OffsetCommit"),
        lambda faults: faults.drop_next("OffsetCommit", applied=True),
        lambda faults: faults.fail_next("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", times=2),
    ],
    ids=["coordinator-moved", "coordinator-loads", "connection-lost", "answer-lost", "coordinator-unknown"],
)
def test_commits_succeed_after_the_loss_of_the_coordinator(
    moldau_bootstrap: str, moldau_topic: str, moldau_faults: Faults, inject_fault: Callable[[Faults], Any]
) -> None:
    settings = {"bootstrap.servers": moldau_bootstrap, "group.id": moldau_topic, "retry.backoff.ms": 10}
    # The fault begins first, because a consumer may look for its coordinator before its first commit.
    with inject_fault(moldau_faults) as fault, Consumer(settings | {"enable.auto.commit": False}) as consumer:
        consumer.assign([(moldau_topic, 0)])
        consumer.commit({TopicPartition(moldau_topic, 0): 3})
        assert fault.struck
    assert committed(settings, moldau_topic) == 3


def test_a_commit_without_a_coordinator_fails_in_time_and_the_next_may_succeed(
    moldau_bootstrap: str, moldau_topic: str, moldau_faults: Faults
) -> None:
    settings = {"bootstrap.servers": moldau_bootstrap, "group.id": moldau_topic, "enable.auto.commit": False}
    with Consumer(settings) as consumer:
        consumer.assign([(moldau_topic, 0)])
        with (
            moldau_faults.fail_next("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", times=None),
            pytest.raises(TimedOut),
        ):
            consumer.commit({TopicPartition(moldau_topic, 0): 3}, timeout=0.3)
        consumer.commit({TopicPartition(moldau_topic, 0): 4})
    assert committed(settings, moldau_topic) == 4


def test_a_commit_with_too_long_metadata_is_refused(records: str, settings: dict[str, Any]) -> None:
    with Consumer(settings) as consumer, pytest.raises(OffsetMetadataTooLarge):
        consumer.commit({TopicPartition(records, 0): OffsetAndMetadata(1, "x" * 5_000)})
