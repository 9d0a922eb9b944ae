"""Members of a group that one thread drives in turn: ours, confluent-kafka's and kafka-python's."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

import confluent_kafka

from moldau import Consumer, TopicPartition
from moldau.client.consumer.decode import Record
from tests.compat.kafka_python import KafkaConsumer

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

PATIENCE_S = 60.0
"""Longer than any test here takes, also on a slow machine."""


class Driven(Protocol):
    """A group member of any client library."""

    @property
    def partitions(self) -> list[int]:
        """The numbers of the partitions that it reads."""

    def poll(self) -> object:
        """Poll once, for a short time."""


def drive(members: Sequence[Driven], condition: Callable[[], object], what: str = "") -> None:
    """Let all members poll in turn until the condition holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        reading = [one.partitions for one in members]
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}; they read {reading}"
        for one in members:
            one.poll()


def share(members: Sequence[Driven], *sizes: int) -> None:
    """Let the members poll until they share partitions 0, 1, 2… in portions of these sizes."""
    everything = list(range(sum(sizes)))

    def is_shared() -> bool:
        return (
            sorted(len(one.partitions) for one in members) == sorted(sizes)
            and sorted(index for one in members for index in one.partitions) == everything
        )

    drive(members, is_shared, f"partitions shared as {sizes}")


class Member:
    """A Moldau consumer that is its own rebalance listener and records each call and its thread."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.heard: list[tuple[str, list[int]]] = []
        self.records: list[Record] = []
        self.threads: set[int] = set()
        self.during: Callable[[str, Sequence[TopicPartition]], None] = lambda kind, partitions: None
        """A function that is called with each event."""
        self._reads: set[TopicPartition] = set()

    @property
    def partitions(self) -> list[int]:
        assert self._reads <= self.consumer.assignment()
        return sorted(index for _, index in self._reads)

    @property
    def reads(self) -> set[TopicPartition]:
        return set(self._reads)

    @property
    def moves(self) -> list[tuple[str, list[int]]]:
        """The recorded events, without rebalances that changed nothing."""
        return [(kind, partitions) for kind, partitions in self.heard if partitions]

    def poll(self, timeout: float = 0.02) -> list[Record]:
        records = self.consumer.poll(timeout)
        self.records += records
        return records

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._hear("assigned", partitions)
        self._reads.update(partitions)

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._hear("revoked", partitions)
        self._reads.difference_update(partitions)

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._hear("lost", partitions)
        self._reads.difference_update(partitions)

    def _hear(self, kind: str, partitions: Sequence[TopicPartition]) -> None:
        self.heard.append((kind, [index for _, index in partitions]))
        self.threads.add(threading.get_ident())
        self.during(kind, partitions)


class ConfluentMember:
    """A consumer of confluent-kafka."""

    def __init__(self, topic: str, settings: dict[str, Any]) -> None:
        self.consumer = confluent_kafka.Consumer({**settings, "log_level": 0})
        self.consumer.subscribe([topic])

    @property
    def partitions(self) -> list[int]:
        return sorted(one.partition for one in self.consumer.assignment())

    def poll(self) -> object:
        return self.consumer.poll(0.02)

    def close(self) -> None:
        self.consumer.close()


class KafkaPythonMember:
    """A consumer of kafka-python."""

    ASSIGNORS: ClassVar = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }

    def __init__(self, topic: str, settings: dict[str, Any]) -> None:
        chosen = {name.replace(".", "_"): value for name, value in settings.items()}
        chosen["partition_assignment_strategy"] = [self.ASSIGNORS[chosen["partition_assignment_strategy"]]]
        del chosen["metadata_max_age_ms"]
        self.consumer = KafkaConsumer(topic, **chosen)
        # As group leader, it would assign nothing before it knows the topic's metadata.
        assert self.consumer.partitions_for_topic(topic)

    @property
    def partitions(self) -> list[int]:
        return sorted(one.partition for one in self.consumer.assignment())

    def poll(self) -> object:
        return self.consumer.poll(timeout_ms=20)

    def close(self) -> None:
        self.consumer.close()
