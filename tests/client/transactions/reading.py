"""Committed records, as confluent-kafka reads them."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaError, TopicPartition

READ_TIMEOUT_S = 30.0


def committed(bootstrap: str, topic: str, partitions: int = 1, level: str = "read_committed") -> list[bytes]:
    """The values that a read_committed consumer gets, by partition, up to the last stable offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "a reader without a group",
            "isolation.level": level,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,  # librdkafka reports the end of a partition when a fetch returns no records
            "enable.auto.commit": False,
        }
    )
    found: dict[int, list[bytes]] = {partition: [] for partition in range(partitions)}
    ended: set[int] = set()
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        deadline = time.monotonic() + READ_TIMEOUT_S
        while len(ended) < partitions:
            assert time.monotonic() < deadline, f"the end of {topic} was not reached"
            message = consumer.poll(1.0)
            if message is None:
                continue
            error = message.error()
            if error is None:
                ended.discard(message.partition())
                found[message.partition()].append(message.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    finally:
        consumer.close()
    return [value for partition in range(partitions) for value in found[partition]]
