"""A group seen from outside: its members, their partitions, and every committed offset."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from moldau.assignment.consumer_protocol import parse_assignment
from moldau.groups.stored_records import KeyType, decode_key, decode_value, parse_offset, parse_tail
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from moldau.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from moldau.wire.stored.consumer_group_metadata import ConsumerGroupMetadataValue
from moldau.wire.stored.group_metadata import GroupMetadataValue
from tests.support.raw import ConnectionClosedError, RawConnection
from tests.system import calls

OFFSETS = "__consumer_offsets"
DESCRIBE_VERSION = 5
CONSUMER_DESCRIBE_VERSION = 1


class Seen(NamedTuple):
    """State of a group at one moment."""

    state: str
    owned: dict[str, tuple[int, ...]]
    """Partitions by the client id of their owner."""
    converged: bool = True
    """Whether every member has reached its target assignment."""


NOTHING = Seen("?", {})


def describe_classic(connection: RawConnection, group: str) -> Seen:
    request = DescribeGroupsRequest(groups=[group])
    (found,) = connection.call(ApiKey.DESCRIBE_GROUPS, DESCRIBE_VERSION, request, DescribeGroupsResponse).groups
    if found.error_code != ErrorCode.NONE:
        return NOTHING
    owned = {}
    for one in found.members:
        assignment = parse_assignment(bytes(one.member_assignment))
        owned[one.client_id] = tuple(sorted(index for _, indexes in assignment for index in indexes))
    return Seen(found.group_state, owned)


def describe_consumer(connection: RawConnection, group: str) -> Seen:
    request = ConsumerGroupDescribeRequest(group_ids=[group])
    answer = connection.call(
        ApiKey.CONSUMER_GROUP_DESCRIBE, CONSUMER_DESCRIBE_VERSION, request, ConsumerGroupDescribeResponse
    )
    (found,) = answer.groups
    if found.error_code != ErrorCode.NONE:
        return NOTHING
    owned = {}
    for one in found.members:
        partitions = [index for topic in one.assignment.topic_partitions for index in topic.partitions]
        owned[one.client_id] = tuple(sorted(partitions))
    return Seen(found.group_state, owned, all(one.member_epoch == found.assignment_epoch for one in found.members))


class Observer:
    """Describes the group on its own connection, and connects again after the broker was away."""

    def __init__(self, bootstrap: Callable[[], str], group: str) -> None:
        self._bootstrap = bootstrap
        self._group = group
        self._connection: RawConnection | None = None

    def look(self) -> Seen:
        try:
            if self._connection is None:
                self._connection = RawConnection(self._bootstrap())
            seen = describe_consumer(self._connection, self._group)
            return describe_classic(self._connection, self._group) if seen is NOTHING else seen
        except (ConnectionClosedError, ConnectionError):
            self.close()
            return NOTHING

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def settled(seen: Seen, names: set[str], partitions: int) -> bool:
    """Whether these are the members, each partition has one owner, and partition counts differ by at most one."""
    if not names:
        return seen.state in ("Empty", "Dead")
    if seen.state != "Stable" or not seen.converged or set(seen.owned) != names:
        return False
    return sorted(index for indexes in seen.owned.values() for index in indexes) == list(range(partitions))


def balanced(seen: Seen) -> bool:
    counts = [len(indexes) for indexes in seen.owned.values()]
    return not counts or max(counts) - min(counts) <= 1


class Commits(NamedTuple):
    """The records of one group in the offsets topic."""

    last: dict[int, int]
    """The committed offset by partition."""
    went_back: list[str]
    count: int


def commits_of(connection: RawConnection, group: str) -> Commits:
    """Every commit of a group, in the order in which the coordinator has stored them."""
    generation = count = 0
    last: dict[int, int] = {}
    went_back = []
    for record in calls.read_all(connection, OFFSETS, 0):
        assert record.key is not None
        key_type = int.from_bytes(record.key[:2], "big")
        if key_type == KeyType.OFFSET_COMMIT:
            end = 4 + int.from_bytes(record.key[2:4], "big")
            if record.key[4:end].decode() != group or record.value is None:
                continue
            _, partition = parse_tail(record.key[end:])
            offset = parse_offset(record.value).offset
            count += 1
            if offset < last.get(partition, 0):
                went_back.append(f"{partition}: {last[partition]} to {offset} in generation {generation}")
            last[partition] = offset
        elif record.value is not None and decode_key(record.key) is not None:
            value = decode_value(key_type, record.value)
            if isinstance(value, GroupMetadataValue):
                generation = value.generation
            elif isinstance(value, ConsumerGroupMetadataValue):
                generation = value.epoch
    return Commits(last, went_back, count)


def now() -> float:
    return time.monotonic()
