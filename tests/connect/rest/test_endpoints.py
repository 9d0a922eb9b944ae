"""What the endpoints do around the herder: methods, content types, errors, and bodies. Not what the herder answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from moldau import __version__
from moldau.client.errors import MoldauError
from moldau.connect.built_in_plugins import Kind
from moldau.connect.engine import ConnectorProgress
from moldau.connect.herder import (
    ActiveTopics,
    AlreadyExistsError,
    BadRequestError,
    ConnectorInfo,
    ConnectorStateInfo,
    ConnectorType,
    Created,
    Health,
    NotAssignedError,
    NotFoundError,
    RebalancingError,
    RequestTimedOutError,
    State,
    StateInfo,
    TargetState,
    TaskId,
    TaskStateInfo,
)
from moldau.connect.plugins import Plugin, Plugins
from moldau.connect.rest import dispatch
from tests.connect.rest.scripted_herder import InProcess, app, herder

INFO = ConnectorInfo("a b", {"x": "1"}, [TaskId("a b", 0)], ConnectorType.SOURCE)
STATUS = ConnectorStateInfo(
    "a",
    StateInfo(State.RUNNING, "w:1", version="1"),
    [TaskStateInfo(0, State.FAILED, "w:1", "it broke")],
    ConnectorType.SINK,
)


def client(**answers: Any) -> InProcess:
    return InProcess(app(herder(**answers)))


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.CRITICAL):
        yield


# -- bodies ------------------------------------------------------------------------------------------------------------


def test_a_new_connector_is_answered_with_its_place() -> None:
    scripted = herder(create=INFO)
    answer = InProcess(app(scripted)).post(
        "/connectors", json={"name": "a b", "config": {"x": 1}, "initial_state": "paused"}
    )
    assert (answer.status_code, answer.headers["location"]) == (201, "http://testserver/connectors/a%20b")
    assert answer.json() == {
        "name": "a b",
        "config": {"x": "1"},
        "tasks": [{"connector": "a b", "task": 0}],
        "type": "source",
    }
    scripted.create.assert_awaited_once_with("a b", {"x": "1", "name": "a b"}, TargetState.PAUSED)


@pytest.mark.parametrize(("created", "status"), [(True, 201), (False, 200)])
def test_put_says_whether_it_created(created: bool, status: int) -> None:
    answer = client(put_config=Created(created, INFO)).put("/connectors/a%20b/config", json={"x": "1"})
    assert answer.status_code == status
    assert ("location" in answer.headers) == created


def test_a_state_has_a_trace_only_if_there_is_one() -> None:
    assert client(status=STATUS).get("/connectors/a/status").json() == {
        "name": "a",
        "connector": {"state": "RUNNING", "worker_id": "w:1", "version": "1"},
        "tasks": [{"id": 0, "state": "FAILED", "worker_id": "w:1", "version": None, "trace": "it broke"}],
        "type": "sink",
    }


def test_progress_is_shown_to_those_who_ask_for_it() -> None:
    worker = client(status=STATUS, connectors=["a"], progress=ConnectorProgress(records=7, topics=frozenset({"t"})))
    assert "progress" not in worker.get("/connectors/a/status").json()
    shown = worker.get("/connectors/a/status?expand=progress").json()["progress"]
    assert (shown["records"], shown["topics"], shown["lag"]) == (7, ["t"], None)
    assert list(worker.get("/connectors?expand=status&expand=progress").json()["a"]) == ["status", "progress"]
    assert worker.get("/connectors?expand=colour").json() == {"a": {}}


def test_the_progress_of_a_connector_that_no_worker_runs_is_null() -> None:
    worker = client(status=STATUS, connectors=["a"], progress=NotAssignedError("not mine", None))
    assert worker.get("/connectors/a/status?expand=progress").json()["progress"] is None
    assert worker.get("/connectors?expand=progress").json() == {"a": {"progress": None}}


def test_a_connector_that_was_deleted_meanwhile_is_left_out_of_the_list() -> None:
    worker = client(connectors=["a"], status=NotFoundError("gone"))
    assert worker.get("/connectors?expand=status").json() == {}


@pytest.mark.usefixtures("quiet")
def test_a_plugin_that_cannot_be_loaded_does_not_hide_the_others() -> None:
    plugins = Plugins(
        [
            Plugin(Kind.SOURCE, "Fine", "moldau.connect.connector:SourceConnector"),
            Plugin(Kind.SINK, "Broken", "no_such_package:Sink"),
            Plugin(Kind.CONVERTER, "NoVersion", "moldau.connect.plugins:Plugins"),
        ]
    )
    worker = InProcess(app(herder(), plugins=plugins))
    assert worker.get("/connector-plugins?connectorsOnly=false").json() == [
        {"class": "Broken", "type": "sink"},
        {"class": "Fine", "type": "source", "version": __version__},
        {"class": "NoVersion", "type": "converter"},
    ]
    assert [one["class"] for one in worker.get("/connector-plugins").json()] == ["Broken", "Fine"]
    refused = worker.get("/connector-plugins/Broken/config")
    assert (refused.status_code, refused.json()["error_code"]) == (500, 500)
    assert "no_such_package" in refused.json()["message"]


def test_topics_can_be_switched_off() -> None:
    scripted = herder(active_topics=ActiveTopics("a", ["t"]))
    assert InProcess(app(scripted)).get("/connectors/a/topics").json() == {"a": {"topics": ["t"]}}
    off = InProcess(app(scripted, topic_tracking=False))
    assert (off.get("/connectors/a/topics").status_code, off.put("/connectors/a/topics/reset").status_code) == (
        403,
        403,
    )
    fixed = InProcess(app(scripted, topic_reset=False))
    assert fixed.put("/connectors/a/topics/reset").json() == {
        "error_code": 403,
        "message": "Topic tracking reset is disabled.",
    }


@pytest.mark.parametrize(("status", "code"), [("healthy", 200), ("starting", 503), ("unhealthy", 500)])
def test_health_is_a_status_code(status: str, code: int) -> None:
    answer = client(health=Health(status, "why")).get("/health")
    assert (answer.status_code, answer.json()) == (code, {"status": status, "message": "why"})


def test_a_worker_that_starts_answers_only_whether_it_is_healthy() -> None:
    scripted = herder(health=Health("starting", "why"), connectors=[])
    scripted.ready = False
    worker = InProcess(app(scripted))
    for method, path in [
        ("GET", "/"),
        ("GET", "/connectors"),
        ("DELETE", "/connectors/a"),
        ("GET", "/connector-plugins"),
    ]:
        answer = worker.request(method, path)
        assert answer.json() == {"error_code": 503, "message": "Worker is still starting up."}
    assert worker.get("/health").status_code == 503
    scripted.ready = True
    assert worker.get("/connectors").status_code == 200


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (BadRequestError("no"), 400),
        (NotFoundError("no"), 404),
        (AlreadyExistsError("no"), 409),
        (RebalancingError("no"), 409),
        (RequestTimedOutError("no"), 500),
        (MoldauError("no"), 500),
    ],
)
@pytest.mark.usefixtures("quiet")
def test_an_error_of_the_herder_has_its_status_and_message(error: Exception, status: int) -> None:
    answer = client(connector_info=error).get("/connectors/a")
    assert (answer.status_code, answer.json()) == (status, {"error_code": status, "message": "no"})
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.usefixtures("quiet")
def test_an_unexpected_error_does_not_show_its_message() -> None:
    answer = client(connector_info=RuntimeError("password=geheim")).get("/connectors/a")
    assert answer.status_code == 500
    assert "geheim" not in answer.text


def test_a_request_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def forever(name: str) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(dispatch.RestEndpoint.__init__, "__defaults__", (0.01,))
    answer = client(connector_info=forever).get("/connectors/a")
    assert (answer.status_code, answer.json()["message"]) == (500, "Request timed out")


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/"), ("PUT", "/connectors"), ("DELETE", "/connectors"), ("GET", "/connectors/a/pause")],
)
def test_another_method_is_refused(method: str, path: str) -> None:
    answer = client().request(method, path)
    assert answer.json() == {"error_code": 405, "message": "HTTP 405 Method Not Allowed"}


@pytest.mark.parametrize("path", ["/nope", "/connectors/a/nope", "/connectors/a/tasks/x/status", "/connectors//status"])
def test_another_path_is_not_found(path: str) -> None:
    answer = client().get(path)
    assert answer.json() == {"error_code": 404, "message": "HTTP 404 Not Found"}


@pytest.mark.parametrize("task", ["-1", "1.5", "99999999999", "\u0661", "0x1", " 1"])
def test_a_task_is_a_decimal_number(task: str) -> None:
    assert client().get(f"/connectors/a/tasks/{task}/status").status_code == 404


@pytest.mark.parametrize(
    ("kind", "status"),
    [("application/json", 201), ("application/json; charset=utf-8", 201), ("text/plain", 415), ("", 415)],
)
def test_a_body_is_json(kind: str, status: int) -> None:
    headers = {"Content-Type": kind} if kind else {}
    answer = client(create=INFO).post("/connectors", content='{"name": "a", "config": {}}', headers=headers)
    assert answer.status_code == status


def test_a_request_without_a_body_needs_no_content_type() -> None:
    assert client().put("/connectors/a/pause").status_code == 202
    assert client().put("/connectors/a/pause", headers={"Content-Type": "text/plain"}).status_code == 202


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("*/*", 200),
        ("application/json", 200),
        ("text/html, application/*;q=0.8", 200),
        ("application/xml", 406),
        ("application/json;q=0", 406),
    ],
)
def test_answers_are_json(accept: str, status: int) -> None:
    assert client(connectors=[]).get("/connectors", headers={"Accept": accept}).status_code == status


def test_a_slash_in_a_name_is_refused_rather_than_read_as_another_path() -> None:
    scripted = herder()
    worker = InProcess(app(scripted))
    for path in ("/connectors/a%2Fstatus", "/connectors/a%2fb", "/connector-plugins/a%2Fb/config"):
        answer = worker.request("DELETE", path)
        assert (answer.status_code, answer.json()["error_code"]) == (400, 400)
    assert not scripted.mock_calls


def test_another_name_in_the_body_is_refused() -> None:
    scripted = herder(put_config=Created(False, INFO))
    worker = InProcess(app(scripted))
    assert worker.put("/connectors/a/config", json={"name": "b"}).json() == {
        "error_code": 400,
        "message": "Connector name configuration (b) doesn't match connector name in the URL (a)",
    }
    assert "x. Leave" in worker.put("/connectors/a/config", json={"x": None}).json()["message"]
    scripted.put_config.assert_not_called()
    assert worker.put("/connectors/a/config", json={"name": None}).status_code == 200


def test_a_patch_may_have_nulls() -> None:
    scripted = herder(patch_config=Created(False, INFO))
    assert InProcess(app(scripted)).patch("/connectors/a/config", json={"x": None, "y": 2}).status_code == 200
    scripted.patch_config.assert_awaited_once_with("a", {"x": None, "y": "2"})


def test_an_unknown_level_is_refused_and_a_known_one_set_on_this_worker_or_on_all() -> None:
    scripted = herder(set_logger=["b", "a"])
    worker = InProcess(app(scripted))
    assert worker.put("/admin/loggers/a", json={"level": "LOUD"}).status_code == 404
    assert worker.put("/admin/loggers/a", json={"level": "debug"}).json() == ["a", "b"]
    assert worker.put("/admin/loggers/a?scope=CLUSTER", json={"level": "WARN"}).status_code == 204
    scripted.set_logger.assert_awaited_once_with("a", "DEBUG")
    scripted.set_cluster_logger.assert_awaited_once_with("a", "WARN")


def test_options_names_the_methods() -> None:
    answer = client().options("/connectors")
    assert answer.headers["allow"] == answer.text == "GET, POST, HEAD, OPTIONS"
