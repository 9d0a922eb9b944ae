"""ListPartitionReassignments (46): the partitions that are being moved to other brokers.

Version 0.

* A null list of topics means all. Partitions that do not move or do not exist are omitted.
* The response is built from this broker's image, which may lag behind the last change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import handles
from moldau.cluster.image import ClusterImage, PartitionState
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsResponsePartition,
    ListPartitionReassignmentsResponseTopic,
)


@handles(ApiKey.LIST_PARTITION_REASSIGNMENTS)
def list_partition_reassignments(
    request: Request, message: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    if not request.authorized(Operation.DESCRIBE, ResourceType.CLUSTER):
        return _denied(message)
    image = request.broker.image
    asked = {topic.name: topic.partition_indexes for topic in message.topics or ()}
    topics = []
    for name in image.topics if message.topics is None else asked:
        moving = [
            ListPartitionReassignmentsResponsePartition(
                partition_index=index,
                replicas=list(state.replicas),
                adding_replicas=list(state.adding),
                removing_replicas=list(state.removing),
            )
            for index, state in _states(image, name, asked.get(name))
            if state.adding or state.removing
        ]
        if moving:
            topics.append(ListPartitionReassignmentsResponseTopic(name=name, partitions=moving))
    return ListPartitionReassignmentsResponse(error_message=None, topics=topics)


def _denied(message: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    """The refusal repeats the partitions of the request, as Kafka's does."""
    return ListPartitionReassignmentsResponse(
        error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        error_message="may not describe the cluster",
        topics=[
            ListPartitionReassignmentsResponseTopic(
                name=topic.name,
                partitions=[
                    ListPartitionReassignmentsResponsePartition(partition_index=index)
                    for index in topic.partition_indexes
                ],
            )
            for topic in message.topics or ()
        ],
    )


def _states(image: ClusterImage, topic: str, indexes: Iterable[int] | None) -> Iterator[tuple[int, PartitionState]]:
    """The partitions that exist; all partitions of the topic if `indexes` is None."""
    if indexes is None:
        yield from enumerate(image.topics[topic].partitions)
        return
    for index in dict.fromkeys(indexes):
        state = image.partition(topic, index)
        if state is not None:
            yield index, state
