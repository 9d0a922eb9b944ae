"""ListGroups (16): the groups that this broker coordinates.

Versions 0-5.

* Filters by state (from version 4 on) and by type (from version 5 on) ignore case.
* While the broker loads some of its groups, the error is COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import Answer, DeferredAnswer, Reply, handles
from moldau.coordinator.runtime import Ticket
from moldau.groups.events import ListGroups
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse, ListGroupsResponseGroup


@handles(ApiKey.LIST_GROUPS)
def list_groups(request: Request, message: ListGroupsRequest) -> Answer:
    return ListGroupsQuery(request, message)


class ListGroupsQuery(DeferredAnswer):
    """A question to all shards."""

    __slots__ = ("_found", "_left", "_message", "_request")

    def __init__(self, request: Request, message: ListGroupsRequest) -> None:
        self._request = request
        self._message = message
        self._found: list[ListGroupsResponseGroup] = []
        self._left = 0

    def start(self, reply: Reply) -> None:
        groups = self._request.broker.groups.runtime
        shards = [groups.shard_at(index) for index in range(groups.partition_count)]
        running = [one for one in shards if not isinstance(one, ErrorCode)]
        if ErrorCode.COORDINATOR_LOAD_IN_PROGRESS in shards:
            self._answer(reply, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return
        self._left = len(running)
        if not running:
            self._answer(reply)

        def done(found: list[ListGroupsResponseGroup]) -> None:
            self._found += found
            self._left -= 1
            if not self._left:
                self._answer(reply)

        for shard in running:
            shard.ask(self._event, Ticket(done, lambda _: done([])))

    def _event(self, ticket: Ticket) -> ListGroups:
        return ListGroups(ticket, self._message.states_filter, self._message.types_filter)

    def _answer(self, reply: Reply, code: ErrorCode = ErrorCode.NONE) -> None:
        request = self._request
        all_visible = request.authorized(Operation.DESCRIBE, ResourceType.CLUSTER, audited=False)
        groups = [
            group
            for group in self._found
            if all_visible or request.authorized(Operation.DESCRIBE, ResourceType.GROUP, group.group_id, audited=False)
        ]
        reply([ListGroupsResponse(error_code=code, groups=groups).encode(request.version)])
