"""The table of `moldau connect status`: what it shows of a connector's status."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.cli.connect_status import row, short_error, state_of


def status(*tasks: str, connector: str = "RUNNING", trace: str | None = None) -> dict[str, Any]:
    return {
        "name": "orders",
        "type": "sink",
        "connector": {"state": connector, "worker_id": "box:8083"},
        "tasks": [
            {"id": index, "state": state, "worker_id": "box:8083", **({"trace": trace} if state == "FAILED" else {})}
            for index, state in enumerate(tasks)
        ],
    }


def test_a_running_connector_with_its_progress() -> None:
    shown = row(state_of(status("RUNNING", "RUNNING"), {"records_per_s": 12.6, "records": 100, "lag": 3}))
    assert shown == ["orders", "sink", "RUNNING", "box:8083", "2/2", 13, 100, 3, None]


def test_a_failed_task_makes_the_connector_failed() -> None:
    trace = 'Traceback (most recent call last):\n  File "x.py", line 1, in f\n    g()\nValueError: the table is gone\n'
    shown = row(state_of(status("RUNNING", "FAILED", trace=trace), None))
    assert shown == ["orders", "sink", "FAILED", "box:8083", "1/2", None, None, None, "ValueError: the table is gone"]


def test_a_connector_without_tasks() -> None:
    assert row(state_of(status(connector="UNASSIGNED"), None))[2:5] == ["UNASSIGNED", "box:8083", "0/0"]


@pytest.mark.parametrize(
    ("trace", "shown"),
    [
        (None, None),
        ("", None),
        ("plain text", "plain text"),
        ("first: a\n\tat java.Stack\nCaused by: b\n\tat java.Stack\n", "Caused by: b"),
        ("  indented only", "indented only"),
        ("E: " + "x" * 500, "E: " + "x" * 96 + "…"),
    ],
)
def test_the_line_of_a_trace_that_says_most(trace: str | None, shown: str | None) -> None:
    assert short_error(trace) == shown
