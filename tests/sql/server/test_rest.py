"""REST API of an SQL server: answers, errors with their place, and limits."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.sql.server.conftest import ServerThread

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(600)]


@pytest.fixture
def ten(records: Callable[..., None], name: str) -> str:
    """A topic with ten rows."""
    records(name, [({"id": number, "amount": number / 2}, f"k{number}") for number in range(10)])
    return name


def statements(server: ServerThread, sql: str, **settings: str) -> httpx.Response:
    return server.client.post("/statements", json={"sql": sql, "settings": settings})


def query(server: ServerThread, sql: str) -> tuple[int, list[Any]]:
    answer = server.client.post("/query", json={"sql": sql})
    return answer.status_code, [json.loads(line) for line in answer.text.splitlines()]


def test_each_statement_has_a_result(server: ServerThread, ten: str) -> None:
    answer = statements(server, f"SELECT count(*) AS n FROM {ten}; SELECT id FROM {ten} ORDER BY id LIMIT 2")
    assert answer.status_code == 200, answer.text
    first, second = answer.json()["statements"]
    assert (first["columns"], first["rows"]) == ([{"name": "n", "type": "bigint"}], [[10]])
    assert (second["rows"], second["truncated"]) == ([[0], [1]], False)


def test_rows_beyond_the_limit_are_cut_off_and_that_is_told(server: ServerThread, ten: str) -> None:
    found = statements(server, f"SELECT id FROM {ten}").json()["statements"][0]
    assert (len(found["rows"]), found["truncated"]) == (5, True)


def test_an_error_has_its_place_and_a_hint(server: ServerThread, ten: str) -> None:
    answer = statements(server, f"SELECT 1;\nSELECT ammount\nFROM {ten}")
    assert answer.status_code == 400
    assert answer.json() == {
        "error": "there is no column 'ammount'",
        "line": 2,
        "column": 8,
        "hint": "did you mean amount?",
    }
    answer = statements(server, "SELECT * FROM nowhere_at_all")
    assert (answer.status_code, answer.json()["line"], answer.json()["column"]) == (400, 1, 15)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "not JSON"),
        (b"[]", 'no text "sql"'),
        (b'{"sql": 1}', 'no text "sql"'),
        (b'{"sql": "SELECT 1", "setting": {}}', 'unknown field "setting"'),
        (b'{"sql": "SELECT 1", "settings": {"a": 1}}', "values are texts"),
        (b'{"sql": "SELECT 1", "settings": []}', None),
        (b'{"sql": "SELEC 1"}', ""),
    ],
)
@pytest.mark.parametrize("path", ["/statements", "/query"])
def test_a_wrong_body_is_refused(server: ServerThread, path: str, body: bytes, message: str | None) -> None:
    answer = server.client.post(path, content=body)
    if message is None:
        assert answer.status_code == 200
        return
    assert answer.status_code == 400
    assert message in answer.json()["error"]


def test_a_query_answers_line_by_line(server: ServerThread, ten: str) -> None:
    status, lines = query(server, f"SELECT id, amount FROM {ten} ORDER BY id")
    assert status == 200
    assert [column["name"] for column in lines[0]["columns"]] == ["id", "amount"]
    assert [line["row"] for line in lines[1:-1]] == [[number, number / 2] for number in range(10)]
    assert lines[-1] == {"rows": 10, "notes": []}


def test_a_result_beyond_the_limit_ends_with_an_error(server: ServerThread, ten: str) -> None:
    status, lines = query(server, f"SELECT a.id FROM {ten} a CROSS JOIN {ten} b")
    assert (status, len(lines)) == (200, 52)
    assert "moldau.sql.max.rows" in lines[-1]["error"]


def test_each_endpoint_takes_its_kind_of_statement(server: ServerThread, ten: str) -> None:
    status, lines = query(server, "SELECT 1; SELECT 2")
    assert (status, lines[0]["hint"]) == (400, "send other statements to POST /statements")
    answer = statements(server, f"SELECT * FROM {ten} EMIT CHANGES")
    assert (answer.status_code, answer.json()["hint"]) == (400, "send it to POST /query, which answers row by row")


def test_an_error_of_a_query_is_an_answer_with_status_400(server: ServerThread, ten: str) -> None:
    status, lines = query(server, f"SELECT ids FROM {ten}")
    assert (status, lines[0]["error"], lines[0]["column"]) == (400, "there is no column 'ids'", 8)


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("POST", "/pause"), ("POST", "/resume"), ("DELETE", "")],
)
def test_a_query_that_does_not_exist_is_not_found(server: ServerThread, method: str, path: str) -> None:
    answer = server.client.request(method, f"/queries/no-such{path}")
    assert (answer.status_code, answer.json()["error"]) == (404, "there is no query no-such")


def test_health_says_what_the_server_does(server: ServerThread) -> None:
    answer = server.client.get("/health")
    assert answer.status_code == 200
    assert answer.json() | {"queries": {}} == {
        "status": "healthy",
        "role": "leader",
        "leader": server.url,
        "queries": {},
    }
    assert "moldau_sql_leads 1.0" in server.client.get("/metrics").text


def test_web_pages_of_others_change_nothing(server: ServerThread) -> None:
    evil = {"Origin": "https://evil.example"}
    assert server.client.post("/statements", json={"sql": "SELECT 1"}, headers=evil).status_code == 403
    assert server.client.get("/queries", headers={"Host": "evil.example"}).status_code == 400
