"""ConsumerGroupHeartbeat (68): all of the new group protocol for a member: join, stay, give up, take over, leave.

Versions 0-1; from 1 on with patterns (RE2), and with member ids that members choose. Epoch 0 joins, -1 leaves, -2 is a
static member that will come back. Assignors: uniform, range.
"""

from __future__ import annotations

from moldau.broker.groups import Membership
from moldau.broker.registry import Answer, handles
from moldau.broker.session import Request
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse


@handles(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def consumer_group_heartbeat(request: Request, message: ConsumerGroupHeartbeatRequest) -> Answer:
    if not request.authorized(Operation.READ, ResourceType.GROUP, message.group_id):
        return refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return Membership(request, message.group_id, message, refused)


def refused(code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code)
