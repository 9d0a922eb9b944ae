"""DescribeCluster (60): the brokers, the controller, the cluster's id.

Versions 0-2. Only brokers can be described (endpoint type 1); there are no separate controllers to ask for. Told are
the live brokers that have the listener which the client came in by, this one also while it is not registered, and the
controller as it is: -1 while there is none. A broker that is registered serves, so none is ever told as fenced.
"""

from __future__ import annotations

from moldau.broker.registry import handles
from moldau.broker.session import Request
from moldau.broker.standing import told_brokers
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeClusterResponseBroker,
)

BROKERS = 1


@handles(ApiKey.DESCRIBE_CLUSTER)
def describe_cluster(request: Request, message: DescribeClusterRequest) -> DescribeClusterResponse:
    if message.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message=f"endpoint type {message.endpoint_type} was asked for; this is a broker (type {BROKERS})",
            cluster_id="",
        )
    if not request.authorized(Operation.DESCRIBE, ResourceType.CLUSTER):
        return DescribeClusterResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, cluster_id="")
    image = request.broker.image
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        brokers=[
            DescribeClusterResponseBroker(broker_id=node.id, host=endpoint.host, port=endpoint.port, rack=node.rack)
            for node, endpoint in told_brokers(request.session.listener)
        ],
        cluster_authorized_operations=request.authorized_operations(
            message.include_cluster_authorized_operations, ResourceType.CLUSTER
        ),
    )
