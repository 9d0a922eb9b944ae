"""DescribeTopicPartitions (75): topics and their partitions, in pages.

Version 0.

* Topics are sorted by name. No names means all topics that the client may describe.
* A page has at most `response_partition_limit` partitions (at least one, at most `max.request.partition.size.limit`).
  The cursor says where the next page begins.
* Leaders and offline replicas are as in Metadata. The response also has the eligible leader replicas (KIP-966).
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import handles
from moldau.broker.requests.partition_view import PartitionView
from moldau.cluster.image import TopicImage
from moldau.cluster.topic_names import topic_name_error
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


@handles(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
def describe_topic_partitions(
    request: Request, message: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    image = request.broker.image
    named = {topic.name for topic in message.topics}
    first_topic, first_partition = "", 0
    if message.cursor is not None:
        first_topic, first_partition = message.cursor.topic_name, max(0, message.cursor.partition_index)
    left = max(1, min(message.response_partition_limit, request.broker.settings["max.request.partition.size.limit"]))
    view = PartitionView(image, request.broker.node_id, request.session.listener.name)
    response = DescribeTopicPartitionsResponse()
    for name in sorted(named or image.topics):
        if name < first_topic:
            continue
        # Before the limit: the cursor must not name a topic that the client may not see.
        if not request.authorized(Operation.DESCRIBE, ResourceType.TOPIC, name, audited=name in named):
            if named:
                response.topics.append(
                    DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
                )
            continue
        if not left:
            response.next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=0)
            break
        topic = image.topics.get(name)
        if topic is None:
            response.topics.append(_unknown(request, name))
            continue
        start = first_partition if name == first_topic else 0
        stop = min(len(topic.partitions), start + left)
        response.topics.append(_topic(request, view, topic, start, stop))
        left -= max(0, stop - start)
        if stop < len(topic.partitions):
            response.next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=stop)
            break
    return response


def _unknown(request: Request, name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic_name_error(name) is None else ErrorCode.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        topic_authorized_operations=request.authorized_operations(True, ResourceType.TOPIC, name),
    )


def _topic(
    request: Request, view: PartitionView, topic: TopicImage, start: int, stop: int
) -> DescribeTopicPartitionsResponseTopic:
    lost = request.broker.replicas.offline_in(topic.name)
    partitions = []
    for index in range(start, stop):
        state = topic.partitions[index]
        error, leader, offline = view.status(state, lost_here=index in lost)
        partitions.append(
            DescribeTopicPartitionsResponsePartition(
                error_code=error,
                partition_index=index,
                leader_id=leader,
                leader_epoch=state.leader_epoch,
                replica_nodes=list(state.replicas),
                isr_nodes=list(state.isr),
                eligible_leader_replicas=list(state.elr),
                last_known_elr=list(state.last_known_elr),
                offline_replicas=offline,
            )
        )
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=partitions,
        topic_authorized_operations=request.authorized_operations(True, ResourceType.TOPIC, topic.name),
    )
