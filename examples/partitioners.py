"""Two partitioners of one's own: orders by priority, alerts by level.

    python examples/partitioners.py localhost:9092

A topic gives no record precedence over another, but its partitions are read independently. So what matters most gets
partitions of its own:

* `PriorityPartitioner` keeps the first partitions for the customers that are named as important, each of them by the
  hash of its key as usual, and spreads everybody else over the rest. A flood of ordinary orders never stands before an
  important one, and more consumers can be put on the important ones.
* `AlertLevelPartitioner` has a partition for each level, the most serious first. A pager reads partition 0 and nothing
  else; a dashboard reads them all.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from moldau import Admin, NewTopic, Producer, RecordMetadata
from moldau.client.producer.partitioners import PartitionChoice, partition_of_key


class PriorityPartitioner:
    """Important keys have the first `reserved` partitions to themselves; the others share what is left."""

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
    """One partition a level, in the given order; a level that is not known goes with the least serious."""

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
    """Orders of an important customer and of others; where each went."""
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
    """One alert of each level; where each went."""
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
