"""Positions: seek, pause, resets, and offset look-ups."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau import Consumer, TopicPartition
from moldau.client.errors import IllegalStateError, OffsetOutOfRange, UnknownTopicOrPartition
from moldau.wire.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from tests.client.consumer.reading import poll, poll_until, take, values
from tests.compat import wire
from tests.support.raw import RawConnection

Consumers = Callable[..., Consumer]
Write = Callable[..., int]
HOUR_MS = 3_600_000


@pytest.fixture
def tens(write: Write, topic: str) -> TopicPartition:
    """A partition with ten records, in batches of five."""
    for start in (0, 5):
        write(topic, [b"%d" % (start + i) for i in range(5)])
    return TopicPartition(topic, 0)


def assigned(consumer: Consumers, partition: TopicPartition, **settings: object) -> Consumer:
    one = consumer(**settings)
    one.assign([partition])
    return one


def delete_before(raw: RawConnection, partition: TopicPartition, offset: int) -> None:
    part = DeleteRecordsRequestPartition(partition_index=partition.partition, offset=offset)
    topic = DeleteRecordsRequestTopic(name=partition.topic, partitions=[part])
    answer = wire.ask(raw, DeleteRecordsRequest(topics=[topic], timeout_ms=10_000))
    assert not answer.topics[0].partitions[0].error_code


def test_seek_accepts_any_offset(consumer: Consumers, tens: TopicPartition) -> None:
    one = assigned(consumer, tens)
    for offset in (7, 0, 4):
        one.seek(tens, offset)
        assert one.position(tens) == offset
        assert take(one, 1)[0].offset == offset
        assert one.position(tens) == offset + 1


def test_a_seek_during_an_iteration_takes_effect_at_the_next_record(consumer: Consumers, tens: TopicPartition) -> None:
    one = assigned(consumer, tens)
    seen = []
    for record in one:
        seen.append(record.offset)
        if record.offset == 2:
            one.seek(tens, 8)
        if record.offset == 9:
            break
    assert seen == [0, 1, 2, 8, 9]


def test_a_poll_during_an_iteration_continues_at_its_position(consumer: Consumers, tens: TopicPartition) -> None:
    one = assigned(consumer, tens, max_poll_records=2)
    records = iter(one)
    assert [next(records).offset for _ in range(3)] == [0, 1, 2]
    assert [record.offset for record in poll(one, 2)] == [3, 4]
    assert [next(records).offset for _ in range(5)] == [5, 6, 7, 8, 9]


def test_seek_to_the_beginning_and_to_the_end(consumer: Consumers, tens: TopicPartition, write: Write) -> None:
    one = assigned(consumer, tens)
    one.seek_to_end()
    assert one.position(tens) == 10
    write(tens.topic, [b"ten"])
    assert values(take(one, 1)) == [b"ten"]
    one.seek_to_beginning(tens)
    assert values(take(one, 2)) == [b"0", b"1"]


def test_a_paused_partition_returns_nothing_and_loses_nothing(
    consumer: Consumers, write: Write, new_topic: Callable[..., str]
) -> None:
    name = new_topic(partitions=2)
    for partition in range(2):
        write(name, [b"%d" % i for i in range(20)], partition=partition)
    one = consumer(name)
    first = take(one, 5)
    still, other = (TopicPartition(name, first[-1].partition), TopicPartition(name, 1 - first[-1].partition))
    one.pause(still)
    assert one.paused() == {still}
    while one.position(other) < 20:
        assert {record.partition for record in poll(one, 1)} == {other.partition}
    one.resume(still)
    had = sum(record.partition == still.partition for record in first)
    assert [record.offset for record in take(one, 20 - had)] == list(range(had, 20))


@pytest.mark.parametrize(("policy", "first"), [("earliest", 4), ("latest", 10), (f"by_duration:PT{24}H", 4)])
def test_a_position_that_was_deleted_is_reset(
    consumer: Consumers, tens: TopicPartition, raw: RawConnection, write: Write, policy: str, first: int
) -> None:
    delete_before(raw, tens, 4)
    one = assigned(consumer, tens, auto_offset_reset=policy)
    one.seek(tens, 2)
    poll_until(one, lambda: one.position(tens) != 2) if policy == "latest" else None
    write(tens.topic, [b"ten"])
    assert take(one, 1)[0].offset == first


def test_with_auto_offset_reset_none_a_deleted_position_is_an_error_until_a_seek(
    consumer: Consumers, tens: TopicPartition, raw: RawConnection
) -> None:
    delete_before(raw, tens, 4)
    one = assigned(consumer, tens, auto_offset_reset="none")
    one.seek(tens, 2)
    for _ in range(2):
        with pytest.raises(OffsetOutOfRange, match=r"offset 2 of .*auto.offset.reset is none"):
            poll(one, 1)
    one.seek(tens, 5)
    assert take(one, 1)[0].offset == 5


def test_a_position_beyond_the_end_is_reset_too(consumer: Consumers, tens: TopicPartition) -> None:
    one = assigned(consumer, tens)
    one.seek(tens, 1_000)
    assert take(one, 1)[0].offset == 0


def test_with_auto_offset_reset_none_a_missing_offset_is_an_error(consumer: Consumers, tens: TopicPartition) -> None:
    one = assigned(consumer, tens, auto_offset_reset="none")
    with pytest.raises(OffsetOutOfRange, match=r"auto\.offset\.reset is none"):
        poll(one, 1)
    one.seek(tens, 0)
    assert len(take(one, 10)) == 10


def test_by_duration_begins_with_the_first_record_that_is_new_enough(
    consumer: Consumers, write: Write, topic: str
) -> None:
    now = wire.now_ms()
    for age_hours in (3, 2, 1):
        write(topic, [b"%d" % age_hours], timestamps=[now - age_hours * HOUR_MS])
    assert values(take(consumer(topic, auto_offset_reset="by_duration:PT2H30M"), 2)) == [b"2", b"1"]


def test_offsets_are_found_by_time(consumer: Consumers, write: Write, topic: str) -> None:
    write(topic, [b"a", b"b", b"c"], timestamps=[1_000, 2_000, 3_000])
    here = TopicPartition(topic, 0)
    one = consumer()
    found = one.offsets_for_times({here: 1_500})
    assert found[here] is not None and (found[here].offset, found[here].timestamp) == (1, 2_000)
    assert one.offsets_for_times({here: 5_000}) == {here: None}


def test_end_offsets_and_lag_are_reported(consumer: Consumers, tens: TopicPartition, raw: RawConnection) -> None:
    delete_before(raw, tens, 4)
    one = assigned(consumer, tens)
    assert one.beginning_offsets() == {tens: 4}
    assert one.end_offsets(tens) == {tens: 10}
    assert take(one, 2)[0].offset == 4
    assert one.lag() == {tens: 4}


def test_look_ups_of_missing_partitions_end_in_time(consumer: Consumers, unused_name: Callable[[], str]) -> None:
    one = consumer(allow_auto_create_topics=False)
    name = unused_name()
    assert one.partitions_for(name) == []
    with pytest.raises(UnknownTopicOrPartition, match=name):
        one.end_offsets((name, 0), timeout=0.5)
    with pytest.raises(IllegalStateError, match="not assigned"):
        one.position((name, 0))
    with pytest.raises(IllegalStateError, match=r"subscribe\(\) or assign\(\)"):
        one.poll()


def test_topics_and_partitions_are_listed(consumer: Consumers, new_topic: Callable[..., str]) -> None:
    name = new_topic(partitions=3)
    one = consumer()
    assert [partition.index for partition in one.partitions_for(name)] == [0, 1, 2]
    assert len(one.list_topics()[name]) == 3


def test_the_assignment_can_be_changed(consumer: Consumers, write: Write, new_topic: Callable[..., str]) -> None:
    name = new_topic(partitions=2)
    for partition in range(2):
        write(name, [b"%d-%d" % (partition, i) for i in range(3)], partition=partition)
    one = consumer()
    one.assign([(name, 0)])
    assert values(take(one, 2)) == [b"0-0", b"0-1"]
    one.assign([(name, 0), (name, 1)])
    assert sorted(values(take(one, 4))) == [b"0-2", b"1-0", b"1-1", b"1-2"]
    one.unsubscribe()
    assert one.assignment() == frozenset()
    one.subscribe(name)
    assert len(take(one, 6)) == 6
