"""DescribeGroups (15): the state and members of classic groups.

Versions 0-6.

* A group that does not exist or is not a classic group has the state "Dead". From version 6 on it also has the error
  GROUP_ID_NOT_FOUND.
* The subscriptions and assignments of members are included while the group is stable.
"""

from __future__ import annotations

from typing import Any

from moldau.broker.connection.session import Request
from moldau.broker.coordinators.group_coordinator import GroupQuery, MultiGroupRequest
from moldau.broker.requests.handler_registry import Answer, handles
from moldau.groups.events import DescribeGroup
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
)

NOT_FOUND_FROM = 6


@handles(ApiKey.DESCRIBE_GROUPS)
def describe_groups(request: Request, message: DescribeGroupsRequest) -> Answer:
    wanted = list(dict.fromkeys(message.groups))
    allowed = [one for one in wanted if request.authorized(Operation.DESCRIBE, ResourceType.GROUP, one)]

    def build(answers: list[Any]) -> DescribeGroupsResponse:
        answered = dict(zip(allowed, answers, strict=True))
        groups = []
        for group_id in wanted:
            group = answered.get(group_id) or _refused(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
            if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND and request.version < NOT_FOUND_FROM:
                group.error_code = ErrorCode.NONE
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = request.authorized_operations(
                    message.include_authorized_operations, ResourceType.GROUP, group_id
                )
            groups.append(group)
        return DescribeGroupsResponse(groups=groups)

    return MultiGroupRequest(request, [_query(one) for one in allowed], build)


def _query(group_id: str) -> GroupQuery:
    return GroupQuery(group_id, lambda ticket: DescribeGroup(ticket, group_id), lambda code: _refused(group_id, code))


def _refused(group_id: str, code: ErrorCode) -> DescribeGroupsResponseGroup:
    return DescribeGroupsResponseGroup(group_id=group_id, error_code=code)
