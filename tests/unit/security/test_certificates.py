"""Certificates for a new cluster: OpenSSL accepts those of the authority for their hosts, and no others."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from moldau.security.certificates import Certificate, new_authority, new_certificate

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def authority() -> Certificate:
    return new_authority("test authority", NOW)


def shake_hands(directory: Path, server: Certificate, trusted: Certificate, host: str) -> ssl.SSLObject:
    """A TLS handshake in memory; returns the client's side, or raises its error."""
    file = directory / "server.pem"
    file.write_text(server.pem)
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(file)
    client_context = ssl.create_default_context(cadata=trusted.certificate)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname=host)
    other = server_context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (client, other):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return client


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_a_client_accepts_a_certificate_for_its_host(tmp_path: Path, authority: Certificate, host: str) -> None:
    server = new_certificate(authority, "broker", NOW, hosts=["localhost", "127.0.0.1", "::1"])
    assert shake_hands(tmp_path, server, authority, host).version() == "TLSv1.3"


def test_a_client_refuses_a_certificate_for_another_host(tmp_path: Path, authority: Certificate) -> None:
    server = new_certificate(authority, "broker", NOW, hosts=["elsewhere"])
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(tmp_path, server, authority, "localhost")


def test_a_client_refuses_a_certificate_of_another_authority(tmp_path: Path, authority: Certificate) -> None:
    server = new_certificate(new_authority("other", NOW), "broker", NOW, hosts=["localhost"])
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(tmp_path, server, authority, "localhost")


def test_a_client_refuses_an_expired_certificate(tmp_path: Path, authority: Certificate) -> None:
    then = NOW - timedelta(days=10)
    server = new_certificate(authority, "broker", then, hosts=["localhost"], life=timedelta(days=1))
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        shake_hands(tmp_path, server, authority, "localhost")


def test_a_certificate_does_not_show_its_key(authority: Certificate) -> None:
    assert "PRIVATE" not in repr(authority)
    assert "PRIVATE" in authority.pem
