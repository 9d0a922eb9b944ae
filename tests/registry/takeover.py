"""Load of registrations on registries that a test kills and freezes, and the check of what was acknowledged."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import httpx

from tests.support.registry_process import RegistryServer
from tests.support.waiting import wait_until

WRITERS = 4
CALL_TIMEOUT_S = 3.0
"""A request to a frozen registry is repeated at the other one after this time. It may have been carried out."""
PROGRESS_TIMEOUT_S = 180.0
PAUSE_S = 0.05
"""Between two attempts of a writer: a killed registry refuses connections at once. It is a pause, not a wait."""


@dataclass(frozen=True)
class Acknowledged:
    """One registration that a registry has confirmed."""

    subject: str
    version: int
    id: int
    text: str


class Load:
    """Threads that register schemas until the end. Each asks the registries in turn, and repeats what failed."""

    def __init__(self, servers: Sequence[RegistryServer]) -> None:
        self._urls = [server.url for server in servers]
        self._numbers = itertools.count()
        self._ending = threading.Event()
        self.acknowledged: list[Acknowledged] = []
        self.unexpected: list[str] = []
        self._threads = [threading.Thread(target=self._write, args=(index,)) for index in range(WRITERS)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def wait_for_more(self, count: int) -> None:
        """Wait until so many more registrations are acknowledged."""
        goal = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= goal, f"{count} more registrations", PROGRESS_TIMEOUT_S)

    def _write(self, index: int) -> None:
        urls = itertools.cycle(self._urls[index % len(self._urls) :] + self._urls[: index % len(self._urls)])
        with httpx.Client(timeout=CALL_TIMEOUT_S, trust_env=False) as client:
            while not self._ending.is_set():
                number = next(self._numbers)
                text = json.dumps({"type": "record", "name": f"R{number}", "fields": []}, separators=(",", ":"))
                self._register(client, urls, f"writer-{index}-{number % 7}", text)

    def _register(self, client: httpx.Client, urls: itertools.cycle[str], subject: str, text: str) -> None:
        while not self._ending.is_set():
            url = next(urls)
            try:
                answer = client.post(f"{url}/subjects/{subject}/versions", json={"schema": text})
            except httpx.HTTPError:
                time.sleep(PAUSE_S)
                continue
            if answer.status_code == 200:
                found = answer.json()
                self.acknowledged.append(Acknowledged(subject, found["version"], found["id"], text))
                return
            if answer.status_code < 500:
                self.unexpected.append(f"{url}: {answer.status_code} {answer.text}")
                return
            time.sleep(PAUSE_S)


def allow_any_schema(server: RegistryServer) -> None:
    """Versions of a subject have nothing in common in this load."""

    def written() -> bool:
        return httpx.put(f"{server.url}/config", json={"compatibility": "NONE"}, timeout=60.0).status_code == 200

    wait_until(written, "the compatibility level is NONE", PROGRESS_TIMEOUT_S, retry_on=(httpx.HTTPError,))


def leader_of(servers: Sequence[RegistryServer]) -> RegistryServer:
    """The registry that all of them take for the leader."""

    def agreed() -> RegistryServer | None:
        named = {server.leader for server in servers}
        return next((server for server in servers if {server.url} == named), None)

    found: RegistryServer = wait_until(agreed, "all registries know the same leader", PROGRESS_TIMEOUT_S)
    return found


def check(servers: Sequence[RegistryServer], load: Load) -> None:
    """No id was given twice, and every registry serves everything that was acknowledged."""
    assert not load.unexpected, load.unexpected[:5]
    meaning: dict[int, str] = {}
    versions: dict[tuple[str, int], str] = {}
    for one in load.acknowledged:
        assert meaning.setdefault(one.id, one.text) == one.text, f"id {one.id} was given twice"
        assert versions.setdefault((one.subject, one.version), one.text) == one.text, f"{one} is two schemas"
    for server in servers:
        listed = httpx.get(f"{server.url}/schemas", timeout=120.0).json()
        served = {(one["subject"], one["version"], one["id"]): one["schema"] for one in listed}
        lost = [one for one in load.acknowledged if served.get((one.subject, one.version, one.id)) != one.text]
        assert not lost, f"{len(lost)} of {len(load.acknowledged)} lost at {server.url}, such as {lost[0]}"
        ids = [one["id"] for one in listed]
        assert len(set(ids)) == len(ids), "an id has two schemas"
