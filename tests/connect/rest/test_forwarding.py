"""Requests that another worker has to answer, between two or three web applications in this process."""

from __future__ import annotations

import logging
from typing import Any

import httpx
import pytest

from moldau.connect.herder import ConnectorInfo, ConnectorType, NotAssignedError, NotLeaderError
from moldau.connect.rest.dispatch import MAX_HOPS
from moldau.service.forwarding import Forwarder
from moldau.service.request_guard import RequestGuard
from tests.connect.rest.scripted_herder import InProcess, app, herder

INFO = ConnectorInfo("a b", {}, [], ConnectorType.SINK)
LEADER = "http://leader:8083/"


class InProcessForwarder(Forwarder):
    """Reaches other workers of this process by their host names."""

    def __init__(self, **others: RequestGuard) -> None:
        super().__init__(max_hops=MAX_HOPS)
        mounts = {f"all://{host}": httpx.ASGITransport(app=one) for host, one in others.items()}
        self._client = httpx.AsyncClient(mounts=mounts, transport=httpx.MockTransport(_unreachable))


def worker(scripted: Any, **others: RequestGuard) -> InProcess:
    return InProcess(app(scripted, InProcessForwarder(**others)))


def _unreachable(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused")


def test_the_leader_gets_the_request_as_it_was() -> None:
    leader = herder(create=INFO)
    first = worker(herder(create=NotLeaderError("not me", LEADER)), leader=app(leader))
    answer = first.post("/connectors", json={"name": "a b", "config": {"x": "ü"}}, headers={"Authorization": "Basic x"})
    assert (answer.status_code, answer.json()["name"]) == (201, "a b")
    assert answer.headers["location"] == "http://testserver/connectors/a%20b"
    leader.create.assert_awaited_once_with("a b", {"x": "ü", "name": "a b"}, None)


def test_path_parameters_and_body_arrive_unchanged() -> None:
    owner = herder(restart=None, reset_offsets="done")
    first = worker(
        herder(restart=NotAssignedError("not mine", LEADER), reset_offsets=NotAssignedError("not mine", LEADER)),
        leader=app(owner),
    )
    assert first.post("/connectors/100%25 %C3%BC?onlyFailed=true&includeTasks=true").status_code == 405
    assert first.post("/connectors/100%25%20%C3%BC/restart?onlyFailed=true&includeTasks=true").status_code == 204
    owner.restart.assert_awaited_once_with("100% ü", include_tasks=True, only_failed=True)
    assert first.delete("/connectors/a/offsets").json() == {"message": "done"}


def test_an_error_of_the_other_worker_is_the_answer() -> None:
    first = worker(herder(delete=NotLeaderError("", LEADER)), leader=app(herder(delete=NotLeaderError("", None))))
    answer = first.delete("/connectors/a")
    assert answer.status_code == 409
    assert "no known leader URL" in answer.json()["message"]


def test_a_request_is_forwarded_twice_at_most() -> None:
    """Each of three workers believes that another one leads: after a rebalance, both may be outdated."""
    third = herder(delete=NotLeaderError("", "http://first"))
    second = app(herder(delete=NotLeaderError("", "http://third")), InProcessForwarder(third=app(third)))
    answer = worker(herder(delete=NotLeaderError("", "http://second")), second=second).delete("/connectors/a")
    assert answer.json() == {
        "error_code": 409,
        "message": "Cannot complete request because of a conflicting operation (e.g. worker rebalance)",
    }
    third.delete.assert_awaited_once()


def test_an_unreachable_worker_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.CRITICAL):
        answer = worker(herder(delete=NotLeaderError("", "http://gone:1"))).delete("/connectors/a")
    assert (answer.status_code, answer.json()["error_code"]) == (502, 502)
    assert "http://gone:1 cannot be reached" in answer.json()["message"]
