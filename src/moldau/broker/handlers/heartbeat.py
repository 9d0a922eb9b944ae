"""Heartbeat (12): a member of a classic group is alive, and hears whether it has to rejoin.

Versions 0-4.
"""

from __future__ import annotations

from moldau.broker.groups import Membership
from moldau.broker.registry import Answer, handles
from moldau.broker.session import Request
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@handles(ApiKey.HEARTBEAT)
def heartbeat(request: Request, message: HeartbeatRequest) -> Answer:
    if not request.authorized(Operation.READ, ResourceType.GROUP, message.group_id):
        return refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return Membership(request, message.group_id, message, refused)


def refused(code: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=code)
