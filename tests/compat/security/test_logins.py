"""Logins on the wire: the steps that are allowed, and that everything else ends the connection."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.security.sasl_client import OAuthBearerClient, PlainClient, SaslClient, ScramSaslClient
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.wire.messages.metadata import MetadataRequest, MetadataResponse
from moldau.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from moldau.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.support.raw import ConnectionClosedError, RawConnection
from tests.support.secured import (
    ADMIN,
    ADMIN_PASSWORD,
    ALICE,
    MECHANISMS,
    LogLines,
    SecuredBroker,
    unsigned_token,
)
from tests.support.waiting import wait_until

PLAIN_TOKEN = f"\0{ADMIN}\0{ADMIN_PASSWORD}".encode()
NAMES = {"PLAIN": ADMIN, "SCRAM-SHA-256": ADMIN, "SCRAM-SHA-512": ADMIN, "OAUTHBEARER": ALICE}


def connect(secured: SecuredBroker) -> RawConnection:
    return RawConnection(secured.address("SASL_PLAINTEXT"))


def handshake(raw: RawConnection, mechanism: str, version: int = 1) -> SaslHandshakeResponse:
    request = SaslHandshakeRequest(mechanism=mechanism)
    answer: SaslHandshakeResponse = raw.call(ApiKey.SASL_HANDSHAKE, version, request, SaslHandshakeResponse)
    return answer


def authenticate(raw: RawConnection, token: bytes, version: int = 2) -> SaslAuthenticateResponse:
    request = SaslAuthenticateRequest(auth_bytes=token)
    answer: SaslAuthenticateResponse = raw.call(ApiKey.SASL_AUTHENTICATE, version, request, SaslAuthenticateResponse)
    return answer


def metadata(raw: RawConnection) -> MetadataResponse:
    answer: MetadataResponse = raw.call(ApiKey.METADATA, 12, MetadataRequest(topics=None), MetadataResponse)
    return answer


def client_of(secured: SecuredBroker, mechanism: str) -> SaslClient:
    if mechanism == "PLAIN":
        return PlainClient(ADMIN, ADMIN_PASSWORD)
    if mechanism == "OAUTHBEARER":
        return OAuthBearerClient(secured.issuer.token())
    return ScramSaslClient(mechanism, ADMIN, ADMIN_PASSWORD)


def log_in(raw: RawConnection, client: SaslClient, mechanism: str, version: int = 2) -> SaslAuthenticateResponse:
    assert handshake(raw, mechanism).error_code == ErrorCode.NONE
    token: bytes | None = client.first()
    while token is not None:
        answer = authenticate(raw, token, version)
        if answer.error_code:
            return answer
        token = client.respond(answer.auth_bytes)
    return answer


def principals(secured: SecuredBroker) -> set[str]:
    found: set[str] = secured.call(lambda: {str(session.principal) for session in secured.broker.connections})
    return found


def logged(lines: LogLines, words: str) -> bool:
    return bool(lines.about(words))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_mechanism_logs_in(secured: SecuredBroker, mechanism: str, version: int) -> None:
    with connect(secured) as raw:
        raw.call(
            ApiKey.API_VERSIONS,
            3,
            ApiVersionsRequest(client_software_name="t", client_software_version="1"),
            ApiVersionsResponse,
        )
        answer = log_in(raw, client_of(secured, mechanism), mechanism, version)
        assert answer.error_code == ErrorCode.NONE
        assert metadata(raw).brokers
        assert f"User:{NAMES[mechanism]}" in principals(secured)
        if mechanism == "OAUTHBEARER" and version > 0:
            assert 0 < answer.session_lifetime_ms <= 600_000
        else:
            assert answer.session_lifetime_ms == 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_tokens_without_headers_log_in(secured: SecuredBroker, mechanism: str) -> None:
    """After SaslHandshake version 0, as old clients do."""
    with connect(secured) as raw:
        assert handshake(raw, mechanism, 0).error_code == ErrorCode.NONE
        client = client_of(secured, mechanism)
        token: bytes | None = client.first()
        while token is not None:
            raw.send_frame(token)
            token = client.respond(raw.receive_frame())
        assert metadata(raw).brokers


def test_a_failed_login_without_headers_closes_the_connection(secured: SecuredBroker) -> None:
    with connect(secured) as raw:
        handshake(raw, "PLAIN", 0)
        raw.send_frame(b"\0admin\0wrong")
        assert raw.closed_by_peer()


WRONG: dict[str, Callable[[SecuredBroker], tuple[str, SaslClient]]] = {
    "plain, wrong password": lambda _: ("PLAIN", PlainClient(ADMIN, "wrong")),
    "plain, unknown user": lambda _: ("PLAIN", PlainClient("nobody", ADMIN_PASSWORD)),
    "scram, wrong password": lambda _: ("SCRAM-SHA-256", ScramSaslClient("SCRAM-SHA-256", ADMIN, "wrong")),
    "scram, unknown user": lambda _: ("SCRAM-SHA-256", ScramSaslClient("SCRAM-SHA-256", "nobody", ADMIN_PASSWORD)),
    "scram, user of plain": lambda _: ("SCRAM-SHA-512", ScramSaslClient("SCRAM-SHA-512", ALICE, ADMIN_PASSWORD)),
    "scram, unknown token": lambda _: (
        "SCRAM-SHA-256",
        ScramSaslClient("SCRAM-SHA-256", ADMIN, ADMIN_PASSWORD, token=True),
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_failed_login_is_answered_logged_and_closed(secured: SecuredBroker, case: str, log_lines: LogLines) -> None:
    mechanism, client = WRONG[case](secured)
    with connect(secured) as raw:
        answer = log_in(raw, client, mechanism)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.auth_bytes == b""
        assert raw.closed_by_peer()
    assert logged(log_lines, "authentication failed")
    assert ADMIN_PASSWORD not in "\n".join(log_lines.lines)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_an_unknown_user_and_a_wrong_password_get_the_same_answer(secured: SecuredBroker, mechanism: str) -> None:
    answers = []
    for user in (ADMIN, "nobody"):
        client = PlainClient(user, "wrong") if mechanism == "PLAIN" else ScramSaslClient(mechanism, user, "wrong")
        with connect(secured) as raw:
            answers.append(log_in(raw, client, mechanism))
    assert (answers[0].error_code, answers[0].error_message) == (answers[1].error_code, answers[1].error_message)


FORGED: dict[str, Callable[[SecuredBroker], str]] = {
    "alg none": lambda _: unsigned_token(),
    "another key": lambda _: type(_.issuer)().token(),
    "expired": lambda one: one.issuer.token(exp=1),
    "future": lambda one: one.issuer.token(nbf=4_000_000_000),
    "another audience": lambda one: one.issuer.token(aud="other"),
    "another issuer": lambda one: one.issuer.token(iss="other"),
    "changed": lambda one: one.issuer.token()[:-10] + "AAAAAAAAAA",
    "nonsense": lambda _: "x",
}


@pytest.mark.parametrize("case", FORGED)
def test_a_forged_or_stale_token_does_not_log_in(secured: SecuredBroker, case: str, log_lines: LogLines) -> None:
    token = FORGED[case](secured)
    with connect(secured) as raw:
        handshake(raw, "OAUTHBEARER")
        refused = authenticate(raw, b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01")
        assert (refused.error_code, refused.auth_bytes) == (ErrorCode.NONE, b'{"status": "invalid_token"}')
        failed = authenticate(raw, b"\x01")
        assert failed.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert raw.closed_by_peer()
    assert logged(log_lines, "OAUTHBEARER: the token")
    assert len(token) < 10 or token not in "\n".join(log_lines.lines)


def test_after_a_refused_token_no_request_is_served(secured: SecuredBroker) -> None:
    with connect(secured) as raw:
        handshake(raw, "OAUTHBEARER")
        authenticate(raw, b"n,,\x01auth=Bearer " + unsigned_token().encode() + b"\x01\x01")
        with pytest.raises(ConnectionClosedError):
            metadata(raw)


@pytest.mark.parametrize("mechanism", ["GSSAPI", "plain", "", "EXTERNAL", "SCRAM-SHA-1", "x" * 30_000])
@pytest.mark.parametrize("version", [0, 1])
def test_a_mechanism_that_is_not_enabled_is_answered_with_those_that_are(
    secured: SecuredBroker, mechanism: str, version: int
) -> None:
    with connect(secured) as raw:
        answer = handshake(raw, mechanism, version)
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert tuple(answer.mechanisms) == MECHANISMS
        assert raw.closed_by_peer()


def test_no_request_is_served_before_the_login(secured: SecuredBroker, log_lines: LogLines) -> None:
    """For every API and every version that this broker serves."""
    served = secured.call(lambda: list(secured.broker.routes))
    refused = 0
    for key in served:
        api, version = ApiKey(key >> 16), key & 0xFFFF
        if api in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE):
            continue
        with connect(secured) as raw:
            raw.send(api, version, bytes(40))
            assert raw.closed_by_peer(), api
            refused += 1
    assert refused > 100
    assert logged(log_lines, "before the login is complete; expected is SaslHandshake")


def test_no_request_is_served_in_the_middle_of_a_login(secured: SecuredBroker) -> None:
    with connect(secured) as raw:
        handshake(raw, "SCRAM-SHA-256")
        authenticate(raw, b"n,,n=admin,r=abc")
        with pytest.raises(ConnectionClosedError):
            metadata(raw)


def test_the_mechanism_cannot_be_changed_in_the_middle(secured: SecuredBroker, log_lines: LogLines) -> None:
    for steps in (0, 1):
        with connect(secured) as raw:
            handshake(raw, "SCRAM-SHA-256")
            if steps:
                authenticate(raw, b"n,,n=admin,r=abc")
            with pytest.raises(ConnectionClosedError):
                handshake(raw, "PLAIN")
    assert logged(log_lines, "SaslHandshake during a login")


def test_a_token_before_the_mechanism_closes_the_connection(secured: SecuredBroker) -> None:
    with connect(secured) as raw, pytest.raises(ConnectionClosedError):
        authenticate(raw, PLAIN_TOKEN)


def test_a_login_is_not_repeated_if_it_does_not_end(secured: SecuredBroker) -> None:
    with connect(secured) as raw:
        log_in(raw, client_of(secured, "PLAIN"), "PLAIN")
        assert handshake(raw, "PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert authenticate(raw, PLAIN_TOKEN).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert metadata(raw).brokers  # the first login is still in force


def test_a_listener_without_logins_says_so(secured: SecuredBroker) -> None:
    with RawConnection(secured.address("PLAINTEXT")) as raw:
        assert handshake(raw, "PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert authenticate(raw, PLAIN_TOKEN).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert metadata(raw).brokers


def test_a_frame_before_the_login_is_small(secured: SecuredBroker, log_lines: LogLines) -> None:
    with connect(secured) as raw:
        raw.socket.sendall(struct.pack(">i", 524_289))
        assert raw.closed_by_peer()
    assert logged(log_lines, "the limit is 524288 (sasl.server.max.receive.size)")
    with connect(secured) as raw:  # and large after it
        log_in(raw, client_of(secured, "PLAIN"), "PLAIN")
        raw.send_frame(struct.pack(">hhih", ApiKey.METADATA, 12, 7, -1) + bytes(600_000))
        assert raw.receive_frame()[:4] == struct.pack(">i", 7)


def test_tls_sent_to_a_plain_port_is_named_in_the_log(secured: SecuredBroker, log_lines: LogLines) -> None:
    for protocol in ("PLAINTEXT", "SASL_PLAINTEXT"):
        with RawConnection(secured.address(protocol)) as raw:
            raw.socket.sendall(bytes.fromhex("1603010200010001fc0303") + bytes(512))
            assert raw.closed_by_peer()
    assert len(log_lines.about("TLS")) == 2


# -- with other settings -----------------------------------------------------------------------------------------------


def test_a_login_that_takes_too_long_ends(tmp_path: Path, log_lines: LogLines) -> None:
    settings = {"moldau.authentication.timeout.ms": "300"}
    with SecuredBroker(tmp_path, settings) as secured, connect(secured) as idle, connect(secured) as slow:
        handshake(slow, "SCRAM-SHA-256")
        slow.socket.sendall(b"\0\0")  # and no more
        assert idle.closed_by_peer()
        assert slow.closed_by_peer()
        assert len(log_lines.about("moldau.authentication.timeout.ms")) == 2
        with RawConnection(secured.address("SASL_SSL")) as half_open:
            assert half_open.closed_by_peer()
        with connect(secured) as raw:
            log_in(raw, client_of(secured, "PLAIN"), "PLAIN")
            assert metadata(raw).brokers
        assert secured.call(lambda: secured.broker.connections.unauthenticated) == 0


def test_unknown_clients_are_limited_in_number(tmp_path: Path) -> None:
    settings = {"moldau.max.unauthenticated.connections": "3"}
    with SecuredBroker(tmp_path, settings) as secured:
        known = connect(secured)
        log_in(known, client_of(secured, "PLAIN"), "PLAIN")
        unknown = [RawConnection(secured.address(one)) for one in ("SASL_PLAINTEXT", "SASL_SSL", "SSL")]
        wait_until(
            lambda: secured.call(lambda: secured.broker.connections.unauthenticated) == 3, "three unknown clients"
        )
        for protocol in ("SASL_PLAINTEXT", "SASL_SSL", "SSL"):
            with RawConnection(secured.address(protocol)) as refused:
                assert refused.closed_by_peer()
        assert metadata(known).brokers
        for one in unknown:
            one.close()
        wait_until(lambda: secured.call(lambda: secured.broker.connections.unauthenticated) == 0, "room again")
        with connect(secured) as raw:
            log_in(raw, client_of(secured, "PLAIN"), "PLAIN")
        known.close()


def test_memory_of_unknown_clients_is_separate(tmp_path: Path) -> None:
    """Many unknown clients announce large frames: known ones do not notice."""
    settings = {"moldau.unauthenticated.request.bytes": "1048576", "queued.max.request.bytes": str(104_857_600)}
    with SecuredBroker(tmp_path, settings) as secured, connect(secured) as known:
        log_in(known, client_of(secured, "PLAIN"), "PLAIN")
        unknown = [connect(secured) for _ in range(20)]
        for one in unknown:
            one.socket.sendall(struct.pack(">i", 500_000) + bytes(1000))
        wait_until(lambda: secured.call(lambda: secured.broker.login_memory.refused) > 0, "the limit")
        assert secured.call(lambda: secured.broker.login_memory.in_use) <= 1_048_576
        assert secured.call(lambda: secured.broker.frame_memory.in_use) == 0
        assert metadata(known).brokers
        for one in unknown:
            one.close()
        wait_until(lambda: secured.call(lambda: secured.broker.login_memory.in_use) == 0, "memory given back")


def test_a_login_ends_and_is_repeated(tmp_path: Path, log_lines: LogLines) -> None:
    settings = {"connections.max.reauth.ms": "2500"}
    with SecuredBroker(tmp_path, settings) as secured, connect(secured) as raw, connect(secured) as lazy:
        answer = log_in(raw, client_of(secured, "SCRAM-SHA-256"), "SCRAM-SHA-256")
        assert answer.session_lifetime_ms == 2500
        log_in(lazy, client_of(secured, "PLAIN"), "PLAIN")
        assert handshake(raw, "SCRAM-SHA-256").error_code == ErrorCode.ILLEGAL_SASL_STATE  # too soon
        secured.advance(1.5)
        log_in(raw, client_of(secured, "SCRAM-SHA-256"), "SCRAM-SHA-256")
        secured.advance(1.5)
        assert metadata(raw).brokers
        with pytest.raises(ConnectionClosedError):
            metadata(lazy)
        assert logged(log_lines, "Metadata after the end of the login")
        assert secured.call(lambda: secured.broker.metrics.sessions_expired) == 1
        secured.advance(3)
        log_in(raw, client_of(secured, "SCRAM-SHA-256"), "SCRAM-SHA-256")  # late, but a login
        assert metadata(raw).brokers


def test_a_repeated_login_keeps_mechanism_and_principal(tmp_path: Path) -> None:
    with SecuredBroker(tmp_path, {"connections.max.reauth.ms": "60000"}) as secured:
        for mechanism in ("PLAIN", "SCRAM-SHA-512"):
            with connect(secured) as raw:
                log_in(raw, client_of(secured, mechanism), mechanism)
                secured.advance(2)
                other = handshake(raw, "SCRAM-SHA-256")
                assert other.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
                assert list(other.mechanisms) == [mechanism]
                assert raw.closed_by_peer()
        with connect(secured) as raw:
            log_in(raw, client_of(secured, "PLAIN"), "PLAIN")
            secured.advance(2)
            answer = log_in(raw, PlainClient(ALICE, "alice,=s3cret"), "PLAIN")
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert raw.closed_by_peer()
        with connect(secured) as raw:
            log_in(raw, client_of(secured, "PLAIN"), "PLAIN")
            secured.advance(2)
            handshake(raw, "PLAIN")
            with pytest.raises(ConnectionClosedError):
                metadata(raw)  # not between the steps of a repeated login


def test_many_failed_logins_harm_nobody(tmp_path: Path, count: Callable[[int, int], int]) -> None:
    settings = {"connection.failed.authentication.delay.ms": "0"}
    with LogLines() as log_lines, SecuredBroker(tmp_path, settings) as secured, connect(secured) as beside:
        log_in(beside, client_of(secured, "PLAIN"), "PLAIN")
        failures = count(300, 10_000)
        for number in range(failures):
            with connect(secured) as raw:
                handshake(raw, "PLAIN")
                assert authenticate(raw, b"\0admin\0wrong").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            if number % 50 == 0:
                assert metadata(beside).brokers
        assert secured.call(lambda: secured.broker.metrics.failed_authentications) == failures
        wait_until(lambda: secured.call(lambda: len(secured.broker.connections)) == 1, "only the good client is left")
        assert secured.call(lambda: secured.broker.connections.unauthenticated) == 0
        assert secured.call(lambda: secured.broker.metrics.handler_failures) == 0
    assert len(log_lines.lines) < failures / 2
