"""Offset calls of the admin client: first and last offsets, offsets by time, and deletion of records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import IntEnum
from typing import NamedTuple, TypeVar

from moldau.client import arguments
from moldau.client.admin.calls import Calls, Leaders
from moldau.client.admin.outcome import Answers, judged, settled
from moldau.client.data_types import TopicPartition
from moldau.client.errors import ConfigurationError
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
from moldau.wire.topic_partition import by_topic

T = TypeVar("T")

UP_TO_THE_END = -1
"""As an offset of `delete_records`: all records up to the high watermark."""

NO_REPLICA = -1
ISOLATION_LEVELS = {"read_uncommitted": 0, "read_committed": 1}


class OffsetSpec(IntEnum):
    """The offset to look up. A number of 0 or more is a time in milliseconds: the first record at or after it."""

    LATEST = -1
    """The end: the offset of the next record."""
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
"""The first version that supports each value. With earlier versions a broker takes the value for a timestamp."""


class ListedOffset(NamedTuple):
    """The result of an offset lookup. The offset is -1 if there is no record at that time or later."""

    offset: int
    timestamp: int
    leader_epoch: int | None = None


def list_request(
    wanted: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition], isolation_level: int, timeout_ms: int
) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=NO_REPLICA,
        isolation_level=isolation_level,
        topics=[
            ListOffsetsRequestTopic(
                name=topic,
                partitions=[
                    ListOffsetsRequestPartition(partition_index=index, timestamp=wanted[TopicPartition(topic, index)])
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(partitions).items()
        ],
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
        topics=[
            DeleteRecordsRequestTopic(
                name=topic,
                partitions=[
                    DeleteRecordsRequestPartition(partition_index=index, offset=before[TopicPartition(topic, index)])
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(partitions).items()
        ],
        timeout_ms=timeout_ms,
    )


def read_deleted(response: DeleteRecordsResponse) -> Answers[TopicPartition, int]:
    answers: Answers[TopicPartition, int] = {}
    for topic in response.topics:
        for one in topic.partitions:
            error = judged(one.error_code, f"deleting records of {topic.name}-{one.partition_index}")
            answers[TopicPartition(topic.name, one.partition_index)] = one.low_watermark if error is None else error
    return answers


def _spec(name: str, given: int | datetime) -> int:
    found = arguments.milliseconds(name, given)
    if found < 0 and found not in OffsetSpec.__members__.values():
        arguments.refuse(name, given, "an OffsetSpec, a datetime with a time zone, or milliseconds since 1970")
    return found


def _end(name: str, given: int) -> int:
    return arguments.number(name, given, UP_TO_THE_END)


class OffsetCalls(Calls):
    """Admin calls about offsets of partitions."""

    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, int | datetime],
        *,
        isolation_level: str = "read_uncommitted",
        timeout: float | None = None,
    ) -> dict[TopicPartition, ListedOffset]:
        """Return the offset of each partition for an `OffsetSpec`, or for a time.

        A time is a datetime with a time zone, or milliseconds since 1970. With `isolation_level="read_committed"` the
        latest offset is the last stable offset.
        """
        specs = arguments.by_partition("wanted", wanted, _spec)
        return settled(await self._listed_offsets(specs, self._deadline(timeout), isolation_level))

    async def _listed_offsets(
        self, wanted: Mapping[TopicPartition, int], deadline: float, isolation_level: str = "read_uncommitted"
    ) -> Answers[TopicPartition, ListedOffset]:
        if arguments.text("isolation_level", isolation_level) not in ISOLATION_LEVELS:
            raise ConfigurationError(
                f"isolation_level: {isolation_level!r} is not known; give read_uncommitted or read_committed"
            )
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
        """Delete the records before an offset per partition; `UP_TO_THE_END` deletes all records.

        Return the new first offset of each partition. Raises OffsetOutOfRange if an offset is after the high watermark.
        """
        deadline = self._deadline(timeout)
        wanted = arguments.by_partition("before", before, _end)
        return settled(
            await self._each(
                wanted,
                Leaders(self),
                lambda some: delete_request(wanted, some, self._broker_timeout_ms(deadline)),
                lambda response, _some: read_deleted(response),
                deadline=deadline,
                what="deleting records of",
            )
        )
