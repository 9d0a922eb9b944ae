"""Writes at a registry that does not lead: forwarded to the leader, whose answer is passed on as it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar

import pytest

from moldau.registry.operations import WriteDecision
from moldau.registry.refusals import NotLeader
from moldau.registry.stored_registry import MemoryRegistry
from moldau.testing import Registry
from tests.registry.rest.in_process import InProcess

Answer = TypeVar("Answer")
TEXT = '{"type":"record","name":"A","fields":[{"name":"x","type":"int"}]}'
OTHER = '{"type":"record","name":"A","fields":[{"name":"z","type":"string"}]}'


class Follower(MemoryRegistry):
    """A registry that another one leads. `read` counts how often it was to read what the leader wrote."""

    def __init__(self, url: str | None) -> None:
        super().__init__()
        self.url = url
        self.read = 0

    async def _commit(self, decide: Callable[[], WriteDecision[Answer]]) -> Answer:
        raise NotLeader(self.url)

    async def fresh(self) -> None:
        self.read += 1


def test_a_write_reaches_the_leader_and_is_read_here_before_it_is_answered() -> None:
    with Registry() as leader:
        follower = Follower(leader.url)
        answer = InProcess(follower).post("/subjects/a%2Fb/versions?normalize=true", json={"schema": TEXT})
        assert (answer.status_code, answer.json()["id"], follower.read) == (200, 1, 1)
        assert leader.requests == type(leader.requests)([("POST", "/subjects/a/b/versions")])
        assert leader.schema("a/b").registered.version == 1
        asked = InProcess(follower)
        assert asked.put("/config", json={"compatibility": "NONE"}).json() == {"compatibility": "NONE"}
        assert asked.put("/contexts/.test/mode", json={"mode": "READONLY"}).json() == {"mode": "READONLY"}
        assert asked.delete("/subjects/a%2Fb").json() == [1]


def test_a_refusal_of_the_leader_is_passed_on() -> None:
    with Registry() as leader:
        leader.register("a", TEXT)
        answer = InProcess(Follower(leader.url)).post("/subjects/a/versions", json={"schema": OTHER})
        assert (answer.status_code, answer.json()["error_code"]) == (409, 409)


@pytest.mark.parametrize(("url", "code"), [(None, 50004), ("http://127.0.0.1:1", 50003)])
def test_a_leader_that_is_not_there_is_named(url: str | None, code: int) -> None:
    answer = InProcess(Follower(url)).post("/subjects/a/versions", json={"schema": TEXT})
    assert (answer.status_code, answer.json()["error_code"]) == (500, code)


def test_a_request_is_forwarded_once_only() -> None:
    """Two registries that take each other for the leader must not send a request round for ever."""
    with Registry() as leader:
        answer = InProcess(Follower(leader.url)).post(
            "/subjects/a/versions",
            content=json.dumps({"schema": TEXT}),
            headers={"moldau-forwarded": "1", "content-type": "application/json"},
        )
        assert (answer.status_code, answer.json()["error_code"]) == (500, 50003)
        assert not leader.requests


def test_reads_are_answered_here() -> None:
    follower = Follower("http://127.0.0.1:1")
    asked = InProcess(follower)
    assert asked.get("/subjects").json() == []
    assert asked.get("/schemas/ids/1").status_code == 404
    assert follower.read == 2, "an unknown id may be one that the leader has just given"
