"""DescribeQuorum (55): the controller, in the form of a KRaft quorum.

Versions 0-2.

* There is no KRaft quorum: the metadata is in ZooKeeper, or in the embedded store of a single broker.
* The controller is the leader and the only voter. The controller epoch is the leader epoch. From version 2 on, the
  response has the addresses of the controller.
* There is no metadata log: all its offsets are -1. There are no observers.
* Without a controller the error is LEADER_NOT_AVAILABLE.
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import handles
from moldau.cluster.image import NO_CONTROLLER
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponseListener,
    DescribeQuorumResponseNode,
    DescribeQuorumResponsePartition,
    DescribeQuorumResponseReplica,
    DescribeQuorumResponseTopic,
)

CLUSTER_METADATA = "__cluster_metadata"
NO_OFFSET = -1


@handles(ApiKey.DESCRIBE_QUORUM)
async def describe_quorum(request: Request, message: DescribeQuorumRequest) -> DescribeQuorumResponse:
    if not request.authorized(Operation.DESCRIBE, ResourceType.CLUSTER):
        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeQuorumResponse(error_code=denied, error_message="Not allowed to describe the cluster.")
    controller, epoch = await request.broker.metadata.controller()
    topics = [
        DescribeQuorumResponseTopic(
            topic_name=topic.topic_name,
            partitions=[
                _partition(topic.topic_name, one.partition_index, controller, epoch) for one in topic.partitions
            ],
        )
        for topic in message.topics
    ]
    return DescribeQuorumResponse(topics=topics, nodes=_nodes(request, controller))


def _partition(topic: str, index: int, controller: int, epoch: int) -> DescribeQuorumResponsePartition:
    partition = DescribeQuorumResponsePartition(partition_index=index)  # its error message is not nullable in Kafka
    if (topic, index) != (CLUSTER_METADATA, 0):
        partition.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partition.error_message = f"There is no quorum of {topic}-{index}."
    elif controller == NO_CONTROLLER:
        partition.error_code = ErrorCode.LEADER_NOT_AVAILABLE
        partition.error_message = "The cluster has no controller at the moment."
    else:
        partition.leader_id, partition.leader_epoch, partition.high_watermark = controller, epoch, NO_OFFSET
        partition.current_voters = [DescribeQuorumResponseReplica(replica_id=controller, log_end_offset=NO_OFFSET)]
    return partition


def _nodes(request: Request, controller: int) -> list[DescribeQuorumResponseNode]:
    broker = request.broker.image.brokers.get(controller)
    if broker is None:
        return []
    listeners = [
        DescribeQuorumResponseListener(name=one.listener, host=one.host, port=one.port) for one in broker.endpoints
    ]
    return [DescribeQuorumResponseNode(node_id=controller, listeners=listeners)]
