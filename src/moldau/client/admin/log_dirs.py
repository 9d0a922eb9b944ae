"""The data directories of brokers: what is in them, and moving a partition from one to another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from moldau.client.admin.calls import Brokers, Calls
from moldau.client.admin.offsets import by_topic
from moldau.client.admin.outcome import Answers, checked, judged, listed, settled
from moldau.client.errors import BrokerError
from moldau.client.model import TopicPartition
from moldau.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsRequestLogDir,
    AlterReplicaLogDirsRequestTopic,
    AlterReplicaLogDirsResponse,
)
from moldau.wire.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsRequestTopic,
    DescribeLogDirsResponse,
)

NOT_TOLD = -1

Replica = tuple[TopicPartition, int]
"""The copy of a partition on a broker."""


@dataclass(frozen=True)
class ReplicaInfo:
    """One copy of a partition in a directory."""

    size: int
    """Bytes."""
    offset_lag: int
    is_future: bool
    """Being copied here from another directory, to take that one's place."""


@dataclass(frozen=True)
class LogDir:
    """A data directory of a broker; `error` where it is offline."""

    path: str
    replicas: Mapping[TopicPartition, ReplicaInfo] = field(default_factory=dict)
    total_bytes: int | None = None
    usable_bytes: int | None = None
    error: BrokerError | None = None


def describe_request(partitions: Iterable[TopicPartition] | None) -> DescribeLogDirsRequest:
    if partitions is None:
        return DescribeLogDirsRequest(topics=None)
    return DescribeLogDirsRequest(
        topics=by_topic(
            partitions,
            lambda topic, some: DescribeLogDirsRequestTopic(topic=topic, partitions=[one.partition for one in some]),
        )
    )


def read_described(response: DescribeLogDirsResponse, node: int) -> tuple[LogDir, ...]:
    checked(response.error_code, f"describing the data directories of broker {node}")
    return tuple(
        LogDir(
            one.log_dir,
            {
                TopicPartition(topic.name, replica.partition_index): ReplicaInfo(
                    replica.partition_size, replica.offset_lag, replica.is_future_key
                )
                for topic in one.topics
                # A copy that has just taken its place may be told twice: what holds is the last one here.
                for replica in sorted(topic.partitions, key=lambda one: not one.is_future_key)
            },
            None if one.total_bytes == NOT_TOLD else one.total_bytes,
            None if one.usable_bytes == NOT_TOLD else one.usable_bytes,
            judged(one.error_code, f"data directory {one.log_dir} of broker {node}"),
        )
        for one in response.results
    )


def alter_request(paths: Mapping[TopicPartition, str]) -> AlterReplicaLogDirsRequest:
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDirsRequestLogDir(
                path=path,
                topics=by_topic(
                    (partition for partition, wanted in paths.items() if wanted == path),
                    lambda topic, some: AlterReplicaLogDirsRequestTopic(
                        name=topic, partitions=[one.partition for one in some]
                    ),
                ),
            )
            for path in dict.fromkeys(paths.values())
        ]
    )


def read_altered(response: AlterReplicaLogDirsResponse, node: int) -> Answers[Replica, None]:
    return {
        (TopicPartition(topic.topic_name, one.partition_index), node): judged(
            one.error_code, f"moving {topic.topic_name}-{one.partition_index} on broker {node}"
        )
        for topic in response.results
        for one in topic.partitions
    }


class LogDirCalls(Calls):
    """The admin's calls about data directories."""

    async def describe_log_dirs(
        self,
        brokers: int | Iterable[int] | None = None,
        partitions: TopicPartition | Iterable[TopicPartition] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[int, tuple[LogDir, ...]]:
        """The data directories of these brokers or of all, with the sizes of these partitions or of all."""
        deadline = self._deadline(timeout)
        nodes = await self._nodes(deadline) if brokers is None else listed(brokers, int)
        wanted = None if partitions is None else listed(partitions, TopicPartition)
        return settled(
            await self._each(
                nodes,
                Brokers[int](lambda node: node),
                lambda _one: describe_request(wanted),
                lambda response, one: {one[0]: read_described(response, one[0])},
                deadline=deadline,
                what="describing the data directories of broker",
            )
        )

    async def alter_replica_log_dirs(self, paths: Mapping[Replica, str], *, timeout: float | None = None) -> None:
        """Move the copy of a partition on a broker, `(partition, broker)`, into another of that broker's directories.

        It goes on while the partition is read and written; the call returns when it has begun.
        """
        settled(
            await self._each(
                paths,
                Brokers[Replica](lambda replica: replica[1]),
                lambda some: alter_request({replica[0]: paths[replica] for replica in some}),
                lambda response, some: read_altered(response, some[0][1]),
                deadline=self._deadline(timeout),
                what="moving",
            )
        )
