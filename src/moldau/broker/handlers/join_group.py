"""JoinGroup (11): become a member of a classic group, and take part in its rebalance.

Versions 0-9. From 4 on a new member is first given an id (MEMBER_ID_REQUIRED) and comes again with it. The answer waits
until all members have joined or the rebalance time-out is up; only the leader hears of the others.
"""

from __future__ import annotations

from moldau.broker.groups import Membership
from moldau.broker.registry import Answer, handles
from moldau.broker.session import Request
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse


@handles(ApiKey.JOIN_GROUP)
def join_group(request: Request, message: JoinGroupRequest) -> Answer:
    if not request.authorized(Operation.READ, ResourceType.GROUP, message.group_id):
        return refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return Membership(request, message.group_id, message, refused)


def refused(code: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code)
