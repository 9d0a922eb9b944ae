"""Sticky assignor: an even assignment in which each member keeps as many partitions as possible.

Rebalances are eager: all members stop reading. They report their last assignment in the user data, in Kafka's format:
the partitions by topic, then the generation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from struct import error as StructError

from moldau.client.consumer.assignors.assignor import NO_GENERATION, Assignment, Assignor, Members, MemberSubscription
from moldau.client.consumer.assignors.balance import balanced
from moldau.client.data_types import TopicPartition
from moldau.wire.topic_partition import by_topic

_INT16 = Struct(">h")
_INT32 = Struct(">i")


class StickyAssignor(Assignor):
    """Remembers the last assignment of this member, for its user data."""

    name = "sticky"

    def __init__(self) -> None:
        self._assigned: tuple[TopicPartition, ...] = ()
        self._generation = NO_GENERATION

    def user_data(self, topics: Sequence[str]) -> bytes | None:
        return encode_memory(self._assigned, self._generation) if self._assigned else None

    def on_assignment(self, partitions: Sequence[TopicPartition], generation: int) -> None:
        self._assigned, self._generation = tuple(partitions), generation

    def assign(self, partitions: Mapping[str, int], members: Members) -> Assignment:
        return balanced(partitions, members, {member: _last_assignment(one) for member, one in members.items()})


def _last_assignment(member: MemberSubscription) -> tuple[int, Sequence[TopicPartition]]:
    if member.owned:
        # A cooperative member has it in the subscription itself.
        return member.generation, member.owned
    return decode_memory(member.user_data)


def encode_memory(partitions: Sequence[TopicPartition], generation: int) -> bytes:
    """Encode Kafka's StickyAssignorUserData, version 1."""
    topics = by_topic(partitions)
    parts = [_INT32.pack(len(topics))]
    for topic, indexes in topics.items():
        name = topic.encode()
        parts += [_INT16.pack(len(name)), name, _INT32.pack(len(indexes))]
        parts += [_INT32.pack(index) for index in indexes]
    parts.append(_INT32.pack(generation))
    return b"".join(parts)


def decode_memory(data: bytes | None) -> tuple[int, Sequence[TopicPartition]]:
    """Return generation and partitions; no partitions if the bytes cannot be decoded. Version 0 has no generation."""
    if not data:
        return NO_GENERATION, ()
    try:
        partitions, end = _read_partitions(data)
        generation = NO_GENERATION if end == len(data) else _INT32.unpack_from(data, end)[0]
    except (StructError, UnicodeDecodeError, ValueError):
        return NO_GENERATION, ()
    return generation, partitions


def _read_partitions(data: bytes) -> tuple[list[TopicPartition], int]:
    (topics,) = _INT32.unpack_from(data, 0)
    at = _INT32.size
    partitions: list[TopicPartition] = []
    for _ in range(topics):
        (length,) = _INT16.unpack_from(data, at)
        at += _INT16.size
        if length < 0:
            raise ValueError(length)
        topic = data[at : at + length].decode()
        at += length
        (count,) = _INT32.unpack_from(data, at)
        at += _INT32.size
        for _ in range(count):
            partitions.append(TopicPartition(topic, _INT32.unpack_from(data, at)[0]))
            at += _INT32.size
    return partitions, at
