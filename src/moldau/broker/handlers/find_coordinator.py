"""FindCoordinator (10): which broker looks after a group or a transactional id.

Versions 0-6; from 4 on for several keys at once. The coordinator's topic is made when somebody first asks for one of
its keys, and the answer waits for that: clients save the retry that Kafka makes them do.

Gaps: share groups have no coordinator here; asking for one is an INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple

from moldau.broker.coordination import Coordination
from moldau.broker.registry import handles
from moldau.broker.session import Request
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
)

MANY_KEYS_FROM = 4
NO_NODE = -1

GROUP, TRANSACTION = 0, 1


class Keys(NamedTuple):
    """A type of keys: who coordinates them, and what a client must be allowed to ask."""

    coordination: Coordination[Any]
    resource: ResourceType
    denied: ErrorCode


Response = FindCoordinatorResponse


@handles(ApiKey.FIND_COORDINATOR)
def find_coordinator(request: Request, message: FindCoordinatorRequest) -> Response | Coroutine[Any, Any, Response]:
    broker = request.broker
    keys = None
    if message.key_type == GROUP:
        keys = Keys(broker.groups, ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    elif message.key_type == TRANSACTION:
        keys = Keys(
            broker.transactions.coordination,
            ResourceType.TRANSACTIONAL_ID,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        )
    wanted = message.coordinator_keys if request.version >= MANY_KEYS_FROM else [message.key]
    if keys is not None and not keys.coordination.partition_count:
        return _create_then_answer(request, keys, wanted)
    return _answer(request, keys, wanted)


async def _create_then_answer(request: Request, keys: Keys, wanted: Sequence[str]) -> Response:
    await keys.coordination.ensure_topic()  # a failure shows below: there is no coordinator
    return _answer(request, keys, wanted)


def _answer(request: Request, keys: Keys | None, wanted: Sequence[str]) -> Response:
    found = [_coordinator(request, keys, key) for key in wanted]
    if request.version >= MANY_KEYS_FROM:
        return FindCoordinatorResponse(coordinators=found)
    (one,) = found
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _coordinator(request: Request, keys: Keys | None, key: str) -> FindCoordinatorResponseCoordinator:
    if keys is None:
        return _nobody(key, ErrorCode.INVALID_REQUEST, "There is no coordinator for keys of this type.")
    if not request.authorized(Operation.DESCRIBE, keys.resource, key):
        return _nobody(key, keys.denied)
    image = request.broker.image
    coordination = keys.coordination
    state = image.partition(coordination.topic.name, coordination.index_of(key))
    node = None if state is None else image.brokers.get(state.leader)
    endpoint = None if node is None else node.endpoint(request.session.listener.name)
    if node is None or endpoint is None:
        return _nobody(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return FindCoordinatorResponseCoordinator(key=key, node_id=node.id, host=endpoint.host, port=endpoint.port)


def _nobody(key: str, code: ErrorCode, reason: str | None = None) -> FindCoordinatorResponseCoordinator:
    return FindCoordinatorResponseCoordinator(
        key=key, node_id=NO_NODE, port=NO_NODE, error_code=code, error_message=reason
    )
