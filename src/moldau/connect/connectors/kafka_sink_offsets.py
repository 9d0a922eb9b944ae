"""Offsets topic of the Kafka sink: how far each source partition is written, in the target cluster.

A compacted topic of the connector. The key of a record is the JSON array [connector, topic, partition] of the source,
the value {"offset": the next one to write}. It is written in the transaction of the records that it counts, so both
are in the target or neither is.

`last` is exact: it is called after the transactional id of the source partition was taken over, when no transaction of
an earlier owner can be open. It waits for transactions of other source partitions that share a partition of the
offsets topic: their records could hide a committed one behind them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from zlib import crc32

from moldau.client.admin.offsets import OffsetSpec
from moldau.client.admin.topics import NewTopic
from moldau.client.blocking.admin import Admin
from moldau.client.blocking.consumer import Consumer
from moldau.client.consumer.decode import Record
from moldau.client.data_types import TopicPartition
from moldau.client.errors import TopicAlreadyExists, UnknownTopicOrPartition
from moldau.connect.connector import RetriableError
from moldau.host.clock import SystemClock

PARTITIONS: Final = 25
"""As many as Kafka Connect's own topic of offsets has."""
READ_TIMEOUT_S: Final = 60.0
POLL_S: Final = 0.05
"""Short, because the last thing before the end is the marker of a transaction: it moves the position, but `poll` still
waits for a record."""


@dataclass(frozen=True)
class Reached:
    """How far a source partition is written."""

    offset: int
    """The next offset to write."""
    position: int = 0
    """Where that is recorded: reading may begin here."""


class KafkaSinkOffsets:
    """Access to the offsets topic of one connector. `settings` connect a client to the target cluster."""

    def __init__(self, connector: str, topic: str, consumer: Mapping[str, Any], admin: Mapping[str, Any]) -> None:
        self.connector = connector
        self.topic = topic
        self._admin = admin
        self._consumer = {
            **consumer,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }

    def create(self, replication_factor: int) -> None:
        """Create the topic unless it exists."""
        with Admin(dict(self._admin)) as admin:
            try:
                admin.describe_topics([self.topic])
            except UnknownTopicOrPartition:
                wanted = NewTopic(self.topic, PARTITIONS, replication_factor, {"cleanup.policy": "compact"})
                try:
                    admin.create_topics([wanted])
                except TopicAlreadyExists:
                    pass

    def key(self, source: TopicPartition) -> bytes:
        return json.dumps([self.connector, source.topic, source.partition]).encode()

    @staticmethod
    def value(offset: int) -> bytes:
        return json.dumps({"offset": offset}).encode()

    def partition_of(self, source: TopicPartition) -> int:
        return (crc32(source.topic.encode()) + source.partition) % PARTITIONS

    def all(self) -> dict[TopicPartition, Reached]:
        """How far all source partitions are written, without what transactions that are still open will add."""
        with Consumer(self._consumer) as consumer:
            partitions = [TopicPartition(self.topic, index) for index in range(PARTITIONS)]
            ends = consumer.end_offsets(*partitions)
            return self._read(consumer, dict.fromkeys(partitions, 0), ends)

    def last(self, source: TopicPartition, known: Reached | None) -> Reached | None:
        """How far one source partition is written; None: nothing is."""
        partition = TopicPartition(self.topic, self.partition_of(source))
        with Admin(dict(self._admin)) as admin:
            end = admin.list_offsets({partition: OffsetSpec.LATEST})[partition].offset
        start = 0 if known is None else known.position
        if start >= end:
            start = 0  # the topic was deleted and created again
        with Consumer(self._consumer) as consumer:
            return self._read(consumer, {partition: start}, {partition: end}).get(source)

    def _read(
        self, consumer: Consumer, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Reached]:
        left = {one for one, end in ends.items() if starts[one] < end}
        if not left:
            return {}
        consumer.assign(list(left))
        for one in left:
            consumer.seek(one, starts[one])
        found: dict[TopicPartition, Reached] = {}
        deadline = SystemClock().monotonic() + READ_TIMEOUT_S
        while left:
            for record in consumer.poll(timeout=POLL_S):
                self._add(found, record)
            left = {one for one in left if consumer.position(one) < ends[one]}
            if left and SystemClock().monotonic() > deadline:
                raise RetriableError(
                    f"topic {self.topic} in the target cluster cannot be read to its end within {READ_TIMEOUT_S:g} s: "
                    "a transaction of another source partition is still open there"
                )
        return found

    def _add(self, found: dict[TopicPartition, Reached], record: Record) -> None:
        connector, topic, partition = json.loads(record.key or b"[null,null,null]")
        if connector == self.connector and record.value is not None:
            found[TopicPartition(topic, partition)] = Reached(json.loads(record.value)["offset"], record.offset)
