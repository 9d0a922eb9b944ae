from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from moldau.broker.audit_log import EVENTS_LOGGED_PER_SECOND, MAX_LOGGED_NAME, AuditLog
from moldau.host.event_log import event_of, facts_of
from moldau.security import Decision, Operation, Principal, ResourceType
from moldau.security.acls import AclEntry, AclRule, PatternType, Permission, ResourcePattern
from moldau.wire.api import ApiKey

ALICE = Principal("User", "alice")
NO_RULE = Decision(False, None, "no rule")


class Timers:
    """The timers of a loop, which a test lets pass."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def call_later(self, delay: float, callback: Callable[..., None], *args: object) -> None:
        self.due.append(lambda: callback(*args))

    def second_passes(self) -> None:
        due, self.due = self.due, []
        for callback in due:
            callback()


def deny(audit: AuditLog, name: str = "orders", decision: Decision = NO_RULE) -> None:
    audit.denied(ApiKey.FETCH, ALICE, "10.0.0.7", Operation.READ, (ResourceType.TOPIC, name), decision)


def make() -> tuple[AuditLog, Timers]:
    timers = Timers()
    loop: Any = timers
    return AuditLog(loop), timers


def test_a_denial_names_who_from_where_what_and_the_rule(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "moldau.audit")
    rule = AclRule(
        ResourcePattern(ResourceType.TOPIC, "ord", PatternType.PREFIXED),
        AclEntry("User:*", "10.0.0.0/8", Operation.ALL, Permission.DENY),
    )
    audit, _ = make()
    deny(audit)
    deny(audit, decision=Decision(False, rule, "rule"))
    first, second = caplog.records
    assert first.name == "moldau.audit" and first.levelno == logging.INFO
    assert event_of(first) == "operation denied"
    assert facts_of(first) == {
        "who": "User:alice",
        "host": "10.0.0.7",
        "operation": "READ",
        "resource": "TOPIC:orders",
        "api": "Fetch",
        "rule": "no rule",
    }
    assert facts_of(second)["rule"] == "DENY ALL on TOPIC:PREFIXED:ord to User:* from 10.0.0.0/8"


def test_the_rate_is_bounded_and_the_rest_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "moldau.audit")
    audit, timers = make()
    for _ in range(EVENTS_LOGGED_PER_SECOND + 7):
        deny(audit)
    assert len(caplog.records) == EVENTS_LOGGED_PER_SECOND
    assert len(timers.due) == 1
    timers.second_passes()
    assert facts_of(caplog.records[-1]) == {"kind": "operation denied", "count": 7}
    deny(audit)
    timers.second_passes()
    assert len(caplog.records) == EVENTS_LOGGED_PER_SECOND + 2


def test_a_question_that_is_repeated_is_one_event() -> None:
    audit, _ = make()
    assert not audit.repeats(("10.0.0.7:1", 1, "orders"))
    assert audit.repeats(("10.0.0.7:1", 1, "orders"))
    assert not audit.repeats(("10.0.0.7:1", 1, "payments"))
    assert not audit.repeats(("10.0.0.7:1", 2, "payments"))


def test_kinds_of_events_do_not_hide_each_other(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "moldau.audit")
    audit, _ = make()
    for _ in range(EVENTS_LOGGED_PER_SECOND * 2):
        deny(audit)
    audit.record("login failed", {"who": "mallory"})
    assert event_of(caplog.records[-1]) == "login failed"


def test_a_long_name_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "moldau.audit")
    audit, _ = make()
    deny(audit, "x" * 32_000)
    assert len(str(facts_of(caplog.records[0])["resource"])) == len("TOPIC:") + MAX_LOGGED_NAME


def test_allowed_operations_are_for_debugging_only(caplog: pytest.LogCaptureFixture) -> None:
    audit, _ = make()
    allowed = Decision(True, None, "super user")
    for level, shown in ((logging.INFO, 0), (logging.DEBUG, 1)):
        caplog.set_level(level, "moldau.audit")
        assert audit.logs_allowed is bool(shown)
        audit.allowed(ApiKey.FETCH, ALICE, "10.0.0.7", Operation.READ, (ResourceType.TOPIC, "x"), allowed)
        assert len(caplog.records) == shown
