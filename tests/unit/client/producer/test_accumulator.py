"""Accumulator in one thread, for the native and the reference implementation."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from moldau.client.data_types import RecordMetadata
from moldau.client.errors import TimedOut
from moldau.client.producer.accumulator import AppendRefusal
from moldau.client.producer.batch_split import split
from moldau.client.producer.partitioners import partition_of_key
from tests.unit.client.producer.twins import TOPIC, TWINS, Harness, Refused, records_of, values_of


@pytest.fixture(params=TWINS)
def make(request: pytest.FixtureRequest) -> Callable[..., Harness]:
    twin: ModuleType = request.param
    return lambda **options: Harness(twin, **options)


def test_a_record_is_stored_in_its_batch_unchanged(make: Callable[..., Harness]) -> None:
    harness = make()
    harness.send(b"value", b"key", timestamp=1234, headers=[("a", b"1"), ("b", None)])
    (batch,) = harness.drain()
    (record,) = records_of(batch)
    assert (record.key, record.value, record.timestamp) == (b"key", b"value", 1234)
    assert list(record.headers) == [("a", b"1"), ("b", None)]
    assert (batch.base_timestamp, batch.max_timestamp, batch.count) == (1234, 1234, 1)


@pytest.mark.parametrize("value", [None, b"", b"x", bytearray(b"x"), memoryview(b"x"), b"x" * 3000])
def test_values_may_be_anything_that_has_bytes(make: Callable[..., Harness], value: Any) -> None:
    harness = make()
    harness.send(value)
    assert values_of(harness.drain()) == [None if value is None else bytes(value)]


def test_batches_leave_in_the_order_in_which_they_were_filled(make: Callable[..., Harness]) -> None:
    harness = make(batch_size=300)
    for i in range(100):
        harness.send(b"%d" % i)
    batches = harness.drain()
    assert len(batches) > 3
    assert values_of(batches) == [b"%d" % i for i in range(100)]
    assert all(batch.size <= 300 for batch in batches)


def test_a_record_larger_than_a_batch_has_one_of_its_own_that_does_not_linger(make: Callable[..., Harness]) -> None:
    harness = make(batch_size=100, linger_s=60)
    harness.send(b"x" * 5000)
    (batch,) = harness.drain()
    assert batch.count == 1


def test_an_open_batch_is_taken_when_it_has_lingered(make: Callable[..., Harness]) -> None:
    harness = make(linger_s=5)
    harness.send(b"a")
    ready, next_due = harness.accumulator.collect(harness.now)
    assert (ready, next_due) == ([], 105.0)
    harness.now = 105.0
    assert values_of(harness.drain()) == [b"a"]


def test_a_batch_that_is_due_takes_records_until_it_is_sent(make: Callable[..., Harness]) -> None:
    harness = make(linger_s=5)
    harness.send(b"a")
    harness.now = 200.0
    (queue,), _ = harness.accumulator.collect(harness.now)
    harness.send(b"b")
    assert values_of([harness.accumulator.take(queue)]) == [b"a", b"b"]
    assert harness.accumulator.take(queue) is None


def test_a_batch_that_fills_up_after_collecting_is_sent_before_the_next_one(make: Callable[..., Harness]) -> None:
    harness = make(batch_size=200)
    harness.send(b"first")
    (queue,), _ = harness.accumulator.collect(harness.now)
    for i in range(20):
        harness.send(b"%d" % i)
    taken = []
    while (batch := harness.accumulator.take(queue)) is not None:
        taken.append(batch)
    taken += harness.drain()
    assert values_of(taken) == [b"first", *(b"%d" % i for i in range(20))]


def test_hurry_makes_all_lingering_batches_due(make: Callable[..., Harness]) -> None:
    harness = make(linger_s=60, partitions=3)
    for partition in range(3):
        harness.send(b"%d" % partition, partition=partition)
    assert harness.drain() == []
    assert sorted(values_of(harness.drain(even_if_not_due=True))) == [b"0", b"1", b"2"]


def test_the_loop_is_woken_once_until_it_has_looked(make: Callable[..., Harness]) -> None:
    harness = make(batch_size=200)
    for _ in range(50):
        harness.send(b"x" * 20)
    assert harness.woken == 1
    harness.drain()
    harness.send(b"y")
    assert harness.woken == 2


def test_while_a_timer_runs_only_a_full_batch_wakes_the_loop(make: Callable[..., Harness]) -> None:
    harness = make(linger_s=60, batch_size=500, partitions=2)
    harness.send(b"x", partition=0)
    harness.accumulator.collect(harness.now)
    harness.send(b"x", partition=0)
    harness.send(b"x", partition=1)
    assert harness.woken == 1
    harness.send(b"x" * 480, partition=0)
    assert harness.woken == 2


# -- partitions


def test_keys_choose_the_partitions_of_kafka(make: Callable[..., Harness]) -> None:
    harness = make(partitions=7)
    for i in range(50):
        harness.send(b"v", b"key-%d" % i)
    for batch in harness.drain():
        for record in records_of(batch):
            assert partition_of_key(record.key or b"", 7) == batch.queue.index


def test_keys_that_are_ignored_do_not_choose(make: Callable[..., Harness]) -> None:
    harness = make(partitions=7, ignore_keys=True)
    for i in range(50):
        harness.send(b"v", b"key-%d" % i)
    assert len({batch.queue.index for batch in harness.drain()}) == 1


def test_records_without_a_key_stay_together_until_a_batch_is_full(make: Callable[..., Harness]) -> None:
    harness = make(partitions=50, batch_size=1000)
    for i in range(2000):
        harness.send(b"%04d" % i * 10)
    batches = harness.drain(even_if_not_due=True)
    assert len({batch.queue.index for batch in batches}) > 20
    assert sum(batch.size <= 900 for batch in batches) <= 1  # the last record


def test_records_without_a_key_avoid_partitions_without_a_leader(make: Callable[..., Harness]) -> None:
    harness = make(partitions=10, batch_size=200)
    harness.accumulator.know_topic(TOPIC, 10, [3, 4])
    for _ in range(300):
        harness.send(b"x" * 50)
    assert {batch.queue.index for batch in harness.drain()} == {3, 4}


def test_a_topic_may_grow(make: Callable[..., Harness]) -> None:
    harness = make(partitions=1)
    with pytest.raises(Refused, match="UNKNOWN_PARTITION"):
        harness.send(b"x", partition=2)
    harness.accumulator.know_topic(TOPIC, 3, [0, 1, 2])
    harness.send(b"x", partition=2)
    assert [batch.queue.index for batch in harness.drain()] == [2]


# -- refusals


@pytest.mark.parametrize(
    ("refusal", "record"),
    [
        (AppendRefusal.UNKNOWN_PARTITION, {"partition": 1}),
        (AppendRefusal.UNKNOWN_PARTITION, {"partition": -1}),
        (AppendRefusal.UNKNOWN_PARTITION, {"partition": 2**70}),
        (AppendRefusal.BAD_TIMESTAMP, {"timestamp": -1}),
        (AppendRefusal.BAD_TIMESTAMP, {"timestamp": 2**63}),
        (AppendRefusal.NOT_BYTES, {"value": "text"}),
        (AppendRefusal.NOT_BYTES, {"key": 17}),
        (AppendRefusal.NOT_BYTES, {"headers": [("name", "text")]}),
        (AppendRefusal.NOT_BYTES, {"headers": [(b"name", b"x")]}),
        (AppendRefusal.NOT_BYTES, {"headers": [3]}),
        (AppendRefusal.TOO_LARGE, {"value": b"x" * (1 << 20)}),
        (AppendRefusal.WRONG_TYPE, {"partition": "0"}),
        (AppendRefusal.WRONG_TYPE, {"timestamp": 0.5}),
        (AppendRefusal.WRONG_TYPE, {"on_delivery": "print"}),
    ],
)
def test_a_refused_record_leaves_nothing_in_the_buffer(
    make: Callable[..., Harness], refusal: AppendRefusal, record: dict[str, Any]
) -> None:
    harness = make()
    with pytest.raises(Refused):
        harness.send(**record)
    assert harness.refusals == [refusal]
    assert harness.accumulator.memory_used == 0
    assert harness.drain(even_if_not_due=True) == []


@pytest.mark.parametrize("topic", [None, 7, b"topic"])
def test_a_topic_that_is_no_text_is_refused(make: Callable[..., Harness], topic: Any) -> None:
    harness = make()
    with pytest.raises(Refused):
        harness.accumulator.send(topic, b"value")
    assert harness.refusals == [AppendRefusal.WRONG_TYPE]


def test_an_unknown_topic_takes_the_slow_path(make: Callable[..., Harness]) -> None:
    harness = make()
    with pytest.raises(Refused, match="UNKNOWN_TOPIC"):
        harness.accumulator.send("elsewhere", b"x")


def test_a_closed_accumulator_refuses_records(make: Callable[..., Harness]) -> None:
    harness = make()
    harness.accumulator.closed = True
    with pytest.raises(Refused, match="CLOSED"):
        harness.send(b"x")


def test_memory_is_counted_until_a_batch_is_done(make: Callable[..., Harness]) -> None:
    harness = make(memory=2000)
    for _ in range(14):
        harness.send(b"x" * 100)
    with pytest.raises(Refused, match="BUFFER_FULL"):
        harness.send(b"x" * 500)
    assert 1400 < harness.accumulator.memory_used <= 2000
    for batch in harness.drain():
        batch.complete(0)
    assert harness.accumulator.memory_used == 0
    harness.send(b"x")


def test_while_others_wait_for_memory_new_records_are_refused(make: Callable[..., Harness]) -> None:
    harness = make()
    harness.accumulator.memory_wanted = True
    with pytest.raises(Refused, match="BUFFER_FULL"):
        harness.send(b"x")
    taken = harness.accumulator.append(TOPIC, b"x", None, None, None, (), None, True)
    assert taken.index == 0


# -- results


def test_a_future_has_the_offset_of_its_record(make: Callable[..., Harness]) -> None:
    harness = make()
    futures = [harness.send(b"x", timestamp=1000 + i) for i in range(3)]
    assert not futures[0].done()
    (batch,) = harness.drain()
    batch.complete(500)
    assert [future.result(0) for future in futures] == [RecordMetadata(TOPIC, 0, 500 + i, 1000 + i) for i in range(3)]
    assert futures[0].exception(0) is None and futures[0].done() and not futures[0].cancel()


def test_a_future_has_the_brokers_time_where_the_topic_says_so(make: Callable[..., Harness]) -> None:
    harness = make()
    future = harness.send(b"x", timestamp=1000)
    harness.drain()[0].complete(7, 9999)
    assert future.result(0).timestamp == 9999


def test_a_future_raises_the_error_of_the_record(make: Callable[..., Harness]) -> None:
    harness = make()
    future = harness.send(b"x")
    harness.drain()[0].fail(TimedOut("no"))
    with pytest.raises(TimedOut, match="no"):
        future.result(0)
    assert isinstance(future.exception(0), TimedOut)


def test_waiting_for_a_future_ends_with_its_timeout(make: Callable[..., Harness]) -> None:
    harness = make()
    future = harness.send(b"x")
    with pytest.raises(TimedOut, match=r"no result .* within 0\.001 s"):
        future.result(0.001)


def test_the_result_of_a_batch_is_reported_once(make: Callable[..., Harness]) -> None:
    harness = make()
    told: list[Any] = []
    future = harness.send(b"x", on_delivery=lambda metadata, error: told.append((metadata, error)))
    (batch,) = harness.drain()
    batch.complete(3)
    batch.fail(TimedOut("late"))
    assert future.result(0).offset == 3
    assert told == [(future.result(0), None)]


def test_callbacks_run_in_order_and_one_that_fails_does_not_stop_the_others(
    make: Callable[..., Harness], caplog: pytest.LogCaptureFixture
) -> None:
    harness = make()
    told: list[int] = []

    def broken(metadata: object, error: object) -> None:
        raise RuntimeError("a bug of the application")

    for i in range(5):
        harness.send(b"x", on_delivery=broken if i == 2 else lambda metadata, _: told.append(metadata.offset))
    harness.drain()[0].complete(10)
    assert told == [10, 11, 13, 14]
    assert "a bug of the application" in caplog.text


def test_done_callbacks_get_the_future(make: Callable[..., Harness]) -> None:
    harness = make()
    future = harness.send(b"x")
    seen: list[Any] = []
    future.add_done_callback(seen.append)
    assert seen == []
    harness.drain()[0].complete(0)
    future.add_done_callback(seen.append)
    assert seen == [future, future]


def test_unfinished_batches_are_listed_until_they_are_done(make: Callable[..., Harness]) -> None:
    harness = make(partitions=2)
    harness.send(b"a", partition=0)
    harness.send(b"b", partition=1)
    first, second = harness.accumulator.unfinished()
    harness.drain()
    first.complete(0)
    assert harness.accumulator.unfinished() == [second]


# -- split batches


def test_futures_follow_their_records_into_split_batches(make: Callable[..., Harness]) -> None:
    harness = make()
    told: list[int] = []
    futures = [
        harness.send(b"%03d" % i * 30, on_delivery=lambda metadata, _: told.append(metadata.offset)) for i in range(40)
    ]
    (batch,) = harness.drain()
    before = harness.accumulator.memory_used
    parts = split_with(harness, batch)
    assert len(parts) >= 2
    assert abs(harness.accumulator.memory_used - before) < 200
    assert values_of(parts) == [b"%03d" % i * 30 for i in range(40)]
    assert not futures[0].done()
    offset = 0
    for part in parts:
        part.complete(offset)
        offset += part.count
    assert [future.result(0).offset for future in futures] == list(range(40))
    assert told == list(range(40))
    assert harness.accumulator.memory_used == 0


def test_split_batches_can_be_split_again_and_fail_separately(make: Callable[..., Harness]) -> None:
    harness = make()
    futures = [harness.send(b"x" * 100) for _ in range(16)]
    (batch,) = harness.drain()
    parts = split_with(harness, batch)
    smaller = split_with(harness, parts[0])
    smaller[0].fail(TimedOut("too late"))
    for part in smaller[1:] + parts[1:]:
        part.complete(0)
    failed = [isinstance(future.exception(0), TimedOut) for future in futures]
    assert failed == [True] * smaller[0].count + [False] * (16 - smaller[0].count)


def split_with(harness: Harness, batch: Any) -> list[Any]:
    return split(harness.accumulator, batch)


def test_a_prebuilt_batch_is_sent_after_earlier_records(make: Callable[..., Harness]) -> None:
    harness = make(linger_s=60)
    harness.send(b"before")
    queue = harness.accumulator.topics[TOPIC].queues[0]
    batch = harness.accumulator.new_batch(queue, harness.now)
    batch.add(1, None, b"from elsewhere")
    assert harness.accumulator.put(batch)
    harness.send(b"after")
    assert values_of(harness.drain(even_if_not_due=True)) == [b"before", b"from elsewhere", b"after"]


def test_an_idle_topic_is_forgotten_and_one_with_records_is_not(make: Callable[..., Harness]) -> None:
    harness = make(linger_s=60)
    harness.send(b"x")
    assert not harness.accumulator.forget_topic(TOPIC)
    harness.drain(even_if_not_due=True)
    (queue,) = harness.accumulator.topics[TOPIC].queues
    assert harness.accumulator.forget_topic(TOPIC)
    with pytest.raises(Refused, match="UNKNOWN_TOPIC"):
        harness.send(b"x")
    harness.accumulator.know_topic(TOPIC, 2, [0, 1])
    assert harness.accumulator.topics[TOPIC].queues[0] is queue  # its sequence numbers must continue


def test_a_partition_is_reported_again_when_it_has_new_records(make: Callable[..., Harness]) -> None:
    harness = make(batch_size=200)
    harness.send(b"a")
    assert len(harness.drain()) == 1
    assert harness.accumulator.collect(harness.now)[0] == []
    harness.send(b"b")
    assert values_of(harness.drain()) == [b"b"]
