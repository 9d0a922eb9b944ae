"""UnregisterBroker (64): remove the registration of a broker that will not return.

Version 0.

* A registration ends with the broker's session with the metadata store. So a stopped broker is
  BROKER_ID_NOT_REGISTERED: there is nothing left to remove.
* A registered broker is alive and cannot be unregistered. INVALID_REQUEST says to stop it.
* In both cases its replicas are moved with AlterPartitionReassignments.
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import handles
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


@handles(ApiKey.UNREGISTER_BROKER)
def unregister_broker(request: Request, message: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    if not request.authorized(Operation.ALTER, ResourceType.CLUSTER):
        return UnregisterBrokerResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=None)
    broker_id = message.broker_id
    if broker_id not in request.broker.image.brokers:
        return UnregisterBrokerResponse(
            error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
            error_message=f"Broker ID {broker_id} is not currently registered",
        )
    return UnregisterBrokerResponse(
        error_code=ErrorCode.INVALID_REQUEST,
        error_message=f"Broker {broker_id} is alive: stop it, and its registration ends with its session",
    )
