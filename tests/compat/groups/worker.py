"""Group consumer process, which tests can kill and pause.

    python worker.py CLIENT BOOTSTRAP GROUP TOPIC [name=value ...]

It prints `partition offset` for each processed record, on a separate line, and commits afterwards. So printed records
may be delivered again, and records that were not printed must be delivered again.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

SESSION_MS = 2_000
HEARTBEAT_MS = 300


def say(partition: int, offset: int) -> None:
    print(partition, offset, flush=True)


def confluent(bootstrap: str, group: str, topic: str, options: dict[str, str]) -> None:
    from confluent_kafka import Consumer

    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 50,
    }
    if options.get("group.protocol") != "consumer":
        settings |= {
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "partition.assignment.strategy": "roundrobin",
        }
    consumer = Consumer(settings | options)
    consumer.subscribe([topic])
    while not stopped:
        for message in consumer.consume(50, 0.05):
            if message.error() is None:
                say(message.partition(), message.offset())
        try:
            consumer.commit(asynchronous=False)
        except Exception as error:  # noqa: BLE001 - a rebalance came between; the next reader reads it again
            print(error, file=sys.stderr)
    consumer.close()


def kafka_python(bootstrap: str, group: str, topic: str, options: dict[str, str]) -> None:
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        fetch_max_wait_ms=50,
        partition_assignment_strategy=[RoundRobinPartitionAssignor],
        **options,
    )
    while not stopped:
        for partition, records in consumer.poll(timeout_ms=50).items():
            for record in records:
                say(partition.partition, record.offset)
        try:
            consumer.commit()
        except Exception as error:  # noqa: BLE001
            print(error, file=sys.stderr)
    consumer.close()


def aiokafka(bootstrap: str, group: str, topic: str, options: dict[str, str]) -> None:
    async def run() -> None:
        from aiokafka import AIOKafkaConsumer

        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            fetch_max_wait_ms=50,
            **options,
        )
        await consumer.start()
        while not stopped:
            for partition, records in (await consumer.getmany(timeout_ms=50)).items():
                for record in records:
                    say(partition.partition, record.offset)
            try:
                await consumer.commit()
            except Exception as error:  # noqa: BLE001
                print(error, file=sys.stderr)
        await consumer.stop()

    asyncio.run(run())


CLIENTS = {"confluent-kafka": confluent, "kafka-python": kafka_python, "aiokafka": aiokafka}
stopped = False


def stop(*_: object) -> None:
    global stopped
    stopped = True


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    _, client, bootstrap, group, topic, *settings = sys.argv
    CLIENTS[client](bootstrap, group, topic, dict(one.split("=", 1) for one in settings))
