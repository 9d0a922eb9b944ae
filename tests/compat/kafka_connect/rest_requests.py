"""Requests to the REST API of a Connect worker, and their answers in the form in which they are compared."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.support.waiting import NotYet, wait_until

JSON = "application/json"
WAIT_S = 120.0


@dataclass(frozen=True)
class Answer:
    """What is compared: status, type of the content, place of what was created, and the body."""

    status: int
    content_type: str | None
    location: str | None
    body: Any


@dataclass(frozen=True)
class Request:
    """One request. `{dir}` in path and body is a directory of the worker's own."""

    name: str
    method: str
    path: str
    body: Any = None
    raw: str | None = None
    """The body as text, where it is no JSON."""
    content_type: str | None = JSON
    headers: dict[str, str] = field(default_factory=dict)
    until: Callable[[Answer], bool] | None = None
    """Ask again until the answer is like this: work goes on in the background."""


def play(url: str, directory: Path, requests: list[Request]) -> dict[str, Answer]:
    """Send the requests one after another; the answers by the names of the requests."""
    (directory / "lines.txt").write_text("one\ntwo\nthree\n")
    # A connection for each request: Kafka's server closes one after some errors, at a time of its own.
    no_reuse = httpx.Limits(max_keepalive_connections=0)
    with httpx.Client(base_url=url, timeout=90, trust_env=False, limits=no_reuse) as client:
        return {request.name: _ask(client, request, directory) for request in requests}


def _ask(client: httpx.Client, request: Request, directory: Path) -> Answer:
    if request.until is None:
        return _send(client, request, directory)
    reached = request.until

    def answer() -> Answer:
        found = _send(client, request, directory)
        if not reached(found):
            raise NotYet(str(found))
        return found

    awaited: Answer = wait_until(answer, request.name, WAIT_S)
    return awaited


def _send(client: httpx.Client, request: Request, directory: Path) -> Answer:
    content = None
    headers = {"Accept": "*/*", **request.headers}
    if request.raw is not None:
        content = request.raw
    elif request.body is not None:
        content = json.dumps(request.body).replace("{dir}", str(directory))
    if request.content_type is not None and request.method not in ("GET", "HEAD", "DELETE", "OPTIONS"):
        headers["Content-Type"] = request.content_type
    answer = client.request(request.method, request.path, content=content, headers=headers)
    kind = answer.headers.get("content-type")
    return Answer(
        answer.status_code,
        None if kind is None else kind.partition(";")[0],
        answer.headers.get("location"),
        _body(answer.text.replace(str(directory), "{dir}")),
    )


def _body(text: str) -> Any:
    if not text:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text
