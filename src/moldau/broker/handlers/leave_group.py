"""LeaveGroup (13): members leave a classic group now rather than when their session ends.

Versions 0-5; from 3 on several at once, static ones by their group.instance.id.
"""

from __future__ import annotations

from moldau.broker.groups import Membership
from moldau.broker.registry import Answer, handles
from moldau.broker.session import Request
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


@handles(ApiKey.LEAVE_GROUP)
def leave_group(request: Request, message: LeaveGroupRequest) -> Answer:
    if not request.authorized(Operation.READ, ResourceType.GROUP, message.group_id):
        return refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return Membership(request, message.group_id, message, refused)


def refused(code: ErrorCode) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=code)
