"""TLS listeners: who gets through the handshake and as whom, and certificates that change while the broker runs."""

from __future__ import annotations

import os
import socket
import ssl
import struct
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from moldau.wire.api import ApiKey
from moldau.wire.messages.fetch import FetchResponse
from moldau.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from moldau.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.compat import wire
from tests.support.certificates import Authority, Certificate, self_signed
from tests.support.raw import ConnectionClosedError, RawConnection
from tests.support.secured import ADMIN, ADMIN_PASSWORD, LogLines, SecuredBroker
from tests.support.waiting import wait_until

BROKER_RESOURCE = 4
SET = 0


def client_context(secured: SecuredBroker, certificate: Certificate | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(secured.truststore))
    if certificate is not None:
        path = certificate.write_pem(secured.folder / f"client-{id(certificate)}.pem")
        context.load_cert_chain(path)
    return context


def connect(secured: SecuredBroker, context: ssl.SSLContext, protocol: str = "SSL") -> RawConnection:
    raw = RawConnection(secured.address(protocol))
    try:
        raw.socket = context.wrap_socket(raw.socket, server_hostname="localhost")
    except OSError:
        raw.close()
        raise
    return raw


def metadata(raw: RawConnection) -> MetadataResponse:
    answer: MetadataResponse = raw.call(ApiKey.METADATA, 12, MetadataRequest(topics=None), MetadataResponse)
    return answer


def principals(secured: SecuredBroker) -> list[str]:
    found: list[str] = secured.call(lambda: [str(session.principal) for session in secured.broker.connections])
    return found


def assert_refused(secured: SecuredBroker, context: ssl.SSLContext) -> None:
    """In TLS 1.3 a client learns only from its first read that its certificate was refused."""

    def attempt() -> None:
        with connect(secured, context) as raw:
            metadata(raw)

    with pytest.raises((ssl.SSLError, ConnectionError, ConnectionClosedError)):
        attempt()
    wait_until(lambda: secured.call(lambda: secured.broker.connections.unauthenticated) == 0)


@pytest.fixture(scope="module")
def required(tmp_path_factory: pytest.TempPathFactory) -> SecuredBroker:  # type: ignore[misc]
    """A broker that requires a certificate, and makes short names of some."""
    settings = {
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?),OU=People$/$1/L,RULE:^CN=.*,OU=Robots.*$/robot/",
    }
    with SecuredBroker(tmp_path_factory.mktemp("required"), settings) as secured:
        yield secured  # type: ignore[misc]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_versions_of_tls_are_served(secured: SecuredBroker, version: ssl.TLSVersion) -> None:
    context = client_context(secured)
    context.minimum_version = context.maximum_version = version
    with connect(secured, context) as raw:
        assert metadata(raw).brokers
        assert principals(secured) == ["User:ANONYMOUS"]


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_older_versions_are_refused(secured: SecuredBroker, log_lines: LogLines) -> None:
    context = client_context(secured)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    assert_refused(secured, context)
    assert log_lines.about("TLS handshake failed")


def test_a_certificate_names_the_principal(secured: SecuredBroker) -> None:
    certificate = secured.authority.issue("CN=alice,OU=People,O=Moldau")
    with connect(secured, client_context(secured, certificate)) as raw:
        metadata(raw)
        assert principals(secured) == ["User:CN=alice,OU=People,O=Moldau"]


@pytest.mark.parametrize(("name", "principal"), [("CN=Alice,OU=People", "alice"), ("CN=x,OU=Robots,O=y", "robot")])
def test_rules_shorten_the_name(required: SecuredBroker, name: str, principal: str) -> None:
    with connect(required, client_context(required, required.authority.issue(name))) as raw:
        metadata(raw)
        assert principals(required) == [f"User:{principal}"]


def test_a_name_that_no_rule_matches_is_refused(required: SecuredBroker, log_lines: LogLines) -> None:
    assert_refused(required, client_context(required, required.authority.issue("CN=Mallory,OU=Elsewhere")))
    assert log_lines.about("no rule of ssl.principal.mapping.rules matches")


STRANGERS: dict[str, tuple[Callable[[Authority], Certificate | None], str]] = {
    "no certificate": (lambda _: None, "the client has no certificate, which ssl.client.auth requires"),
    "expired": (lambda authority: authority.expired("CN=alice,OU=People"), "expired"),
    "not yet valid": (lambda authority: authority.not_yet_valid("CN=alice,OU=People"), "not yet valid"),
    "self-signed": (lambda _: self_signed("CN=alice,OU=People"), "self-signed"),
    "another authority": (lambda _: Authority().issue("CN=alice,OU=People"), "certificate"),
}


@pytest.mark.parametrize("case", STRANGERS)
def test_a_certificate_that_is_not_trusted_is_refused(required: SecuredBroker, case: str, log_lines: LogLines) -> None:
    make, reason = STRANGERS[case]
    before = required.call(lambda: required.broker.metrics.failed_authentications)
    assert_refused(required, client_context(required, make(required.authority)))
    lines = log_lines.about("TLS handshake failed")
    assert len(lines) == 1
    assert reason in lines[0]
    assert required.call(lambda: required.broker.metrics.failed_authentications) == before + 1


@pytest.mark.parametrize("own", [False, True])
def test_a_login_needs_a_certificate_only_if_its_listener_says_so(tmp_path: Path, own: bool) -> None:
    """As in Kafka: files with `ssl.client.auth=required` for their SSL listener have clients of SASL_SSL without."""
    settings = {"ssl.client.auth": "required"}
    if own:
        settings["listener.name.sasl_ssl.ssl.client.auth"] = "required"
    with SecuredBroker(tmp_path, settings) as secured:
        assert_refused(secured, client_context(secured))

        def log_in() -> None:
            with connect(secured, client_context(secured), "SASL_SSL") as raw:
                raw.log_in(ADMIN, ADMIN_PASSWORD)

        if own:
            with pytest.raises((ssl.SSLError, ConnectionError, ConnectionClosedError)):
                log_in()
        else:
            log_in()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    ("case", "alert"), [("no certificate", "ALERT"), ("expired", "EXPIRED"), ("self-signed", "ALERT_UNKNOWN_CA")]
)
def test_a_client_is_told_why_its_certificate_is_refused(
    required: SecuredBroker, version: ssl.TLSVersion, case: str, alert: str, log_lines: LogLines
) -> None:
    """Without an alert, clients take the end of the connection for a restart, and try again and again."""
    make, _ = STRANGERS[case]
    context = client_context(required, make(required.authority))
    context.minimum_version = context.maximum_version = version
    with socket.create_connection(("127.0.0.1", required.ports["SSL"])) as sock:
        with pytest.raises(ssl.SSLError) as refused, context.wrap_socket(sock, server_hostname="localhost") as secure:
            secure.recv(1)
        assert alert in str(refused.value.reason)
    wait_until(lambda: len(log_lines.about("TLS handshake failed")) == 1)


def test_a_wrong_certificate_is_refused_also_where_none_is_needed(secured: SecuredBroker) -> None:
    assert_refused(secured, client_context(secured, self_signed("CN=admin")))


@pytest.mark.parametrize(
    "first_bytes",
    [struct.pack(">ihhih", 20, 18, 0, 1, -1) + bytes(10), b"GET / HTTP/1.1\r\n\r\n", b"\0" * 2000, os.urandom(300)],
    ids=["kafka", "http", "zeros", "random"],
)
@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_plain_text_to_a_tls_port_is_closed_and_logged(
    secured: SecuredBroker, first_bytes: bytes, protocol: str, log_lines: LogLines
) -> None:
    with RawConnection(secured.address(protocol)) as raw:
        raw.socket.sendall(first_bytes)
        raw.socket.shutdown(socket.SHUT_WR)
        while True:  # perhaps an alert, then the end
            try:
                if not raw.socket.recv(100):
                    break
            except ConnectionError:
                break
    wait_until(lambda: len(log_lines.about("TLS handshake failed")) == 1)
    if first_bytes[:4] in (b"GET ", b"\0\0\0\x14"):
        assert log_lines.about("does not speak TLS; check its security.protocol")


def test_a_connection_that_is_closed_unused_is_no_warning(secured: SecuredBroker, log_lines: LogLines) -> None:
    """Load balancers connect and close every few seconds, to see whether a broker listens."""
    RawConnection(secured.address("SASL_SSL")).socket.close()
    wait_until(lambda: len(log_lines.about("TLS handshake failed")) == 1)
    assert log_lines.about("the client closed the connection")
    assert not log_lines.warnings


def test_nothing_is_served_before_the_handshake_is_complete(required: SecuredBroker) -> None:
    """Requests that follow the client's hello at once are not read as requests."""
    outgoing = ssl.MemoryBIO()
    session = client_context(required).wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        session.do_handshake()
    with RawConnection(required.address("SSL")) as raw:
        raw.socket.sendall(outgoing.read() + struct.pack(">ihhih", 20, 3, 0, 1, -1) + bytes(10))
        data = b""
        while chunk := _read(raw):
            data += chunk
        assert data[:1] in (b"", b"\x16", b"\x15")  # TLS records only, unless a reset came first
    wait_until(lambda: required.call(lambda: len(required.broker.connections)) == 0)


def _read(raw: RawConnection) -> bytes:
    try:
        return raw.socket.recv(65536)
    except ConnectionError:
        return b""


def served_certificate(secured: SecuredBroker, authority: Authority | None = None) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with connect(secured, context) as raw:
        assert isinstance(raw.socket, ssl.SSLSocket)
        found = raw.socket.getpeercert(binary_form=True)
        assert found is not None
        return found


def replace(path: Path, certificate: Certificate) -> None:
    """As careful operators do: write beside, then rename."""
    certificate.write_pem(path.with_suffix(".new")).rename(path)


def test_new_certificates_are_used_without_a_restart(tmp_path: Path, log_lines: LogLines) -> None:
    with SecuredBroker(tmp_path) as secured:
        before = served_certificate(secured)
        with connect(secured, client_context(secured)) as open_one:
            replace(secured.keystore, secured.authority.issue())
            wait_until(lambda: served_certificate(secured) != before)
            assert metadata(open_one).brokers  # and keeps its session
            with connect(secured, client_context(secured)) as new_one:
                assert metadata(new_one).brokers
        assert log_lines.about("new certificates in use")


def test_a_broken_key_store_leaves_the_old_one_in_use(tmp_path: Path, log_lines: LogLines) -> None:
    with SecuredBroker(tmp_path) as secured:
        before = served_certificate(secured)
        for broken in ("", "nonsense", secured.authority.pem):
            log_lines.lines.clear()
            secured.keystore.write_text(broken)
            wait_until(lambda: bool(log_lines.about("new certificates not used, the old ones stay")))
            assert served_certificate(secured) == before
        secured.keystore.unlink()
        assert served_certificate(secured) == before
        replace(secured.keystore, secured.authority.issue())
        wait_until(lambda: served_certificate(secured) != before)


def test_a_key_store_is_replaced_by_a_changed_setting(tmp_path: Path, log_lines: LogLines) -> None:
    with SecuredBroker(tmp_path) as secured, RawConnection(secured.address("PLAINTEXT")) as admin:
        before = served_certificate(secured)
        new = secured.authority.issue().write_pem(tmp_path / "new.pem")

        def alter(name: str, value: str) -> int:
            config = IncrementalAlterConfigsRequestConfig(name=name, config_operation=SET, value=value)
            resource = IncrementalAlterConfigsRequestResource(
                resource_type=BROKER_RESOURCE, resource_name="1", configs=[config]
            )
            (answer,) = wire.ask(
                admin, IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
            ).responses
            return int(answer.error_code)

        assert alter("ssl.keystore.location", str(new)) != 0  # only for one listener
        assert alter("listener.name.ssl.ssl.keystore.location", str(new)) == 0
        wait_until(lambda: served_certificate(secured) != before)
        assert alter("listener.name.ssl.ssl.keystore.location", "/no/such/file") == 0
        wait_until(lambda: bool(log_lines.about("new certificates not used")))
        assert served_certificate(secured) != before


def test_large_frames_go_both_ways(secured: SecuredBroker) -> None:
    """Larger than any buffer of TLS, many at once, and requests that wait for each other."""
    value = os.urandom(900_000)
    with connect(secured, client_context(secured)) as raw:
        wire.create_topic(raw, "large", 1, {"max.message.bytes": "10000000"})
        for _ in range(8):
            wire.produced(raw, "large", value)
        for _ in range(3):
            assert wire.stored_values(raw, "large") == [value] * 8


GREEDY, PIPELINED = 12, 10
MEGABYTE = 1024 * 1024


def test_clients_that_do_not_read_cost_little_memory(tmp_path: Path) -> None:
    """Answers count as unsent until TCP takes them, although TLS would buffer all of them out of sight."""
    with SecuredBroker(tmp_path, {"moldau.queued.max.response.bytes": str(16 * MEGABYTE)}) as secured:
        context = client_context(secured)
        with connect(secured, context) as other:
            wire.create_topic(other, "large", 1, {})
            for _ in range(10):
                wire.produced(other, "large", bytes(900_000))
            before = psutil.Process().memory_info().rss
            wanted = wire.fetch_partition(0, 0, 50 * MEGABYTE)
            body = wire.fetch_request("large", [wanted]).encode(wire.FETCH_VERSION)
            greedy = [connect(secured, context) for _ in range(GREEDY)]
            for raw in greedy:
                for _ in range(PIPELINED):
                    raw.send(ApiKey.FETCH, wire.FETCH_VERSION, body)
            wait_until(lambda: secured.call(lambda: secured.broker.reply_memory.in_use) > 8 * MEGABYTE)
            for _ in range(50):
                metadata(other)
            assert secured.call(lambda: secured.broker.reply_memory.in_use) < (16 + 8 + 2 * GREEDY) * MEGABYTE
            assert psutil.Process().memory_info().rss - before < (16 + 8 + 3 * GREEDY) * MEGABYTE
            for number in range(1, PIPELINED + 1):  # when they read at last, they get all answers
                response = greedy[0].receive(ApiKey.FETCH, wire.FETCH_VERSION, FetchResponse, number)
                assert len(wire.records_in(wire.only_partition(response).records)) >= 1
            for raw in greedy:
                raw.close()
            wait_until(lambda: secured.call(lambda: secured.broker.reply_memory.in_use) == 0)


def test_a_broker_stops_while_handshakes_and_logins_are_under_way(tmp_path: Path) -> None:
    began = time.monotonic()
    with SecuredBroker(tmp_path) as secured:
        half_open = [
            RawConnection(secured.address(one)) for one in ("SSL", "SASL_SSL", "SASL_PLAINTEXT") for _ in range(5)
        ]
        wait_until(lambda: secured.call(lambda: secured.broker.connections.unauthenticated) == len(half_open))
    assert time.monotonic() - began < 4  # less than the time for connections that do not end
    for raw in half_open:
        assert raw.closed_by_peer()
        raw.close()
