"""Continuous queries on a server: from the catalogue to the records of their topics."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.sql.declarations import ColumnDeclaration, Declaration, RelationKind
from moldau.sql.queries import WantedState
from tests.sql.server.conftest import TIMEOUT_S, ServerThread
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(600)]

Read = Callable[[str], list[tuple[bytes | None, bytes | None]]]


def numbers(topic: str) -> Declaration:
    columns = (ColumnDeclaration("k", "STRING", is_key=True), ColumnDeclaration("n", "BIGINT"))
    return Declaration(topic, RelationKind.STREAM, topic, columns)


def target(name: str, kind: RelationKind = RelationKind.STREAM) -> Declaration:
    return Declaration(name, kind, name, query=name)


def rows(count: int, start: int = 0) -> list[tuple[Any, str]]:
    return [({"n": number}, f"k{number % 3}") for number in range(start, start + count)]


def copy(server: ServerThread, source: str, name: str, where: str = "n >= 0") -> str:
    sql = f"CREATE STREAM {name} AS SELECT k, n FROM {source} WHERE {where} EMIT CHANGES"
    return server.define(name, sql, [numbers(source)], target(name))


def found_numbers(read: Read, topic: str) -> list[int]:
    return sorted(json.loads(value or b"")["n"] for _, value in read(topic))


def wait_numbers(read: Read, topic: str, count: int) -> None:
    wait_until(lambda: len(found_numbers(read, topic)) >= count, f"{count} records in {topic}", TIMEOUT_S)
    assert found_numbers(read, topic) == list(range(count))


def test_a_query_runs_pauses_goes_on_and_is_terminated_without_a_trace(
    server: ServerThread, records: Callable[..., None], read: Read, name: str
) -> None:
    source, copied = f"{name}_in", f"{name}_out"
    records(source, rows(10))
    records(copied, [])
    query_id = copy(server, source, copied)
    status = server.wait_state(copied, "RUNNING")
    assert status["server"] == server.url
    wait_numbers(read, copied, 10)
    wait_until(lambda: server.status(copied)["rows"] == 10, "10 rows are reported", TIMEOUT_S)
    assert server.client.post(f"/queries/{copied}/pause").status_code == 202
    server.wait_state(copied, "PAUSED")
    checkpoint = Path(server.state) / query_id / "checkpoint"
    assert checkpoint.exists()
    records(source, rows(10, 10))
    assert server.client.post(f"/queries/{copied.upper()}/resume").status_code == 202
    wait_numbers(read, copied, 20)
    assert server.client.delete(f"/queries/{copied}").status_code == 202
    wait_until(lambda: not checkpoint.parent.exists(), "the checkpoint is gone", TIMEOUT_S)
    assert server.client.get(f"/queries/{copied}").status_code == 404
    wait_until(lambda: copied not in server.catalogue._records.statuses, "its status is gone", TIMEOUT_S)
    assert server.catalogue.declarations[copied].query is None
    assert found_numbers(read, copied) == list(range(20))


def test_a_query_that_fails_is_failed_alone_until_it_is_resumed(
    server: ServerThread, records: Callable[..., None], read: Read, name: str
) -> None:
    source, good, bad = f"{name}_in", f"{name}_good", f"{name}_bad"
    records(source, rows(5))
    records(good, [])
    records(bad, [])
    copy(server, source, good)
    sql = f"CREATE STREAM {bad} AS SELECT k, CAST(concat('x', n) AS INT) AS n FROM {source} EMIT CHANGES"
    server.define(bad, sql, [numbers(source)], target(bad))
    status = server.wait_state(bad, "FAILED")
    assert status["restarts"] == 3
    assert "'x" in status["trace"]
    for word in ("java", "Exception", "at org.", "Traceback"):
        assert word not in status["trace"]
    wait_numbers(read, good, 5)
    records(source, rows(5, 5))
    wait_numbers(read, good, 10)
    assert server.status(good)["state"] == "RUNNING"
    assert server.status(bad)["state"] == "FAILED"
    assert f'moldau_sql_query_state{{query="{bad}",state="FAILED"}} 1.0' in server.client.get("/metrics").text
    server.catalogue.want(bad, WantedState.RUNNING)
    wait_until(lambda: server.status(bad)["restarts"] > 3, "it was tried again", TIMEOUT_S)
    for one in (good, bad):
        server.client.delete(f"/queries/{one}")


def test_a_query_of_another_service_and_one_with_a_strange_id_are_left_alone(
    server: ServerThread, records: Callable[..., None], read: Read, name: str
) -> None:
    source, mine, other = f"{name}_in", f"{name}_mine", f"{name}_other"
    for topic in (source, mine, other):
        records(topic, rows(3) if topic == source else [])
    sql = f"CREATE STREAM {other} AS SELECT k, n FROM {source} EMIT CHANGES"
    server.define(other, sql, [numbers(source)], target(other), **{"service.id": "elsewhere"})
    copy(server, source, mine)
    wait_numbers(read, mine, 3)
    assert server.query(other)["status"] is None
    assert read(other) == []
    for one in (mine, other):
        server.client.delete(f"/queries/{one}")


def test_rows_of_emit_changes_come_until_the_client_goes(
    server: ServerThread, records: Callable[..., None], name: str
) -> None:
    records(name, rows(3))
    with server.client.stream("POST", "/query", json={"sql": f"SELECT n FROM {name} EMIT CHANGES"}) as answer:
        assert answer.status_code == 200
        lines = (json.loads(line) for line in answer.iter_lines())
        assert next(lines)["columns"] == [{"name": "n", "type": "bigint"}]
        assert sorted(next(lines)["row"][0] for _ in range(3)) == [0, 1, 2]
        records(name, rows(1, 3))
        assert next(lines) == {"row": [3]}


def test_a_question_by_key_is_answered_from_the_index_of_a_table_with_all_that_is_committed(
    server: ServerThread, records: Callable[..., None], name: str
) -> None:
    source, totals = f"{name}_in", f"{name}_totals"
    records(source, rows(9))
    records(totals, [])
    columns = (ColumnDeclaration("k", "STRING", is_key=True), ColumnDeclaration("c", "BIGINT"))
    declared = Declaration(totals, RelationKind.TABLE, totals, columns, query=totals)
    sql = f"CREATE TABLE {totals} AS SELECT k, count(*) AS c FROM {source} GROUP BY k EMIT CHANGES"
    query_id = server.define(totals, sql, [numbers(source)], declared)
    ask = f"SELECT c FROM {totals} WHERE k = 'k1'"

    def answer() -> list[Any]:
        found = server.client.post("/statements", json={"sql": ask}).json()["statements"][0]["rows"]
        return list(found)

    wait_until(lambda: answer() == [[3]], "the answer of the first rows", TIMEOUT_S)
    index = server.state / query_id / "index"
    assert list(index.iterdir())
    records(source, rows(3))
    wait_until(lambda: answer() == [[4]], "the answer of all rows", TIMEOUT_S)
    server.client.delete(f"/queries/{totals}")
    wait_until(lambda: not index.exists(), "the index is gone", TIMEOUT_S)
    assert answer() == [[4]]
