"""FindCoordinator (10): the broker that coordinates a group or a transactional id.

Versions 0-6; from version 4 on for several keys.

* The first request for a key creates the coordinator's internal topic. The response waits for it. With Kafka, clients
  must retry.
* On success the error message is "NONE" below version 4 and empty from version 4 on, as in Kafka.
* Gap: there is no coordinator for share groups. A request for one is INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import handles
from moldau.coordinator.runtime import CoordinatorRuntime
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
    """A type of keys: its coordinator, and the authorization that a client needs."""

    runtime: CoordinatorRuntime[Any]
    resource: ResourceType
    denied: ErrorCode


Response = FindCoordinatorResponse


@handles(ApiKey.FIND_COORDINATOR)
def find_coordinator(request: Request, message: FindCoordinatorRequest) -> Response | Coroutine[Any, Any, Response]:
    broker = request.broker
    keys = None
    if message.key_type == GROUP:
        keys = Keys(broker.groups.runtime, ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    elif message.key_type == TRANSACTION:
        keys = Keys(
            broker.transactions.runtime,
            ResourceType.TRANSACTIONAL_ID,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        )
    wanted = message.coordinator_keys if request.version >= MANY_KEYS_FROM else [message.key]
    if keys is not None and not keys.runtime.partition_count:
        return _create_then_answer(request, keys, wanted)
    return _answer(request, keys, wanted)


async def _create_then_answer(request: Request, keys: Keys, wanted: Sequence[str]) -> Response:
    await keys.runtime.ensure_topic()  # if it fails, `_answer` finds no coordinator
    return _answer(request, keys, wanted)


def _answer(request: Request, keys: Keys | None, wanted: Sequence[str]) -> Response:
    found = [_coordinator(request, keys, key) for key in wanted]
    if request.version >= MANY_KEYS_FROM:
        return FindCoordinatorResponse(coordinators=found)
    (one,) = found
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message or ErrorCode.NONE.name,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _coordinator(request: Request, keys: Keys | None, key: str) -> FindCoordinatorResponseCoordinator:
    if keys is None:
        return _not_found(key, ErrorCode.INVALID_REQUEST, "There is no coordinator for keys of this type.")
    if not request.authorized(Operation.DESCRIBE, keys.resource, key):
        return _not_found(key, keys.denied, f"Not allowed to describe {key!r}.")
    image = request.broker.image
    runtime = keys.runtime
    state = image.partition(runtime.topic.name, runtime.index_of(key))
    node = None if state is None else image.brokers.get(state.leader)
    endpoint = None if node is None else node.endpoint(request.session.listener.name)
    if node is None or endpoint is None:
        return _not_found(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"The coordinator of {key!r} is not available.")
    return FindCoordinatorResponseCoordinator(key=key, node_id=node.id, host=endpoint.host, port=endpoint.port)


def _not_found(key: str, code: ErrorCode, reason: str) -> FindCoordinatorResponseCoordinator:
    return FindCoordinatorResponseCoordinator(
        key=key, node_id=NO_NODE, port=NO_NODE, error_code=code, error_message=reason
    )
