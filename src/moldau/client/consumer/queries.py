"""Consumer queries: beginning and end offsets, offsets by time, lag, topics, partitions and metrics."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from moldau.client import arguments
from moldau.client.consumer.core import ConsumerCore
from moldau.client.consumer.offset_lookup import OffsetAndTimestamp
from moldau.client.consumer.position_rules import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from moldau.client.data_types import TopicPartition
from moldau.client.errors import error_for
from moldau.client.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata, merge
from moldau.client.network import ANY_NODE
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

ABSENT = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION})


class Queries:
    """The queries of one consumer. Owned by the event loop."""

    def __init__(self, core: ConsumerCore) -> None:
        core.check_open()
        self._core = core

    async def beginning_offsets(
        self, partitions: Collection[TopicPartition] | None, deadline: float
    ) -> dict[TopicPartition, int]:
        return await self._offsets(partitions, EARLIEST_TIMESTAMP, deadline)

    async def end_offsets(
        self, partitions: Collection[TopicPartition] | None, deadline: float
    ) -> dict[TopicPartition, int]:
        return await self._offsets(partitions, LATEST_TIMESTAMP, deadline)

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int | datetime], deadline: float
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        wanted = arguments.by_partition("times", times, arguments.milliseconds)
        for partition, time in wanted.items():
            arguments.number(f"time of {partition}, in milliseconds since 1970", time, 0)
        found = await self._core.lookup.list_offsets(wanted, deadline, "looking up offsets by time")
        return {partition: one if one.offset >= 0 else None for partition, one in found.items()}

    async def lag(self, partitions: Collection[TopicPartition] | None, deadline: float) -> dict[TopicPartition, int]:
        ends = await self.end_offsets(partitions, deadline)
        return {
            partition: max(end - await self._core.position(partition, deadline), 0) for partition, end in ends.items()
        }

    async def _offsets(
        self, partitions: Collection[TopicPartition] | None, timestamp: int, deadline: float
    ) -> dict[TopicPartition, int]:
        chosen = list(self._core.subscription.assigned) if partitions is None else list(partitions)
        if not chosen:
            return {}
        wanted = dict.fromkeys(chosen, timestamp)
        found = await self._core.lookup.list_offsets(wanted, deadline, "looking up offsets")
        return {partition: found[partition].offset for partition in chosen}

    async def partitions_for(self, topic: str, deadline: float) -> list[PartitionMetadata]:
        found = await self._describe([arguments.text("topic", topic)], deadline)
        described = found.get(topic)
        if described is None or described.error in ABSENT:
            return []
        return list(described.partitions)

    async def list_topics(self, deadline: float) -> dict[str, list[PartitionMetadata]]:
        found = await self._describe(None, deadline)
        return {name: list(topic.partitions) for name, topic in found.items() if topic.error is ErrorCode.NONE}

    async def _describe(self, topics: list[str] | None, deadline: float) -> Mapping[str, TopicMetadata]:
        """Request metadata of these topics, or of all (None). The answer is not cached: queries are rare."""
        what = "asking for topics"
        request = MetadataRequest(
            topics=None if topics is None else [MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=False,
        )

        async def attempt() -> Mapping[str, TopicMetadata]:
            response = await self._core.network.call(ANY_NODE, request, deadline=deadline, min_version=4, what=what)
            found = merge(ClusterMetadata(), response).topics
            for name, topic in found.items():
                if topic.error.retriable and topic.error not in ABSENT and topics is not None:
                    raise error_for(topic.error, f"asking for topic {name!r}")
            return found

        return await self._core.network.retrying(attempt, deadline=deadline, what=what)

    def metrics(self) -> dict[str, float]:
        core = self._core
        return {
            "records-consumed-total": core.records_handed_out,
            "bytes-fetched-total": core.fetcher.bytes_fetched,
            "fetch-requests-total": core.fetcher.requests_sent,
            "buffered-bytes": core.buffer.held,
            "assigned-partitions": len(core.subscription.assigned),
        }
