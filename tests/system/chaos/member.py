"""Group consumer process: reads records, processes them, then commits their offsets.

It is a program of its own, so that tests can kill and pause it at any point:

    python member.py '{"client": "confluent-kafka", "bootstrap": ..., ...}'

It prints one line per event. It reports records as processed before it commits them:

    ready
    assigned PARTITION...
    revoked PARTITION...
    got PARTITION FIRST LAST     numbers without a gap
    refused WHY                  a commit failed
    closed

SIGTERM makes it leave its group.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

RECORDS_A_TURN = 100
TURN_S = 0.05
RECONNECT_MS = 50
RECONNECT_MOST_MS = 200
FETCH_WAIT_MS = 50


@dataclass
class Options:
    """Options of a member, as JSON on its command line."""

    client: str
    bootstrap: str
    topic: str
    group: str
    name: str
    assignors: Sequence[str] = ("range", "roundrobin")
    protocol: str = "classic"
    instance: str | None = None
    session_ms: int = 0
    rebalance_ms: int = 0
    heartbeat_ms: int = 0
    login_file: str = ""
    """A file with more settings, in librdkafka's names: how a client of librdkafka or of Moldau logs in."""


class Stop:
    """True after SIGTERM."""

    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, *_: object) -> None:
        self.asked = True

    def __bool__(self) -> bool:
        return self.asked


def say(*words: object) -> None:
    # One write per line, so that a line is either complete or absent.
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def process(partition: int, values: Iterable[bytes | None]) -> None:
    """Report the numbers of a partition's records, with one line for each range without a gap."""
    numbers = [int(value or b"-1") for value in values]
    ends = [at + 1 for at, (one, other) in enumerate(pairwise(numbers)) if other != one + 1] + [len(numbers)]
    start = 0
    for end in ends:
        say("got", partition, numbers[start], numbers[end - 1])
        start = end


def member_settings(options: Options) -> dict[str, Any]:
    """Settings of all clients that use Kafka's setting names."""
    settings: dict[str, Any] = {
        "bootstrap.servers": options.bootstrap,
        "client.id": options.name,
        "group.id": options.group,
        "group.protocol": options.protocol,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "max.poll.interval.ms": options.rebalance_ms,
        "reconnect.backoff.max.ms": RECONNECT_MOST_MS,
    }
    if options.protocol == "classic":
        settings |= {
            "session.timeout.ms": options.session_ms,
            "heartbeat.interval.ms": options.heartbeat_ms,
            "partition.assignment.strategy": ",".join(options.assignors),
        }
    if options.instance:
        settings["group.instance.id"] = options.instance
    if options.login_file:
        lines = Path(options.login_file).read_text().splitlines()
        settings |= dict(line.split("=", 1) for line in lines)
    return settings


def run_confluent_kafka(options: Options, stop: Stop) -> None:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer = Consumer(
        {
            **member_settings(options),
            "reconnect.backoff.ms": RECONNECT_MS,
            "fetch.wait.max.ms": FETCH_WAIT_MS,
            "log_level": 0,
        }
    )

    def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
        say("assigned", *(one.partition for one in partitions))

    def revoked(_: Consumer, partitions: list[TopicPartition]) -> None:
        say("revoked", *(one.partition for one in partitions))

    consumer.subscribe([options.topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    say("ready")
    while not stop:
        found: dict[int, list[Any]] = {}
        for message in consumer.consume(RECORDS_A_TURN, TURN_S):
            if message.error() is None:
                found.setdefault(message.partition(), []).append(message)
        for partition, messages in found.items():
            process(partition, [message.value() for message in messages])
        try:
            if found:
                positions = [
                    TopicPartition(options.topic, partition, messages[-1].offset() + 1)
                    for partition, messages in found.items()
                ]
                for committed in consumer.commit(offsets=positions, asynchronous=False):
                    if committed.error is not None:
                        say("refused", committed.error.name())
        except KafkaException as error:
            say("refused", error.args[0].name())
    consumer.close()


def run_kafka_python(options: Options, stop: Stop) -> None:
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.errors import KafkaError
    from kafka.structs import OffsetAndMetadata

    known = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
            say("assigned", *(one.partition for one in assigned))

        def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
            say("revoked", *(one.partition for one in revoked))

        def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
            say("revoked", *(one.partition for one in lost))

    consumer = KafkaConsumer(
        bootstrap_servers=options.bootstrap,
        client_id=options.name,
        group_id=options.group,
        group_instance_id=options.instance,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=options.session_ms,
        heartbeat_interval_ms=options.heartbeat_ms,
        max_poll_interval_ms=options.rebalance_ms,
        max_poll_records=RECORDS_A_TURN,
        partition_assignment_strategy=[known[name] for name in options.assignors],
        reconnect_backoff_ms=RECONNECT_MS,
        reconnect_backoff_max_ms=RECONNECT_MOST_MS,
        fetch_max_wait_ms=FETCH_WAIT_MS,
    )
    consumer.subscribe([options.topic], listener=Listener())
    say("ready")
    while not stop:
        try:
            found = consumer.poll(timeout_ms=int(TURN_S * 1000))
            for partition, records in found.items():
                process(partition.partition, [record.value for record in records])
            if found:
                consumer.commit(
                    {
                        partition: OffsetAndMetadata(records[-1].offset + 1, "", -1)
                        for partition, records in found.items()
                    }
                )
        except KafkaError as error:
            say("refused", type(error).__name__)
    consumer.close(autocommit=False)


async def run_aiokafka(options: Options, stop: Stop) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.errors import IllegalStateError, KafkaError

    known = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
    # aiokafka rebalances in the background, concurrently with the application. Records of a partition that is being
    # revoked are either processed and committed before the revocation, or not processed at all.
    busy = asyncio.Lock()
    turn = 0

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
            say("assigned", *(one.partition for one in assigned))

        async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
            nonlocal turn
            async with busy:
                turn += 1
                say("revoked", *(one.partition for one in revoked))

    consumer = AIOKafkaConsumer(
        bootstrap_servers=options.bootstrap,
        client_id=options.name,
        group_id=options.group,
        group_instance_id=options.instance,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=options.session_ms,
        heartbeat_interval_ms=options.heartbeat_ms,
        max_poll_interval_ms=options.rebalance_ms,
        rebalance_timeout_ms=options.rebalance_ms,
        partition_assignment_strategy=[known[name] for name in options.assignors],
        retry_backoff_ms=RECONNECT_MS,
        fetch_max_wait_ms=FETCH_WAIT_MS,
    )
    consumer.subscribe([options.topic], listener=Listener())
    await consumer.start()
    say("ready")
    while not stop:
        try:
            found = await consumer.getmany(timeout_ms=int(TURN_S * 1000), max_records=RECORDS_A_TURN)
            of_turn = turn
            async with busy:
                if not found or turn != of_turn:
                    continue
                for partition, records in found.items():
                    process(partition.partition, [record.value for record in records])
                await consumer.commit({partition: records[-1].offset + 1 for partition, records in found.items()})
        except (KafkaError, IllegalStateError) as error:
            say("refused", type(error).__name__)
    await consumer.stop()


def run_moldau(options: Options, stop: Stop) -> None:
    from moldau import Consumer, MoldauError, TopicPartition

    class Listener:
        def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            say("assigned", *(one.partition for one in partitions))

        def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            say("revoked", *(one.partition for one in partitions))

        def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
            self.on_partitions_revoked(partitions)

    consumer = Consumer(
        {
            **member_settings(options),
            "max.poll.records": RECORDS_A_TURN,
            "retry.backoff.max.ms": RECONNECT_MOST_MS,
            "fetch.max.wait.ms": FETCH_WAIT_MS,
        }
    )
    consumer.subscribe(options.topic, listener=Listener())
    say("ready")
    while not stop:
        try:
            found: dict[int, list[Any]] = {}
            for record in consumer.poll(TURN_S):
                found.setdefault(record.partition, []).append(record)
            for partition, records in found.items():
                process(partition, [record.value for record in records])
            if found:
                ends = {partition: records[-1].offset + 1 for partition, records in found.items()}
                consumer.commit({TopicPartition(options.topic, partition): end for partition, end in ends.items()})
        except MoldauError as error:
            say("refused", type(error).__name__)
    consumer.close()


def main() -> None:
    options = Options(**json.loads(sys.argv[1]))
    stop = Stop()
    if options.client == "confluent-kafka":
        run_confluent_kafka(options, stop)
    elif options.client == "kafka-python":
        run_kafka_python(options, stop)
    elif options.client == "moldau":
        run_moldau(options, stop)
    else:
        asyncio.run(run_aiokafka(options, stop))
    say("closed")


if __name__ == "__main__":
    main()
