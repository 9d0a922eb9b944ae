"""Partitioners: keys go to the same partitions as with Kafka's producers, and can be configured."""

from __future__ import annotations

import pytest

from moldau.client.errors import ConfigurationError
from moldau.client.producer.partitioners import (
    PartitionChoice,
    RoundRobinPartitioner,
    murmur2,
    partition_of_key,
    partitioner_of,
)

# From the tests of Apache Kafka's own murmur2, as signed numbers.
KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "hashed"), KNOWN.items())
def test_the_hash_is_kafkas(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0xFFFFFFFF
    assert partition_of_key(memoryview(key), 10) == (hashed & 0x7FFFFFFF) % 10


def test_round_robin_takes_turns_among_partitions_with_a_leader() -> None:
    partitioner = RoundRobinPartitioner()
    choice = PartitionChoice(4, [0, 1, 3])
    chosen = [partitioner.partition("t", None, None, None, None, choice) for _ in range(6)]
    assert chosen == [0, 1, 3, 0, 1, 3]
    assert partitioner.partition("another", None, None, None, None, choice) == 0


def test_partitioners_are_given_by_name_as_a_class_or_as_an_object() -> None:
    assert partitioner_of(None) is None and partitioner_of("default") is None
    assert isinstance(partitioner_of("round-robin"), RoundRobinPartitioner)
    assert isinstance(partitioner_of(RoundRobinPartitioner), RoundRobinPartitioner)
    mine = RoundRobinPartitioner()
    assert partitioner_of(mine) is mine


@pytest.mark.parametrize("wrong", ["fastest", object(), int])
def test_an_invalid_partitioner_is_reported(wrong: object) -> None:
    with pytest.raises(ConfigurationError, match=r"partitioner\.class"):
        partitioner_of(wrong)
