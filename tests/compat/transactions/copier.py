"""Exactly-once copier of a topic: each transaction has the copied records and the offsets of their source.

A program, so that a test can kill it anywhere:

    python copier.py BOOTSTRAP SOURCE SINK GROUP (assign|subscribe) [STEP TIMES]

It prints each step on a line before it takes it, and ends when it has read the records that existed at its start. With
STEP and TIMES it stops itself (SIGSTOP) before it takes this step for the so-many-th time.
"""

from __future__ import annotations

import os
import signal
import sys

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

TIMEOUT_S = 30
RECORDS_A_TRANSACTION = 20


class Copier:
    def __init__(
        self, bootstrap: str, source: str, sink: str, group: str, mode: str, step: str = "", times: str = "0"
    ) -> None:
        self.stops_at, self.times = step, int(times)
        self.source = source
        self.sink = sink
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": group,
                "linger.ms": 0,
                "retry.backoff.ms": 20,
                # Workaround for librdkafka, which may wait forever to send offsets to a broker that it has dropped
                # (docs/compatibility.md). With a single broker, it must not drop it while it is away. In a cluster,
                # where it drops a broker that Metadata no longer names, a connection that closes wakes it.
                "metadata.recovery.strategy": "none",
                "connections.max.idle.ms": 2_000,
            }
        )
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,
        }
        if mode == "subscribe":
            settings["group.instance.id"] = group  # the next copier with this instance id replaces one that was killed
        self.consumer = Consumer(settings)
        say("init")
        self.producer.init_transactions(TIMEOUT_S)  # aborts an open transaction of the previous copier
        partitions = [TopicPartition(source, one) for one in self._partitions()]
        self.ends = {one.partition: self.consumer.get_watermark_offsets(one, TIMEOUT_S)[1] for one in partitions}
        say("begin")
        if mode == "subscribe":
            self.consumer.subscribe([source])
        else:
            self.consumer.assign(self.consumer.committed(partitions, TIMEOUT_S))
        self.at = {one.partition: max(0, one.offset) for one in self.consumer.committed(partitions, TIMEOUT_S)}

    def _partitions(self) -> list[int]:
        return sorted(self.consumer.list_topics(self.source, TIMEOUT_S).topics[self.source].partitions)

    def run(self) -> None:
        while any(self.at[partition] < end for partition, end in self.ends.items()):
            messages = self.consumer.consume(RECORDS_A_TRANSACTION, 0.05)
            if messages:
                self._copy(messages)
        say("done")
        self.consumer.close()

    def _copy(self, messages: list[Message]) -> None:
        self.take("transaction")
        self.producer.begin_transaction()
        for message in messages:
            if message.error():
                raise KafkaException(message.error())
            self.producer.produce(self.sink, message.value(), partition=message.partition())
            self.at[message.partition()] = message.offset() + 1
        self.take("flush")
        self.producer.flush(TIMEOUT_S)
        self.take("offsets")
        read = [TopicPartition(self.source, partition, offset) for partition, offset in self.at.items() if offset]
        self.producer.send_offsets_to_transaction(read, self.consumer.consumer_group_metadata(), TIMEOUT_S)
        self.take("commit")
        self.producer.commit_transaction(TIMEOUT_S)

    def take(self, step: str) -> None:
        say(step)
        if step == self.stops_at:
            self.times -= 1
            if not self.times:
                os.kill(os.getpid(), signal.SIGSTOP)


def say(step: str) -> None:
    print(step, flush=True)


if __name__ == "__main__":
    Copier(*sys.argv[1:]).run()
