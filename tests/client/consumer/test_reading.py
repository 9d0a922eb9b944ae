"""Reading: each record once and in order, for any batch layout and any split of the answers."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from moldau import Consumer
from moldau.records.batch_layout import Codec, TimestampType
from moldau.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsRequestTopic
from moldau.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from tests.client.consumer.reading import poll, take, values, wait_for_assignment
from tests.compat import wire
from tests.support.adversity import AdversityProxy
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until

Consumers = Callable[..., Consumer]
Write = Callable[..., int]


def test_a_record_has_every_field_that_was_sent(consumer: Consumers, write: Write, topic: str) -> None:
    write(topic, [b"one", None], timestamps=[1_600_000_000_001, 1_600_000_000_002])
    one, other = take(consumer(topic), 2)
    assert (one.topic, one.partition, one.offset) == (topic, 0, 0)
    assert (one.key, one.value, one.headers) == (b"k0", b"one", [("n", b"0")])
    assert (one.timestamp, one.timestamp_type) == (1_600_000_000_001, TimestampType.CREATE_TIME)
    assert (other.offset, other.value, other.timestamp) == (1, None, 1_600_000_000_002)
    assert one.leader_epoch >= 0


def test_without_a_group_all_partitions_are_read_each_in_order(
    consumer: Consumers, write: Write, new_topic: Callable[..., str]
) -> None:
    name = new_topic(partitions=3)
    for partition in range(3):
        for start in range(0, 50, 10):
            write(name, [b"%d" % (start + i) for i in range(10)], partition=partition)
    found: dict[int, list[bytes | None]] = {0: [], 1: [], 2: []}
    for record in take(consumer(name), 150):
        found[record.partition].append(record.value)
    assert found == {partition: [b"%d" % i for i in range(50)] for partition in range(3)}


def test_poll_respects_its_limit_and_returns_nothing_without_records(
    consumer: Consumers, write: Write, topic: str
) -> None:
    write(topic, [b"v"] * 25)
    one = consumer(topic, max_poll_records=10)
    assert [len(poll(one, 1)) for _ in range(3)] == [10, 10, 5]
    assert one.poll(timeout=0) == []
    one.seek((topic, 0), 0)
    assert len(one.poll(timeout=30, max_records=3)) == 3


@pytest.mark.parametrize("codec", list(Codec))
def test_compressed_batches_are_read(consumer: Consumers, write: Write, topic: str, codec: Codec) -> None:
    for start in range(0, 300, 100):
        write(topic, [b"value %d" % (start + i) for i in range(100)], codec=codec)
    assert values(take(consumer(topic), 300)) == [b"value %d" % i for i in range(300)]


def test_batches_larger_than_the_limits_are_read(
    consumer: Consumers, write: Write, new_topic: Callable[..., str]
) -> None:
    name = new_topic(partitions=2)
    for start in range(0, 40, 10):
        for partition in range(2):
            write(name, [b"%d" % (start + i) + bytes(5_000) for i in range(10)], partition=partition)
    one = consumer(name, max_partition_fetch_bytes=100, fetch_max_bytes=200, max_poll_records=7)
    found: dict[int, list[int]] = {0: [], 1: []}
    for record in poll(one, 80):
        found[record.partition].append(record.offset)
    assert found == {partition: list(range(40)) for partition in range(2)}


@pytest.mark.parametrize(
    ("answer_bytes", "pieces"),
    [(1_000, (1, 3)), (60_000, (61, 700)), (900_000, (1_009, 40_000)), (2_000_000, (20_000, 300_000))],
)
def test_answers_in_pieces_of_any_size_are_read_whole(
    bootstrap: str,
    write: Write,
    new_topic: Callable[..., str],
    answer_bytes: int,
    pieces: tuple[int, int],
    seed: int,
) -> None:
    """A slow peer sends a large answer in many segments. No record may be lost or returned twice."""
    chance = random.Random(seed)
    name = new_topic(partitions=2, configs={"max.message.bytes": "4000000"})
    expected: dict[int, list[bytes | None]] = {0: [], 1: []}
    for partition in range(2):
        while sum(len(value or b"") for value in expected[partition]) < 1.5 * answer_bytes:
            sizes = [chance.randint(0, min(answer_bytes // 4, 100_000)) for _ in range(chance.randint(1, 10))]
            batch = [chance.randbytes(size) for size in sizes]
            write(name, batch, partition=partition)
            expected[partition] += batch
    limits = {"max_partition_fetch_bytes": answer_bytes // 2 + 1, "fetch_max_bytes": answer_bytes}
    settings = {"auto_offset_reset": "earliest", **limits}
    with AdversityProxy(bootstrap) as proxy, Consumer(name, bootstrap_servers=proxy.bootstrap, **settings) as consumer:
        found: dict[int, list[bytes | None]] = {0: [], 1: []}
        with proxy.dribbling(chance.randint(*pieces)):
            for record in take(consumer, sum(map(len, expected.values()))):
                assert record.offset == len(found[record.partition])
                found[record.partition].append(record.value)
    assert found == expected


def test_partitions_that_are_added_are_read_from_their_beginning(
    consumer: Consumers, write: Write, new_topic: Callable[..., str], raw: RawConnection
) -> None:
    """Also with `latest`: all records in these partitions were written after the consumer started."""
    name = new_topic(partitions=1)
    one = consumer(name, auto_offset_reset="latest", metadata_max_age_ms=100)
    wait_for_assignment(one, 1)
    assert one.position((name, 0)) == 0
    growing = CreatePartitionsRequestTopic(name=name, count=2, assignments=None)
    request = CreatePartitionsRequest(topics=[growing], timeout_ms=10_000)
    assert not wire.ask(raw, request).results[0].error_code
    wait_until(lambda: wire.is_served(raw, name, 2))
    write(name, [b"early"], partition=1)
    assert values(take(one, 1)) == [b"early"]


def test_a_topic_may_be_created_after_its_consumer(
    consumer: Consumers, write: Write, unused_name: Callable[[], str], raw: RawConnection
) -> None:
    name = unused_name()
    one = consumer(name, metadata_max_age_ms=100, allow_auto_create_topics=False)
    assert one.poll(timeout=0.2) == []
    wire.create_topic(raw, name, 1, {})
    write(name, [b"v"])
    assert values(take(one, 1)) == [b"v"]


def test_a_pattern_matches_existing_and_later_topics(
    consumer: Consumers, write: Write, unused_name: Callable[[], str], raw: RawConnection
) -> None:
    base = unused_name()
    for name in (f"{base}-a", f"x-{base}-b"):
        wire.create_topic(raw, name, 1, {})
        write(name, [name.encode()])
    one = consumer(metadata_max_age_ms=100)
    one.subscribe(pattern=f"{base}-.*")
    assert values(take(one, 1)) == [f"{base}-a".encode()]
    wire.create_topic(raw, f"{base}-c", 1, {})
    write(f"{base}-c", [b"later"])
    assert values(take(one, 1)) == [b"later"]
    assert one.subscription() == {f"{base}-a", f"{base}-c"}


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_a_topic_that_is_created_again_is_read_from_its_beginning(
    consumer: Consumers, write: Write, topic: str, raw: RawConnection, policy: str
) -> None:
    write(topic, [b"old %d" % i for i in range(5)])
    one = consumer(auto_offset_reset=policy, metadata_max_age_ms=100, allow_auto_create_topics=False)
    one.assign([(topic, 0)])
    one.seek((topic, 0), 2)
    assert values(take(one, 3)) == [b"old 2", b"old 3", b"old 4"]
    deleting = DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name=topic)], timeout_ms=10_000)
    assert not wire.ask(raw, deleting).responses[0].error_code
    wait_until(lambda: wire.describe_topic(raw, topic).error_code)
    wire.create_topic(raw, topic, 1, {})
    write(topic, [b"new %d" % i for i in range(8)])
    assert values(take(one, 8)) == [b"new %d" % i for i in range(8)]
