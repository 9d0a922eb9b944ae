"""Keys of bearer tokens: read from a file or a server, again when needed, and never too often."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from moldau.broker.connection.jwks_keys import MAX_DOCUMENT_BYTES, MIN_PAUSE_S, JwksKeys, JwksUnavailable
from moldau.security.sasl_config import JwksSource
from tests.support.secured import TokenIssuer

ONE, TWO = TokenIssuer("one"), TokenIssuer("two")


class Time:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def keys_of(path: Path, time: Time, refresh_s: float = 3600) -> JwksKeys:
    keys = JwksKeys(JwksSource(f"file:{path}", refresh_s, 0.1, 10), time)
    keys.load()
    return keys


def test_a_new_key_of_the_issuer_is_found(tmp_path: Path) -> None:
    path, time = tmp_path / "jwks.json", Time()
    path.write_text(ONE.jwks())
    keys = keys_of(path, time)
    assert keys.find("one") is not None
    path.write_text(TWO.jwks())
    assert keys.find("two") is None  # read a moment ago
    time.now += MIN_PAUSE_S
    assert keys.find("two") is not None
    assert keys.find("one") is None  # the issuer no longer has it


def test_made_up_key_ids_do_not_cause_many_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, time = tmp_path / "jwks.json", Time()
    path.write_text(ONE.jwks())
    keys, reads = keys_of(path, time), []
    monkeypatch.setattr(keys, "load", lambda: reads.append(time.now) or setattr(keys, "_read_at", time.now))
    for number in range(1000):
        time.now += 0.05
        keys.find(f"made up {number}")
    assert 8 <= len(reads) <= 10  # in 50 seconds


def test_old_keys_are_read_again(tmp_path: Path) -> None:
    path, time = tmp_path / "jwks.json", Time()
    path.write_text(ONE.jwks())
    keys = keys_of(path, time, refresh_s=60)
    path.write_text(TokenIssuer("one").jwks())
    first = keys.find("one")
    time.now += 61
    assert keys.find("one") is not first


def test_an_unreadable_document_keeps_the_known_keys(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, time = tmp_path / "jwks.json", Time()
    path.write_text(ONE.jwks())
    keys = keys_of(path, time, refresh_s=60)
    path.write_text("nonsense")
    for _ in range(20):
        time.now += 61
        assert keys.find("one") is not None
    assert "not a JWKS document" in caplog.text
    path.write_text(TWO.jwks())
    time.now += 61
    assert keys.find("two") is not None


@pytest.mark.parametrize("content", [None, b"", b"{}", b"x" * (MAX_DOCUMENT_BYTES + 1)])
def test_the_first_read_must_succeed(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "jwks.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(JwksUnavailable, match=r"jwks\.json"):
        keys_of(path, Time())


@contextmanager
def web_server(document: str, status: int = 200) -> Iterator[str]:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(document.encode())

        def log_message(self, *_: object) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/jwks"
        finally:
            server.shutdown()
            thread.join()


def test_keys_of_a_server() -> None:
    with web_server(ONE.jwks()) as url:
        keys = JwksKeys(JwksSource(url, 3600, 0.1, 10), Time())
        keys.load()
    assert keys.find("one") is not None


def test_a_server_that_refuses_or_is_gone_is_an_error() -> None:
    with web_server("", 403) as url, pytest.raises(JwksUnavailable, match="Forbidden"):
        JwksKeys(JwksSource(url, 3600, 0.1, 10), Time()).load()
    with pytest.raises(JwksUnavailable, match="refused"):
        JwksKeys(JwksSource(url, 3600, 0.1, 10), Time()).load()
