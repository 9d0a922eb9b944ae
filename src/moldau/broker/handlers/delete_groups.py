"""DeleteGroups (42): remove groups and their offsets.

Versions 0-2. Only groups without members can go (NON_EMPTY_GROUP).
"""

from __future__ import annotations

from typing import Any

from moldau.broker.groups import Gathering, Part
from moldau.broker.registry import Answer, handles
from moldau.broker.session import Request
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

    return Gathering(request, [_part(one) for one in allowed], build)


def _part(group_id: str) -> Part:
    return Part(group_id, lambda ticket: DeleteGroup(ticket, group_id), lambda code: code)
