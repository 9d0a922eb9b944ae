"""JoinGroup (11): join a classic group and take part in its rebalance.

Versions 0-9.

* From version 4 on, a new member first gets a member id with MEMBER_ID_REQUIRED and sends the request again with it.
* The response waits until all members have joined or the rebalance timeout has passed. Only the leader gets the list of
  members.
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.coordinators.group_coordinator import GroupRequest
from moldau.broker.requests.handler_registry import Answer, handles
from moldau.groups.classic_protocol import join_error
from moldau.groups.events import JoinGroup
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

NULL_PROTOCOL_FROM = 7


@handles(ApiKey.JOIN_GROUP)
def join_group(request: Request, message: JoinGroupRequest) -> Answer:
    if not request.authorized(Operation.READ, ResourceType.GROUP, message.group_id):
        return [encode(join_error(ErrorCode.GROUP_AUTHORIZATION_FAILED), request.version)]
    return GroupRequest(request, message.group_id, JoinGroup, message, join_error, encode)


def encode(response: JoinGroupResponse, version: int) -> bytes:
    """Encode a response. Without a protocol its name is null, or empty in versions in which it is not nullable."""
    if version < NULL_PROTOCOL_FROM and response.protocol_name is None:
        response.protocol_name = ""
    return response.encode(version)
