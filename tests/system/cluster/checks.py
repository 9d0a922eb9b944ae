"""Checks at the end of a cluster test: logs as clients read them, and files of replicas."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition

import moldau
from moldau.records import BatchHeader, peek_header
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until
from tests.system import calls
from tests.system.cluster.harness import ProcessCluster

READ_TIMEOUT_S = 30.0
RECORDS_A_TURN = 5_000
TURN_S = 0.05

READERS_GROUP = "nobody"
"""The group id of librdkafka's reader, which does not join it."""

Numbers = list[tuple[int, int]]
"""(offset, number) of each record of a partition, in the order read."""


def read_with_confluent_kafka(client: Mapping[str, str], topic: str, partition: int) -> Numbers:
    """All committed records of this partition, read by manual assignment."""
    consumer = Consumer(
        {
            **client,
            "group.id": READERS_GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    found: Numbers = []
    try:
        place = TopicPartition(topic, partition, 0)
        # librdkafka does not repeat this request by itself if the leader has just moved, as after a preferred election.
        _, end = wait_until(
            lambda: consumer.get_watermark_offsets(place, READ_TIMEOUT_S), "the end offset", retry_on=(KafkaException,)
        )
        consumer.assign([place])
        deadline = time.monotonic() + READ_TIMEOUT_S
        while True:
            messages = consumer.consume(RECORDS_A_TURN, TURN_S)
            if messages:
                deadline = time.monotonic() + READ_TIMEOUT_S
            assert time.monotonic() < deadline, f"{topic}-{partition}: nothing came after {found[-1:]}"
            for message in messages:
                if message.error() is None:
                    found.append((message.offset() or 0, int(message.value() or b"-1")))
                elif message.error().name() == "_PARTITION_EOF":
                    if message.offset() >= end:
                        return found
                else:
                    raise KafkaException(message.error())
    finally:
        consumer.close()


def read_with_moldau(client: Mapping[str, str], topic: str, partition: int) -> Numbers:
    """The same, read by Moldau's consumer."""
    place = moldau.TopicPartition(topic, partition)
    found: Numbers = []
    with moldau.Consumer(client, auto_offset_reset="none", isolation_level="read_committed") as consumer:
        consumer.assign([place])
        consumer.seek(place, 0)
        end = consumer.end_offsets(place)[place]
        while consumer.position(place) < end:
            records = consumer.poll(READ_TIMEOUT_S, max_records=RECORDS_A_TURN)
            found += [(record.offset, int(record.value or b"-1")) for record in records]
    return found


READERS: dict[str, Callable[[Mapping[str, str], str, int], Numbers]] = {
    "confluent-kafka": read_with_confluent_kafka,
    "moldau": read_with_moldau,
}


def check_numbers(reader: str, client: Mapping[str, str], topic: str, written: Sequence[int]) -> None:
    """Check that each number is in the topic once, in order, and at the offset that equals it."""
    for partition, count in enumerate(written):
        found = READERS[reader](client, topic, partition)
        for expected, one in enumerate(found):
            assert one == (expected, expected), (
                f"{topic}-{partition}: offset {one[0]} has number {one[1]} where {expected} was expected, {reader} says"
            )
        assert len(found) == count, f"{topic}-{partition}: {len(found)} records where {count} were acknowledged"


def high_watermarks(cluster: ProcessCluster) -> dict[tuple[str, int], int]:
    """The high watermark of every partition, as its leader reports it."""
    found = {}
    for topic, partitions in cluster.wait_whole().items():
        for index, state in partitions.items():
            with cluster.brokers[state.leader].connect() as connection:
                found[topic, index] = calls.offset_of(connection, topic, index)
    return found


def check_replicas(cluster: ProcessCluster) -> int:
    """Stop the brokers and compare the replicas' files below the high watermark. Returns the bytes compared."""
    placed = cluster.wait_whole()
    watermarks = high_watermarks(cluster)
    cluster.stop()
    return sum(
        check_files(cluster.brokers, f"{topic}-{index}", placed[topic][index].replicas, end)
        for (topic, index), end in watermarks.items()
    )


def check_files(brokers: Mapping[int, BrokerProcess], name: str, replicas: Sequence[int], end: int) -> int:
    """Check that all replicas of this partition have the same bytes up to this offset. Returns their number."""
    first, *others = replicas
    expected = list(batches(brokers[first].data / name, end))
    reached = peek_header(expected[-1]).last_offset + 1 if expected else 0
    assert reached == end, f"{name}: broker {first} ends at {reached}, the high watermark was {end}"
    for other in others:
        for mine, theirs in zip_longest(expected, batches(brokers[other].data / name, end)):
            at = peek_header(mine or theirs or b"").base_offset
            assert mine == theirs, f"{name}: brokers {first} and {other} differ from offset {at} on"
    return sum(map(len, expected))


def batches(directory: Path, end: int) -> Iterator[bytes]:
    """The batches of a partition's files up to an offset, in order. Segments may begin at other offsets on each
    replica."""
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        position = 0
        while position < len(data):
            header: BatchHeader = peek_header(data, position)
            if header.base_offset >= end:
                return
            batch = data[position : position + header.size]
            assert len(batch) == header.size, f"{path}: the batch at {header.base_offset} is torn"
            yield batch
            position += header.size
