"""DescribeLogDirs (35): the contents and the free space of the data directories.

Versions 1-5.

* A null list of topics means all.
* A failed directory is listed with KAFKA_STORAGE_ERROR and without contents.
* The copy of a partition that is being moved is listed as a future replica, with its lag in offsets.
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import handles
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResponseLogDir,
    DescribeLogDirsResponsePartition,
    DescribeLogDirsResponseTopic,
)


@handles(ApiKey.DESCRIBE_LOG_DIRS)
async def describe_log_dirs(request: Request, message: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    if not request.authorized(Operation.DESCRIBE, ResourceType.CLUSTER):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted = None
    if message.topics is not None:
        wanted = {(topic.topic, index) for topic in message.topics for index in topic.partitions}
    # All awaits come first. The rest runs in one step of the loop, so a partition that moves to another directory is
    # listed in exactly one of them, not in both or neither.
    spaces = {
        directory.path: await request.broker.threads.run("describe", directory.space)
        for directory in request.broker.log_dirs.all
        if directory.online
    }
    in_use = request.broker.log_dirs.logs
    results = []
    for directory in request.broker.log_dirs.all:
        result = DescribeLogDirsResponseLogDir(log_dir=directory.path)
        results.append(result)
        if not directory.online or directory.path not in spaces:
            result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            continue
        result.total_bytes, result.usable_bytes = spaces[directory.path]
        by_topic: dict[str, list[DescribeLogDirsResponsePartition]] = {}
        for log in directory.logs.values():
            # After a move the old log stays in its directory until it is deleted: skip it.
            if in_use.get(log.name) is log and (wanted is None or (log.topic, log.partition) in wanted):
                by_topic.setdefault(log.topic, []).append(
                    DescribeLogDirsResponsePartition(partition_index=log.partition, partition_size=log.size_bytes)
                )
        for move in request.broker.moves.into(directory):
            topic, index = move.source.name
            is_copy = in_use.get(move.source.name) is move.source  # the copy has not replaced its source yet
            if is_copy and (wanted is None or (topic, index) in wanted):
                by_topic.setdefault(topic, []).append(
                    DescribeLogDirsResponsePartition(
                        partition_index=index,
                        partition_size=move.size_bytes,
                        offset_lag=move.lag,
                        is_future_key=True,
                    )
                )
        result.topics = [
            DescribeLogDirsResponseTopic(name=name, partitions=partitions) for name, partitions in by_topic.items()
        ]
    return DescribeLogDirsResponse(results=results)
