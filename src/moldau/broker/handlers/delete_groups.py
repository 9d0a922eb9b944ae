"""DeleteGroups (42): delete groups and their offsets.

Versions 0-2.

* Only groups without members can be deleted. Others are NON_EMPTY_GROUP.
"""

from __future__ import annotations

from typing import Any

from moldau.broker.connection.session import Request
from moldau.broker.coordinators.group_coordinator import GroupQuery, MultiGroupRequest
from moldau.broker.requests.handler_registry import Answer, handles
from moldau.groups.events import DeleteGroup
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse, DeleteGroupsResponseGroup


@handles(ApiKey.DELETE_GROUPS)
def delete_groups(request: Request, message: DeleteGroupsRequest) -> Answer:
    wanted = list(dict.fromkeys(message.groups_names))
    allowed = [one for one in wanted if request.authorized(Operation.DELETE, ResourceType.GROUP, one)]

    def build(answers: list[Any]) -> DeleteGroupsResponse:
        codes = dict(zip(allowed, answers, strict=True))
        return DeleteGroupsResponse(
            results=[
                DeleteGroupsResponseGroup(
                    group_id=group_id, error_code=codes.get(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
                )
                for group_id in wanted
            ]
        )

    return MultiGroupRequest(request, [_query(one) for one in allowed], build)


def _query(group_id: str) -> GroupQuery:
    return GroupQuery(group_id, lambda ticket: DeleteGroup(ticket, group_id), lambda code: code)
