"""FindCoordinator (10): which broker looks after a group or a transactional id.

Versions 0-6. Nobody does yet: every key is answered with COORDINATOR_NOT_AVAILABLE, which a client takes for "ask again".

It is served all the same because librdkafka compresses with lz4 only where it sees this API (it stands for "newer than
0.8.2" there); without it, producers that ask for lz4 send uncompressed batches and say nothing.
"""

from __future__ import annotations

from moldau.broker.registry import handles
from moldau.broker.session import Request
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
)

MANY_KEYS_FROM = 4
NO_NODE = -1
REASON = "This broker coordinates no groups and no transactions."


@handles(ApiKey.FIND_COORDINATOR)
def find_coordinator(request: Request, message: FindCoordinatorRequest) -> FindCoordinatorResponse:
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if request.version < MANY_KEYS_FROM:
        return FindCoordinatorResponse(error_code=code, error_message=REASON, node_id=NO_NODE, port=NO_NODE)
    coordinators = [
        FindCoordinatorResponseCoordinator(
            key=key, node_id=NO_NODE, port=NO_NODE, error_code=code, error_message=REASON
        )
        for key in message.coordinator_keys
    ]
    return FindCoordinatorResponse(coordinators=coordinators)
