"""Heartbeat (12): keeps the session of a classic group's member alive and tells it when to rejoin.

Versions 0-4. While the coordinator loads the group, a heartbeat succeeds, as in Kafka: the session begins again after
that, and aiokafka ends its heartbeats at COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.coordinators.group_coordinator import GroupRequest
from moldau.broker.requests.handler_registry import Answer, handles
from moldau.groups.events import Heartbeat
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@handles(ApiKey.HEARTBEAT)
def heartbeat(request: Request, message: HeartbeatRequest) -> Answer:
    if not request.authorized(Operation.READ, ResourceType.GROUP, message.group_id):
        return refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return GroupRequest(request, message.group_id, Heartbeat, message, answer_of_runtime)


def refused(code: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=code)


def answer_of_runtime(code: ErrorCode) -> HeartbeatResponse:
    return refused(ErrorCode.NONE if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else code)
