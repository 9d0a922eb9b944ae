"""Two custom partitioners: orders by priority, alerts by level.

    python examples/partitioners.py localhost:9092

Records in a partition have no priorities, but consumers read partitions independently. So important records get their
own partitions:

* `PriorityPartitioner` reserves the first partitions for important customers, and distributes all other customers over
  the remaining partitions, in both cases by the hash of the key. A flood of ordinary orders never delays an important
  one, and more consumers can be assigned to the important partitions.
* `AlertLevelPartitioner` has one partition per level, the most serious level first. A pager reads only partition 0; a
  dashboard reads all partitions.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from moldau import Admin, NewTopic, Producer, RecordMetadata
from moldau.client.producer.partitioners import PartitionChoice, partition_of_key


class PriorityPartitioner:
    """Reserves the first `reserved` partitions for important keys; all other keys share the remaining partitions."""

    def __init__(self, important: Iterable[str], reserved: int = 1) -> None:
        self._important = frozenset(name.encode() for name in important)
        self._reserved = reserved

    def partition(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        choice: PartitionChoice,
    ) -> int:
        if choice.count <= self._reserved:
            raise ValueError(
                f"topic {topic!r} has {choice.count} partitions, and {self._reserved} are for important keys alone"
            )
        if key_bytes in self._important:
            return partition_of_key(key_bytes or b"", self._reserved)
        return self._reserved + partition_of_key(key_bytes or b"", choice.count - self._reserved)


class AlertLevelPartitioner:
    """One partition per level, in the given order. Unknown levels share the partition of the least serious level."""

    def __init__(self, levels: Sequence[str] = ("critical", "warning", "info")) -> None:
        self._place = {level: place for place, level in enumerate(levels)}

    def partition(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        choice: PartitionChoice,
    ) -> int:
        last = min(len(self._place), choice.count) - 1
        return min(self._place.get(value["level"], last), last)


def send_orders(bootstrap_servers: str, topic: str) -> list[RecordMetadata]:
    """Send orders of an important customer and of others. Returns the partition and offset of each."""
    with Producer(
        bootstrap_servers=bootstrap_servers,
        key_serializer="str",
        value_serializer="json",
        partitioner_class=PriorityPartitioner(["palace"]),
    ) as producer:
        customers = ["palace", "baker", "butcher", "palace", "cooper"]
        futures = [producer.send(topic, {"customer": name, "items": 1}, key=name) for name in customers]
        return [future.result() for future in futures]


def send_alerts(bootstrap_servers: str, topic: str) -> list[RecordMetadata]:
    """Send one alert of each level. Returns the partition and offset of each."""
    with Producer(
        bootstrap_servers=bootstrap_servers,
        value_serializer="json",
        partitioner_class=AlertLevelPartitioner(),
    ) as producer:
        levels = ["info", "critical", "warning", "unheard-of"]
        futures = [producer.send(topic, {"level": level, "text": "the river rises"}) for level in levels]
        return [future.result() for future in futures]


def main(bootstrap_servers: str) -> None:
    with Admin(bootstrap_servers=bootstrap_servers) as admin:
        existing = {topic.name for topic in admin.list_topics()}
        admin.create_topics([NewTopic(name, 4) for name in ("orders", "alerts") if name not in existing])
    for metadata in send_orders(bootstrap_servers, "orders"):
        print(f"order: partition {metadata.partition}, offset {metadata.offset}")
    for metadata in send_alerts(bootstrap_servers, "alerts"):
        print(f"alert: partition {metadata.partition}, offset {metadata.offset}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092")
