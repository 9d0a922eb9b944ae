"""Where partitions begin and end, what was written when, and the deletion of records up to an offset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from itertools import groupby
from typing import NamedTuple, TypeVar

from moldau.client.admin.calls import Calls, Leaders
from moldau.client.admin.outcome import Answers, judged, settled
from moldau.client.errors import ConfigurationError
from moldau.client.model import TopicPartition
from moldau.wire.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
    DeleteRecordsResponse,
)
from moldau.wire.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
)

T = TypeVar("T")

UP_TO_THE_END = -1
"""As an offset of `delete_records`: all records that consumers can see."""

NO_REPLICA = -1
ISOLATION_LEVELS = {"read_uncommitted": 0, "read_committed": 1}


class OffsetSpec(IntEnum):
    """Which offset is wanted. A number from 0 on is a time in milliseconds: the first record not before it."""

    LATEST = -1
    """The offset that the next record will get."""
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    """The record with the largest timestamp."""
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


MIN_VERSION_OF = {
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
    OffsetSpec.EARLIEST_PENDING_UPLOAD: 11,
}
"""A broker that is asked by an earlier version takes these for times long ago."""


class ListedOffset(NamedTuple):
    """An offset that was asked for. -1 where there is none: no record at that time or later."""

    offset: int
    timestamp: int
    leader_epoch: int | None = None


def by_topic(partitions: Iterable[TopicPartition], make: Callable[[str, list[TopicPartition]], T]) -> list[T]:
    """One value a topic, of its partitions: what most requests are made of."""
    return [make(topic, list(some)) for topic, some in groupby(sorted(partitions), key=lambda one: one.topic)]


def list_request(
    wanted: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition], isolation_level: int, timeout_ms: int
) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=NO_REPLICA,
        isolation_level=isolation_level,
        topics=by_topic(
            partitions,
            lambda topic, some: ListOffsetsRequestTopic(
                name=topic,
                partitions=[
                    ListOffsetsRequestPartition(partition_index=one.partition, timestamp=wanted[one]) for one in some
                ],
            ),
        ),
        timeout_ms=timeout_ms,
    )


def read_offsets(response: ListOffsetsResponse) -> Answers[TopicPartition, ListedOffset]:
    return {
        TopicPartition(topic.name, one.partition_index): judged(
            one.error_code, f"listing offsets of {topic.name}-{one.partition_index}"
        )
        or ListedOffset(one.offset, one.timestamp, None if one.leader_epoch < 0 else one.leader_epoch)
        for topic in response.topics
        for one in topic.partitions
    }


def delete_request(
    before: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition], timeout_ms: int
) -> DeleteRecordsRequest:
    return DeleteRecordsRequest(
        topics=by_topic(
            partitions,
            lambda topic, some: DeleteRecordsRequestTopic(
                name=topic,
                partitions=[
                    DeleteRecordsRequestPartition(partition_index=one.partition, offset=before[one]) for one in some
                ],
            ),
        ),
        timeout_ms=timeout_ms,
    )


def read_deleted(response: DeleteRecordsResponse) -> Answers[TopicPartition, int]:
    answers: Answers[TopicPartition, int] = {}
    for topic in response.topics:
        for one in topic.partitions:
            error = judged(one.error_code, f"deleting records of {topic.name}-{one.partition_index}")
            answers[TopicPartition(topic.name, one.partition_index)] = one.low_watermark if error is None else error
    return answers


class OffsetCalls(Calls):
    """The admin's calls about offsets of partitions."""

    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, int],
        *,
        isolation_level: str = "read_uncommitted",
        timeout: float | None = None,
    ) -> dict[TopicPartition, ListedOffset]:
        """The offset of each partition that an `OffsetSpec`, or a time in milliseconds, names."""
        return settled(await self._listed_offsets(wanted, self._deadline(timeout), isolation_level))

    async def _listed_offsets(
        self, wanted: Mapping[TopicPartition, int], deadline: float, isolation_level: str = "read_uncommitted"
    ) -> Answers[TopicPartition, ListedOffset]:
        if isolation_level not in ISOLATION_LEVELS:
            raise ConfigurationError(f"isolation_level is read_uncommitted or read_committed, not {isolation_level!r}")
        level = ISOLATION_LEVELS[isolation_level]
        return await self._each(
            wanted,
            Leaders(self),
            lambda some: list_request(wanted, some, level, self._broker_timeout_ms(deadline)),
            lambda response, _some: read_offsets(response),
            deadline=deadline,
            what="listing offsets of",
            min_version=max(
                (MIN_VERSION_OF.get(OffsetSpec(spec), 0) for spec in wanted.values() if spec < 0), default=0
            ),
        )

    async def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Delete the records before an offset (`UP_TO_THE_END`: all of them); the first offsets that are left."""
        deadline = self._deadline(timeout)
        return settled(
            await self._each(
                before,
                Leaders(self),
                lambda some: delete_request(before, some, self._broker_timeout_ms(deadline)),
                lambda response, _some: read_deleted(response),
                deadline=deadline,
                what="deleting records of",
            )
        )
