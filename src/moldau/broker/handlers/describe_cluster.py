"""DescribeCluster (60): the brokers, the controller and the id of the cluster.

Versions 0-2.

* Only brokers can be described (endpoint type 1). There are no separate controllers.
* The response lists the registered brokers that have the client's listener, and always this broker.
* The controller id is -1 if there is no controller.
* A registered broker serves requests, so no broker is listed as fenced.
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import handles
from moldau.broker.requests.partition_view import listed_brokers
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
    broker = request.broker
    image = broker.image
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        brokers=[
            DescribeClusterResponseBroker(broker_id=node.id, host=endpoint.host, port=endpoint.port, rack=node.rack)
            for node, endpoint in listed_brokers(
                image, request.session.listener, broker.node_id, broker.settings["broker.rack"]
            )
        ],
        cluster_authorized_operations=request.cluster_operations(message.include_cluster_authorized_operations),
    )
