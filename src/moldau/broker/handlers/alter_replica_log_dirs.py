"""AlterReplicaLogDirs (34): move partitions to other data directories of this broker.

Versions 1-2.

* The response is sent when the move has begun. DescribeLogDirs shows the copy and its lag.
* A directory that is not in `log.dirs` is LOG_DIR_NOT_FOUND. A failed directory is KAFKA_STORAGE_ERROR. A partition
  that this broker does not host is REPLICA_NOT_AVAILABLE.
* A request for the directory in which the partition already is cancels its move.
* Gap: a restart cancels moves, too. Kafka continues them; here they must be requested again.
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import handles
from moldau.log.log_dir import DataDirectory
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirsResponsePartition,
    AlterReplicaLogDirsResponseTopic,
)


@handles(ApiKey.ALTER_REPLICA_LOG_DIRS)
async def alter_replica_log_dirs(request: Request, message: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    allowed = request.authorized(Operation.ALTER, ResourceType.CLUSTER)
    directories = {directory.path: directory for directory in request.broker.log_dirs.all}
    results: dict[str, list[AlterReplicaLogDirsResponsePartition]] = {}
    for wanted in message.dirs:
        target = directories.get(wanted.path.rstrip("/") or "/")
        for topic in wanted.topics:
            answers = results.setdefault(topic.name, [])
            for index in topic.partitions:
                code = _move(request, topic.name, index, target) if allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                answers.append(AlterReplicaLogDirsResponsePartition(partition_index=index, error_code=code))
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirsResponseTopic(topic_name=name, partitions=answers) for name, answers in results.items()
        ]
    )


def _move(request: Request, topic: str, index: int, target: DataDirectory | None) -> ErrorCode:
    if target is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    partition = request.broker.replicas.find(topic, index)
    if partition is None:
        return ErrorCode.REPLICA_NOT_AVAILABLE
    if not target.online or partition.failure:
        return ErrorCode.KAFKA_STORAGE_ERROR
    request.broker.moves.begin(partition, target)
    return ErrorCode.NONE
