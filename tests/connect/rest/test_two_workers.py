"""Two real workers of one group: each answers every request, also those that only the other one can do."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from tests.compat.kafka_connect.moldau_worker import MoldauConnect
from tests.support.process import BrokerProcess
from tests.support.waiting import NotYet, wait_until

CONFIG = {"connector.class": "FileStreamSource", "file": "/nonexistent/lines.txt", "topic": "lines"}


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    directory = tmp_path_factory.mktemp("workers")
    places = [directory / "a", directory / "b"]
    for place in places:
        place.mkdir()
    with BrokerProcess(directory / "data") as broker, ExitStack() as stack, ThreadPoolExecutor(2) as both:
        workers = [MoldauConnect(place, broker.bootstrap) for place in places]
        yield [worker.url for worker in both.map(stack.enter_context, workers)]


def ask(url: str, method: str, path: str, body: Any = None) -> httpx.Response:
    """One request, again while the workers rebalance, as Kafka's clients do."""

    def answer() -> httpx.Response:
        found = httpx.request(method, url + path, json=body, timeout=60, trust_env=False)
        if found.status_code == 409 and "already exists" not in found.text:
            raise NotYet(found.text)
        return found

    found: httpx.Response = wait_until(answer, f"{method} {path}")
    return found


def test_both_workers_create_change_and_delete_connectors(urls: list[str]) -> None:
    """One of them leads: for the other one each of these requests is forwarded."""
    for number, url in enumerate(urls):
        name = f"made {number}"
        path = f"/connectors/made%20{number}"
        created = ask(url, "POST", "/connectors", {"name": name, "config": CONFIG, "initial_state": "STOPPED"})
        assert (created.status_code, created.headers["location"]) == (201, url + path)
        assert ask(url, "POST", "/connectors", {"name": name, "config": CONFIG}).status_code == 409
        assert ask(url, "PUT", f"{path}/config", {"connector.class": "FileStreamSource"}).status_code == 400
        assert ask(url, "PATCH", f"{path}/config", {"batch.size": 7}).json()["config"]["batch.size"] == "7"
        offsets = [{"partition": {"filename": "f"}, "offset": {"position": 3}}]
        assert ask(url, "PATCH", f"{path}/offsets", {"offsets": offsets}).status_code == 200
        for other in urls:
            assert ask(other, "GET", f"{path}/offsets").json() == {"offsets": offsets}
        assert ask(url, "DELETE", f"{path}/offsets").status_code == 200
        assert ask(url, "DELETE", path).status_code == 204
        assert ask(url, "DELETE", path).status_code == 404


def test_a_connector_is_restarted_and_its_progress_shown_through_either_worker(urls: list[str]) -> None:
    assert ask(urls[0], "PUT", "/connectors/shared/config", CONFIG).status_code == 201
    for url in urls:
        wait_until(lambda url=url: _state(url) == "RUNNING", "it runs")  # type: ignore[misc]
        assert ask(url, "POST", "/connectors/shared/restart").status_code == 204
        wait_until(lambda url=url: _state(url) == "RUNNING", "it runs again")  # type: ignore[misc]
        assert ask(url, "GET", "/connectors/shared/status?expand=progress").json()["progress"]["records"] == 0
    assert ask(urls[1], "DELETE", "/connectors/shared").status_code == 204


def _state(url: str) -> str | None:
    status = ask(url, "GET", "/connectors/shared/status")
    return status.json()["connector"]["state"] if status.status_code == 200 else None


def test_a_level_for_all_workers_reaches_the_other_one(urls: list[str]) -> None:
    assert ask(urls[0], "PUT", "/admin/loggers/moldau.test?scope=cluster", {"level": "ERROR"}).status_code == 204
    for url in urls:
        wait_until(lambda url=url: ask(url, "GET", "/admin/loggers/moldau.test").json().get("level") == "ERROR")  # type: ignore[misc]
