"""Which partition a record goes to: Kafka's own hash for keys, stickiness without them, and other choices.

The default is the one of Kafka's Java producer, so that a key finds the same partition whoever writes it: the key's
murmur2 hash modulo the number of partitions. A record without a key goes where the one before it went, until a batch's
worth of bytes went there; then another partition is drawn. Full batches are what makes a producer cheap.

The default itself is part of the accumulator (`Accumulator.send`), because it has to know when a batch is full. A class
with a method `partition` replaces it: give it, or an instance, as `partitioner.class`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, runtime_checkable

from moldau.client.errors import ConfigurationError
from moldau.records.murmur2 import murmur2

_POSITIVE: Final = 0x7FFFFFFF

Chooser = Callable[[str, object, bytes | None, object, bytes | None, "PartitionChoice"], int]


class PartitionChoice:
    """What a partitioner may know of a topic: how many partitions it has, and which of them have a leader now."""

    __slots__ = ("available", "count")

    def __init__(self, count: int, available: Sequence[int]) -> None:
        self.count = count
        self.available = available
        """Partitions with a leader; all of them where none has, since one has to be chosen."""


@runtime_checkable
class Partitioner(Protocol):
    """A choice of one's own. Called in the thread that calls `send`, perhaps by many at once."""

    def partition(
        self,
        topic: str,
        key: object,
        key_bytes: bytes | None,
        value: object,
        value_bytes: bytes | None,
        choice: PartitionChoice,
    ) -> int:
        """The partition's number, from 0 to `choice.count` - 1."""
        ...


def partition_of_key(key: bytes | bytearray | memoryview, count: int) -> int:
    """Where Kafka's producers put this key, in a topic of `count` partitions."""
    return (murmur2(key) & _POSITIVE) % count


class RoundRobinPartitioner:
    """Each record to the next partition that has a leader, whatever its key: `partitioner.class=round-robin`."""

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
        self._next[topic] = turn + 1  # two threads may draw the same turn: then one partition gets one more
        return choice.available[turn % len(choice.available)]


_BY_NAME: Final[dict[str, type[Partitioner]]] = {
    "round-robin": RoundRobinPartitioner,
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": RoundRobinPartitioner,
}
_DEFAULT_NAMES: Final = ("", "default")


def partitioner_of(given: object) -> Partitioner | None:
    """The partitioner that a `partitioner.class` stands for: a name, a class, an instance; None is the default."""
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
