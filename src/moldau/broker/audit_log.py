"""Audit log: who was denied what, from where, and by which rule.

The logger is `moldau.audit`, so that an operator can send it to a file of its own. Denials are logged at INFO, at a
bounded rate: clients can neither fill the log nor slow down the broker with requests that it denies. What was not
logged is counted and reported. Allowed operations are logged at DEBUG only, without a bound.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from moldau.host.event_log import event_logger
from moldau.wire.api import APIS, ApiKey

if TYPE_CHECKING:
    from moldau.security import Decision, Operation, Principal, ResourceType
    from moldau.security.acls import AclRule

log = event_logger("moldau.audit")

EVENTS_LOGGED_PER_SECOND: Final = 20
"""Log lines per second and kind of event. Further ones are counted, and the count is logged a second later."""
MAX_LOGGED_NAME: Final = 249
"""Longer names of resources are cut: a client may invent a group id of 32 KB."""

DENIED: Final = "operation denied"


class AuditLog:
    """The audit log of one broker."""

    __slots__ = ("_in_this_second", "_last", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._in_this_second: dict[str, int] = {}
        self._last: object = None

    def record(self, event: str, facts: Mapping[str, object]) -> None:
        """Log an event, unless there were too many of its kind in this second."""
        if self._has_room(event):
            log.info(event, extra=dict(facts))

    def repeats(self, question: object) -> bool:
        """Whether this is the question that was asked last. Handlers ask for each partition of a topic, but a request
        that is denied a topic is one event."""
        if question == self._last:
            return True
        self._last = question
        return False

    def _has_room(self, event: str) -> bool:
        count = self._in_this_second.get(event, 0) + 1
        self._in_this_second[event] = count
        if count == 1:
            self._loop.call_later(1.0, self._second_passed, event)
        return count <= EVENTS_LOGGED_PER_SECOND

    def denied(
        self,
        api: ApiKey,
        who: Principal,
        host: str,
        operation: Operation,
        resource: tuple[ResourceType, str],
        decision: Decision,
    ) -> None:
        if self._has_room(DENIED):
            log.info(DENIED, extra=_facts(api, who, host, operation, resource, decision))

    @property
    def logs_allowed(self) -> bool:
        return log.isEnabledFor(logging.DEBUG)

    def allowed(
        self,
        api: ApiKey,
        who: Principal,
        host: str,
        operation: Operation,
        resource: tuple[ResourceType, str],
        decision: Decision,
    ) -> None:
        log.debug("operation allowed", extra=_facts(api, who, host, operation, resource, decision))

    def _second_passed(self, event: str) -> None:
        more = self._in_this_second.pop(event) - EVENTS_LOGGED_PER_SECOND
        if more > 0:
            log.warning("audit events not logged", extra={"kind": event, "count": more})


def _facts(
    api: ApiKey,
    who: Principal,
    host: str,
    operation: Operation,
    resource: tuple[ResourceType, str],
    decision: Decision,
) -> dict[str, object]:
    kind, name = resource
    return {
        "who": str(who),
        "host": host,
        "operation": operation.name,
        "resource": f"{kind.name}:{name[:MAX_LOGGED_NAME]}",
        "api": APIS[api].name,
        "rule": rule_text(decision.rule) if decision.rule is not None else decision.reason,
    }


def rule_text(rule: AclRule) -> str:
    """The rule in one line: `DENY READ on TOPIC:PREFIXED:ord to User:alice from *`."""
    (kind, name, pattern), entry = rule
    what = f"{entry.permission.name} {entry.operation.name} on {kind.name}:{pattern.name}:{name}"
    return f"{what} to {entry.principal} from {entry.host}"
