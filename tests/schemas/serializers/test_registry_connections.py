"""Connections of the registry's client: what it sends to log in, and whom it trusts. The server only notes requests."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from moldau.schemas import RegistryClient, RegistryError
from tests.support.certificates import Authority, Certificate


class Noting(BaseHTTPRequestHandler):
    """Answers every request with a list, and notes its headers."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.noted.append(dict(self.headers.items()))  # type: ignore[attr-defined]
        body = b"[]"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: the output is the test's."""


@contextmanager
def noting(context: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[dict[str, str]]]]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Noting) as server:
        server.noted = []  # type: ignore[attr-defined]
        server.handle_error = lambda *_: None  # type: ignore[method-assign] # refused handshakes are what is tested
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        scheme = "http" if context is None else "https"
        try:
            yield f"{scheme}://127.0.0.1:{server.server_port}", server.noted  # type: ignore[attr-defined]
        finally:
            server.shutdown()
            thread.join()


def server_context(certificate: Certificate, directory: Path, clients: Authority | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.write_pem(directory / "server.pem"))
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(clients.write_pem(directory / "clients.pem"))
    return context


def test_a_token_is_sent_instead_of_user_and_password() -> None:
    with noting() as (url, noted):
        settings = {
            "url": url.replace("://", "://ada:hush@"),
            "bearer.auth.token": "t0ken",
            "bearer.auth.logical.cluster": "lsrc-1",
            "bearer.auth.identity.pool.id": "pool-2",
        }
        with RegistryClient(settings) as client:
            assert client.subjects() == []
    sent = {name.lower(): value for name, value in noted[0].items()}
    assert sent["authorization"] == "Bearer t0ken"
    assert (sent["target-sr-cluster"], sent["confluent-identity-pool-id"]) == ("lsrc-1", "pool-2")


def test_nothing_of_the_environment_is_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login ada password hush\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with noting() as (url, noted), RegistryClient(url) as client:
        assert client.subjects() == []
    assert "authorization" not in {name.lower() for name in noted[0]}


def test_a_certificate_of_a_trusted_authority_is_accepted(tmp_path: Path) -> None:
    authority = Authority()
    trusted = str(authority.write_pem(tmp_path / "ca.pem"))
    with noting(server_context(authority.issue(), tmp_path)) as (url, noted):
        for name in ("ssl.truststore.location", "ssl.ca.location", "schema.registry.ssl.truststore.location"):
            with RegistryClient({"url": url, name: trusted}) as client:
                assert client.subjects() == []
    assert len(noted) == 3


def test_another_authority_or_name_is_refused(tmp_path: Path) -> None:
    authority = Authority()
    trusted = {"ssl.truststore.location": str(authority.write_pem(tmp_path / "ca.pem")), "max.retries": 0}
    for certificate in (Authority().issue(), authority.issue(hosts=("elsewhere.example",)), authority.expired()):
        with (
            noting(server_context(certificate, tmp_path)) as (url, noted),
            RegistryClient({"url": url, **trusted}) as client,
            pytest.raises(RegistryError, match=r"(?i)certificate") as caught,
        ):
            client.subjects()
        assert caught.value.status == 0 and not noted


def test_a_client_shows_its_own_certificate(tmp_path: Path) -> None:
    authority = Authority()
    settings = {"ssl.truststore.location": str(authority.write_pem(tmp_path / "ca.pem")), "max.retries": 0}
    own = str(authority.issue().write_pem(tmp_path / "own.pem"))
    with noting(server_context(authority.issue(), tmp_path, clients=authority)) as (url, noted):
        for name in ("ssl.keystore.location", "ssl.certificate.location"):
            with RegistryClient({"url": url, **settings, name: own}) as client:
                assert client.subjects() == []
        with RegistryClient({"url": url, **settings}) as client, pytest.raises(RegistryError):
            client.subjects()
    assert len(noted) == 2
