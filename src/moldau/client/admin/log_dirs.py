"""Data directory calls of the admin client: describe directories, and move replicas between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from moldau.client import arguments
from moldau.client.admin.calls import Brokers, Calls
from moldau.client.admin.outcome import Answers, checked, judged, settled
from moldau.client.admin.topics import broker_id
from moldau.client.data_types import TopicPartition
from moldau.client.errors import BrokerError
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
from moldau.wire.topic_partition import by_topic

NOT_TOLD = -1

Replica = tuple[TopicPartition, int]
"""A replica: a partition and a broker id."""


@dataclass(frozen=True)
class ReplicaInfo:
    """One replica in a data directory."""

    size: int
    """The size in bytes."""
    offset_lag: int
    is_future: bool
    """Whether it is being copied from another directory and will replace the replica there."""


@dataclass(frozen=True)
class LogDir:
    """A data directory of a broker. `error` is set if it is offline."""

    path: str
    replicas: Mapping[TopicPartition, ReplicaInfo] = field(default_factory=dict)
    total_bytes: int | None = None
    usable_bytes: int | None = None
    error: BrokerError | None = None


def describe_request(partitions: Iterable[TopicPartition] | None) -> DescribeLogDirsRequest:
    if partitions is None:
        return DescribeLogDirsRequest(topics=None)
    return DescribeLogDirsRequest(
        topics=[
            DescribeLogDirsRequestTopic(topic=topic, partitions=indexes)
            for topic, indexes in by_topic(partitions).items()
        ]
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
                # A replica that has just been moved may be listed twice. The entry that is not "future" wins.
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
                topics=[
                    AlterReplicaLogDirsRequestTopic(name=topic, partitions=indexes)
                    for topic, indexes in by_topic(
                        partition for partition, wanted in paths.items() if wanted == path
                    ).items()
                ],
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


def _brokers(given: int | Iterable[int]) -> list[int]:
    some = [given] if isinstance(given, int) else given
    return list(dict.fromkeys(arguments.several("brokers", some, broker_id, "the id of a broker, or several")))


def _replica(name: str, given: Any) -> Replica:
    if not isinstance(given, tuple) or len(given) != 2:
        arguments.refuse(name, given, 'a partition and a broker, such as (TopicPartition("orders", 0), 1)')
    return arguments.partition(name, given[0]), broker_id(name, given[1])


class LogDirCalls(Calls):
    """Admin calls about data directories."""

    async def describe_log_dirs(
        self,
        brokers: int | Iterable[int] | None = None,
        partitions: TopicPartition | Iterable[TopicPartition] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[int, tuple[LogDir, ...]]:
        """Return the data directories of these brokers, or of all, with the sizes of these partitions, or of all."""
        deadline = self._deadline(timeout)
        nodes = await self._nodes(deadline) if brokers is None else _brokers(brokers)
        wanted = arguments.optional_partitions("partitions", partitions)
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
        """Move replicas to another data directory of the same broker: `{(partition, broker): path}`.

        The call returns when the moves have started. Partitions can be read and written meanwhile. Raises
        LogDirNotFound if the broker does not have the directory.
        """
        wanted = arguments.mapping("paths", paths, _replica, arguments.text)
        settled(
            await self._each(
                wanted,
                Brokers[Replica](lambda replica: replica[1]),
                lambda some: alter_request({replica[0]: wanted[replica] for replica in some}),
                lambda response, some: read_altered(response, some[0][1]),
                deadline=self._deadline(timeout),
                what="moving",
            )
        )
