"""Partitioners: the choice of a record's partition by the hash of its key, or sticky for records without a key.

The default is that of Kafka's Java producer, so that a key has the same partition for all clients: the key's murmur2
hash modulo the number of partitions. Records without a key go to one partition until it got batch.size bytes, then to
another random one. Full batches cost the least per record.

The default itself is part of the accumulator (`Accumulator.send`), because it depends on how full the batch is. A class
with a method `partition` replaces it: give the class or an instance as `partitioner.class`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, runtime_checkable

from moldau.client.errors import ConfigurationError
from moldau.records.murmur2 import murmur2

_POSITIVE: Final = 0x7FFFFFFF

Chooser = Callable[[str, object, bytes | None, object, bytes | None, "PartitionChoice"], int]


class PartitionChoice:
    """The partitions of a topic, as a partitioner gets them: their count, and those that have a leader now."""

    __slots__ = ("available", "count")

    def __init__(self, count: int, available: Sequence[int]) -> None:
        self.count = count
        self.available = available
        """The partitions with a leader; all partitions if none has a leader."""


@runtime_checkable
class Partitioner(Protocol):
    """Interface of custom partitioners. Called in the thread that calls `send`, possibly by many threads at once."""

    def partition(
        self,
        topic: str,
        key: object,
        key_bytes: bytes | None,
        value: object,
        value_bytes: bytes | None,
        choice: PartitionChoice,
    ) -> int:
        """Return the partition for a record: 0 to `choice.count` - 1.

        `key` and `value` are the arguments of `send`, `key_bytes` and `value_bytes` their serialized forms.
        """
        ...


def partition_of_key(key: bytes | bytearray | memoryview, count: int) -> int:
    """Return the partition of a key in a topic with `count` partitions, as Kafka's producers compute it."""
    return (murmur2(key) & _POSITIVE) % count


class RoundRobinPartitioner:
    """Sends each record to the next partition that has a leader and ignores keys: `partitioner.class=round-robin`."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def partition(
        self,
        topic: str,
        key: object,
        key_bytes: bytes | None,
        value: object,
        value_bytes: bytes | None,
        choice: PartitionChoice,
    ) -> int:
        turn = self._next.get(topic, 0)
        self._next[topic] = turn + 1  # two threads may read the same number: one partition gets one record more then
        return choice.available[turn % len(choice.available)]


_BY_NAME: Final[dict[str, type[Partitioner]]] = {
    "round-robin": RoundRobinPartitioner,
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": RoundRobinPartitioner,
}
_DEFAULT_NAMES: Final = ("", "default")


def partitioner_of(given: object) -> Partitioner | None:
    """Return the partitioner for a value of `partitioner.class` (name, class or instance); None for the default."""
    if given is None or (isinstance(given, str) and given in _DEFAULT_NAMES):
        return None
    if isinstance(given, str):
        if given not in _BY_NAME:
            known = ", ".join(["default", *_BY_NAME])
            raise ConfigurationError(f"partitioner.class: {given!r} is not known; give a class, or one of {known}")
        given = _BY_NAME[given]
    made = given() if isinstance(given, type) else given
    if not isinstance(made, Partitioner):
        raise ConfigurationError(f"partitioner.class: {given!r} has no method `partition`")
    return made
