"""A real HTTP server whose answers a test decides, and which remembers the requests that it got."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Got:
    """A request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Answer:
    status: int = 200
    body: Any = ""
    headers: dict[str, str] = field(default_factory=dict)


class WebServer:
    """The server: `answer` is called for each request; requests are in `got`."""

    def __init__(self, answer: Callable[[Got], Answer]) -> None:
        self.answer = answer
        self.got: list[Got] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def handle_any(self) -> None:
                parts = urlsplit(self.path)
                query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
                size = int(self.headers.get("Content-Length") or 0)
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Got(self.command, parts.path, query, headers, self.rfile.read(size))
                owner.got.append(request)
                answer = owner.answer(request)
                body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
                body = b"" if answer.status in (204, 304) else body
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815 - names of http.server

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def web_server(answer: Callable[[Got], Answer]) -> Iterator[WebServer]:
    server = WebServer(answer)
    server.start()
    try:
        yield server
    finally:
        server.close()
