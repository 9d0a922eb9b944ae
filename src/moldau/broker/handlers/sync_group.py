"""SyncGroup (14): the leader of a classic group hands in what everybody is assigned, the others wait for it.

Versions 0-5. The answers leave when the assignment is stored.
"""

from __future__ import annotations

from moldau.broker.groups import Membership
from moldau.broker.registry import Answer, handles
from moldau.broker.session import Request
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


@handles(ApiKey.SYNC_GROUP)
def sync_group(request: Request, message: SyncGroupRequest) -> Answer:
    if not request.authorized(Operation.READ, ResourceType.GROUP, message.group_id):
        return refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return Membership(request, message.group_id, message, refused)


def refused(code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code)
