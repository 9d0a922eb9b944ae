"""AlterPartitionReassignments (45): move partitions to other brokers, or cancel such a move.

Versions 0-1.

* The response is sent when the target replicas are stored. Then the new replicas copy the log, and the controller
  removes the old ones when the new ones are in sync. ListPartitionReassignments shows the progress.
* A null list of replicas cancels the reassignment in progress.
* From version 1 on, the client may forbid a change of the replication factor.
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import handles
from moldau.cluster.errors import Refusal
from moldau.cluster.image import ClusterImage
from moldau.cluster.reassignments import Reassignment
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterPartitionReassignmentsResponsePartition,
    AlterPartitionReassignmentsResponseTopic,
)
from moldau.wire.topic_partition import TopicPartition


@handles(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
async def alter_partition_reassignments(
    request: Request, message: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    if not request.authorized(Operation.ALTER, ResourceType.CLUSTER):
        denied = Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "may not alter the cluster")
        named = (
            TopicPartition(topic.name, one.partition_index) for topic in message.topics for one in topic.partitions
        )
        response = _response(dict.fromkeys(named, denied), message.allow_replication_factor_change)
        response.error_code, response.error_message = denied.code, denied.message
        return response
    results: dict[TopicPartition, Refusal | None] = {}
    wanted: list[Reassignment] = []
    for topic in message.topics:
        for one in topic.partitions:
            key = TopicPartition(topic.name, one.partition_index)
            if key in results:
                results[key] = Refusal(ErrorCode.INVALID_REQUEST, f"{key} is named twice")
                wanted = [other for other in wanted if (other.topic, other.index) != key]
                continue
            target = Reassignment(*key, None if one.replicas is None else tuple(one.replicas))
            results[key] = None
            if not message.allow_replication_factor_change:
                results[key] = _factor_refusal(request.broker.image, target)
            if results[key] is None:
                wanted.append(target)
    for target, refusal in zip(wanted, await request.broker.metadata.reassign(wanted), strict=True):
        results[TopicPartition(target.topic, target.index)] = refusal
    return _response(results, message.allow_replication_factor_change)


def _factor_refusal(image: ClusterImage, target: Reassignment) -> Refusal | None:
    """Refuse a target with another number of replicas. Replicas that are being removed do not count."""
    state = image.partition(target.topic, target.index)
    if state is None or target.replicas is None:
        return None  # the controller answers for unknown partitions and for cancellations
    now = len([one for one in state.replicas if one not in state.removing])
    if now == len(target.replicas):
        return None
    return Refusal(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"{target.topic}-{target.index} has {now} replicas, {len(target.replicas)} are asked for, and the request does "
        "not allow to change their number",
    )


def _response(
    results: dict[TopicPartition, Refusal | None], allow_replication_factor_change: bool
) -> AlterPartitionReassignmentsResponse:
    topics: dict[str, AlterPartitionReassignmentsResponseTopic] = {}
    for (name, index), refusal in results.items():
        topics.setdefault(name, AlterPartitionReassignmentsResponseTopic(name=name)).partitions.append(
            AlterPartitionReassignmentsResponsePartition(
                partition_index=index,
                error_code=ErrorCode.NONE if refusal is None else refusal.code,
                error_message=None if refusal is None else refusal.message,
            )
        )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=allow_replication_factor_change,
        error_message=None,
        responses=list(topics.values()),
    )
