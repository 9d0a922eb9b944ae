"""ConsumerGroupDescribe (69): consumer groups of the new protocol, with epochs, members and assignments.

Versions 0-1.

* For each member the response has the current and the target assignment.
* A group of another type is GROUP_ID_NOT_FOUND.
* A group whose members have topics that the client may not describe is TOPIC_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from typing import Any

from moldau.broker.connection.session import Request
from moldau.broker.coordinators.group_coordinator import GroupQuery, MultiGroupRequest
from moldau.broker.requests.handler_registry import Answer, handles
from moldau.groups.events import DescribeConsumerGroup
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseGroup,
)


@handles(ApiKey.CONSUMER_GROUP_DESCRIBE)
def consumer_group_describe(request: Request, message: ConsumerGroupDescribeRequest) -> Answer:
    wanted = list(dict.fromkeys(message.group_ids))
    allowed = [one for one in wanted if request.authorized(Operation.DESCRIBE, ResourceType.GROUP, one)]

    def build(answers: list[Any]) -> ConsumerGroupDescribeResponse:
        answered = dict(zip(allowed, answers, strict=True))
        groups = []
        for group_id in wanted:
            group = answered.get(group_id) or _refused(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
            if not all(request.authorized(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in _topics(group)):
                group = _refused(group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                group.error_message = "The members of the group have topics that the client may not describe."
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = request.authorized_operations(
                    message.include_authorized_operations, ResourceType.GROUP, group_id
                )
            groups.append(group)
        return ConsumerGroupDescribeResponse(groups=groups)

    return MultiGroupRequest(request, [_query(one) for one in allowed], build)


def _topics(group: ConsumerGroupDescribeResponseGroup) -> dict[str, None]:
    """The topics that the answer names."""
    names: dict[str, None] = {}
    for member in group.members:
        names |= dict.fromkeys(member.subscribed_topic_names)
        for assignment in (member.assignment, member.target_assignment):
            names |= dict.fromkeys(one.topic_name for one in assignment.topic_partitions)
    return names


def _query(group_id: str) -> GroupQuery:
    return GroupQuery(
        group_id, lambda ticket: DescribeConsumerGroup(ticket, group_id), lambda code: _refused(group_id, code)
    )


def _refused(group_id: str, code: ErrorCode) -> ConsumerGroupDescribeResponseGroup:
    return ConsumerGroupDescribeResponseGroup(group_id=group_id, error_code=code)
