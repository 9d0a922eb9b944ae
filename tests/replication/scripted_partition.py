"""Cluster with partition states set by hand, and access to the logs of its brokers.

A state is published to the brokers like an image, but not stored. So one broker can know of an election before another
does, as it happens briefly in every failover.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TypeVar

from moldau.broker.broker import Broker
from moldau.cluster.image import NO_LEADER, PartitionState
from moldau.log.log import Log
from moldau.records import BatchRecord, decode_batch, encode_batch, peek_header
from moldau.replication.partition import Partition
from moldau.testing.cluster import Cluster
from tests.support.waiting import wait_until

TOPIC = "topic"

T = TypeVar("T")


class ScriptedPartition:
    """One partition of a cluster, on all its brokers."""

    def __init__(self, cluster: Cluster, topic: str = TOPIC, **configs: str) -> None:
        self.cluster = cluster
        self.topic = topic
        cluster.create_topic(
            topic, 1, len(cluster.brokers), {name.replace("_", "."): configs[name] for name in configs}
        )
        self.replicas = tuple(range(len(cluster.brokers)))
        self.epoch = 100
        """Higher than any epoch that the cluster has stored, so that its own updates count as old."""
        self.changes = 100

    # -- roles -----------------------------------------------------------------------------------------------------

    def elect(
        self, leader: int, *, isr: Collection[int] | None = None, known_to: Collection[int] | None = None
    ) -> None:
        """Begin a new leader epoch, which is published only to the given brokers."""
        self.epoch += 1
        self.tell(leader, isr=isr, known_to=known_to)

    def tell(self, leader: int, *, isr: Collection[int] | None = None, known_to: Collection[int] | None = None) -> None:
        """Publish the current epoch to brokers. `NO_LEADER` stops them from copying."""
        self.changes += 1
        members = self.replicas if isr is None else tuple(isr)
        state = PartitionState(self.replicas, members, leader, self.epoch, self.changes)
        for broker in self.replicas if known_to is None else known_to:
            self.impose(broker, state)

    def impose(self, broker: int, state: PartitionState) -> None:
        async def follow(served: Broker) -> None:
            image = served.replicas._image
            assert image is not None
            topic = image.topics[self.topic]
            changed = type(topic)(topic.name, topic.id, (state,), topic.configs)
            await served.replicas.follow(image.with_topics([changed]))

        thread = self.cluster.brokers[broker]._running()
        thread.run(follow(thread.broker))

    def isolate(self, broker: int) -> None:
        """Stop the broker from copying until a leader is published to it."""
        self.changes += 1
        self.impose(broker, PartitionState(self.replicas, self.replicas, NO_LEADER, self.epoch, self.changes))

    # -- records ---------------------------------------------------------------------------------------------------

    def write(self, broker: int, *values: str, all_replicas: bool = False) -> None:
        """Append records at a broker, one per batch, as a producer with acks=1 would."""

        def append(served: Broker) -> None:
            partition = self.of(served)
            for value in values:
                batch = encode_batch([BatchRecord(0, served.now_ms(), None, value.encode())])
                partition.append(memoryview(batch), served.now_ms(), all_replicas=all_replicas)
                served.replicas.appended(partition)

        self.cluster.brokers[broker].look(append)

    def of(self, served: Broker) -> Partition:
        partition = served.replicas.find(self.topic, 0)
        assert partition is not None
        return partition

    def look(self, broker: int, function: Callable[[Partition], T]) -> T:
        return self.cluster.brokers[broker].look(lambda served: function(self.of(served)))

    def values(self, broker: int) -> list[str]:
        return self.look(broker, lambda partition: values(partition.log))

    def content(self, broker: int) -> bytes:
        return self.look(broker, lambda partition: content(partition.log))

    def high_watermark(self, broker: int) -> int:
        return self.look(broker, lambda partition: partition.high_watermark)

    def end(self, broker: int) -> int:
        return self.look(broker, lambda partition: partition.log.end_offset)

    def wait_copied(self, leader: int, *followers: int) -> None:
        """Wait until these replicas, or all others, have the same log as the leader."""
        for broker in followers or [one for one in self.replicas if one != leader]:
            wait_until(partial(self._same, leader, broker), f"broker {broker} has the log of broker {leader}")

    def _same(self, one: int, other: int) -> bool:
        return self.content(one) == self.content(other)


def content(log: Log) -> bytes:
    """All batches of all segments."""
    found, offset = b"", log.start_offset
    while offset < log.end_offset:
        data = bytes(log.read(offset, 1 << 24, log.end_offset) or b"")
        assert data, f"nothing at {offset} of {log}"
        at = 0
        while at < len(data):
            header = peek_header(data, at)
            offset, at = header.last_offset + 1, at + header.size
        found += data
    return found


def values(log: Log) -> list[str]:
    data, at, found = content(log), 0, []
    while at < len(data):
        header = peek_header(data, at)
        if not header.is_control:
            batch = data[at : at + header.size]
            found += [record.value.decode() for record in decode_batch(batch) if record.value is not None]
        at += header.size
    return found
