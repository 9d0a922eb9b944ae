"""SyncGroup (14): the leader of a classic group sends the assignments, and each member receives its own.

Versions 0-5.

* Members wait for the leader's request. All are answered when the assignments are stored.
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.coordinators.group_coordinator import GroupRequest
from moldau.broker.requests.handler_registry import Answer, handles
from moldau.groups.events import SyncGroup
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


@handles(ApiKey.SYNC_GROUP)
def sync_group(request: Request, message: SyncGroupRequest) -> Answer:
    if not request.authorized(Operation.READ, ResourceType.GROUP, message.group_id):
        return refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return GroupRequest(request, message.group_id, SyncGroup, message, refused)


def refused(code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code)
