"""LeaveGroup (13): leave a classic group at once, without waiting for the session timeout.

Versions 0-5; from version 3 on for several members. Static members are named by their group.instance.id.
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.coordinators.group_coordinator import GroupRequest
from moldau.broker.requests.handler_registry import Answer, handles
from moldau.groups.events import LeaveGroup
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


@handles(ApiKey.LEAVE_GROUP)
def leave_group(request: Request, message: LeaveGroupRequest) -> Answer:
    if not request.authorized(Operation.READ, ResourceType.GROUP, message.group_id):
        return refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return GroupRequest(request, message.group_id, LeaveGroup, message, refused)


def refused(code: ErrorCode) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=code)
