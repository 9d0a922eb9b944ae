"""ConsumerGroupDescribe (69): groups of the new protocol: epochs, members, what each reads and what it should read.

Versions 0-1. Anything else than a consumer group is GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

from typing import Any

from moldau.broker.groups import Gathering, Part
from moldau.broker.registry import Answer, handles
from moldau.broker.session import Request
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
        told = dict(zip(allowed, answers, strict=True))
        groups = []
        for group_id in wanted:
            group = told.get(group_id) or _refused(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = request.authorized_operations(
                    message.include_authorized_operations, ResourceType.GROUP, group_id
                )
            groups.append(group)
        return ConsumerGroupDescribeResponse(groups=groups)

    return Gathering(request, [_part(one) for one in allowed], build)


def _part(group_id: str) -> Part:
    return Part(group_id, lambda ticket: DescribeConsumerGroup(ticket, group_id), lambda code: _refused(group_id, code))


def _refused(group_id: str, code: ErrorCode) -> ConsumerGroupDescribeResponseGroup:
    return ConsumerGroupDescribeResponseGroup(group_id=group_id, error_code=code)
