"""Heartbeat (12): keeps the session of a classic group's member alive and tells it when to rejoin.

Versions 0-4.
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.coordinators.group_coordinator import GroupRequest
from moldau.broker.requests.handler_registry import Answer, handles
from moldau.groups.events import Heartbeat
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@handles(ApiKey.HEARTBEAT)
def heartbeat(request: Request, message: HeartbeatRequest) -> Answer:
    if not request.authorized(Operation.READ, ResourceType.GROUP, message.group_id):
        return refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return GroupRequest(request, message.group_id, Heartbeat, message, refused)


def refused(code: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=code)
