"""Logins of a connection: their order, other requests meanwhile, new logins, and refusals."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from moldau.net.client_logins import ClientLogins
from moldau.net.framing import FrameMemory
from moldau.net.peer_connection import PeerConnection, PeerConnectionLost, open_peer_connection
from moldau.net.tls_client import ClientTls
from moldau.net.tls_settings import TlsSettings
from moldau.security.client_login import PasswordLogin
from moldau.settings.setting import SettingError
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.header import encode_response_header
from moldau.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from moldau.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from moldau.wire.messages.sasl_handshake import SaslHandshakeResponse
from tests.support.certificates import Authority
from tests.support.waiting import wait_until_async

LOGIN = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
LIFETIME_MS = 40


class ScriptedBroker:
    """Answers logins and ListGroups one after the other. `heard` has the APIs in the order of their requests."""

    def __init__(self) -> None:
        self.heard: list[ApiKey] = []
        self.refuses_login: int | None = None
        """The number of the login that is refused, from 0."""
        self.handshake_error = ErrorCode.NONE
        self.lifetime_ms = LIFETIME_MS
        self.before_answer: Callable[[ApiKey], Awaitable[None]] | None = None
        self.tasks: set[asyncio.Task[Any]] = set()

    @property
    def logins(self) -> int:
        return self.heard.count(ApiKey.SASL_AUTHENTICATE)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                key, version, correlation = struct.unpack_from(">hhi", frame)
                self.heard.append(ApiKey(key))
                if self.before_answer is not None:
                    await self.before_answer(ApiKey(key))
                body = encode_response_header(key, version, correlation) + self.answer(ApiKey(key)).encode(version)
                writer.write(struct.pack(">i", len(body)) + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def answer(self, key: ApiKey) -> Any:
        if key is ApiKey.SASL_HANDSHAKE:
            return SaslHandshakeResponse(error_code=self.handshake_error, mechanisms=["SCRAM-SHA-512"])
        if key is ApiKey.SASL_AUTHENTICATE:
            if self.refuses_login == self.logins - 1:
                return SaslAuthenticateResponse(
                    error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="Invalid credentials."
                )
            return SaslAuthenticateResponse(session_lifetime_ms=self.lifetime_ms)
        return ListGroupsResponse()


def with_broker(steps: Callable[[ScriptedBroker, int], Awaitable[None]]) -> None:
    async def run() -> None:
        broker = ScriptedBroker()
        server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
        try:
            async with asyncio.timeout(30):
                await steps(broker, server.sockets[0].getsockname()[1])
        finally:
            server.close()

    asyncio.run(run())


async def connected(port: int) -> PeerConnection:
    logins = ClientLogins(PasswordLogin("PLAIN", "alice", "SECRET"), None, asyncio.to_thread)
    return await open_peer_connection(
        "127.0.0.1", port, "test", timeout_s=10, memory=FrameMemory(1 << 20), login=logins, random=lambda: 0.0
    )


def test_requests_are_never_between_the_steps_of_a_login() -> None:
    async def steps(broker: ScriptedBroker, port: int) -> None:
        connection = await connected(port)
        asked = 0
        while broker.logins < 5:
            await asyncio.gather(*(connection.ask(ListGroupsRequest(), 4) for _ in range(3)))
            asked += 3
        assert not connection.closed
        assert broker.heard.count(ApiKey.LIST_GROUPS) == asked
        for position, key in enumerate(broker.heard):
            if key is ApiKey.SASL_HANDSHAKE:
                assert broker.heard[position + 1] is ApiKey.SASL_AUTHENTICATE
        connection.close()

    with_broker(steps)


def test_requests_in_flight_are_answered_before_a_new_login_and_others_wait_for_it() -> None:
    async def steps(broker: ScriptedBroker, port: int) -> None:
        connection = await connected(port)
        slow = asyncio.Event()

        async def wait(key: ApiKey) -> None:
            if key is ApiKey.LIST_GROUPS:
                await slow.wait()

        broker.before_answer = wait
        first = connection.asking(ListGroupsRequest(), 4)
        await wait_until_async(lambda: connection.in_flight == 2, "the new login, which waits for its turn")
        second = connection.asking(ListGroupsRequest(), 4)
        assert connection.in_flight == 3 and not first.done()
        slow.set()
        await asyncio.gather(first, second)
        assert broker.heard[2:6] == [ApiKey.LIST_GROUPS, *LOGIN, ApiKey.LIST_GROUPS]
        connection.close()

    with_broker(steps)


def test_a_refused_new_login_ends_the_connection_and_every_request() -> None:
    async def steps(broker: ScriptedBroker, port: int) -> None:
        broker.refuses_login = 1
        connection = await connected(port)
        ended = asyncio.Event()
        connection.on_end = ended.set
        await ended.wait()
        assert "refused the login with PLAIN: Invalid credentials" in str(connection.failure)
        assert "SECRET" not in str(connection.failure)
        with pytest.raises(PeerConnectionLost, match="refused the login"):
            await connection.ask(ListGroupsRequest(), 4)

    with_broker(steps)


def test_a_connection_that_ends_during_a_login_fails_the_waiting_requests() -> None:
    async def steps(broker: ScriptedBroker, port: int) -> None:
        connection = await connected(port)

        async def never(key: ApiKey) -> None:
            if key is ApiKey.SASL_AUTHENTICATE:
                raise ConnectionResetError

        broker.before_answer = never
        await wait_until_async(lambda: len(broker.heard) >= 4, "the new login")
        with pytest.raises(PeerConnectionLost):
            await connection.ask(ListGroupsRequest(), 4)

    with_broker(steps)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "set sasl.mechanism to one of: SCRAM-SHA-512"),
        (ErrorCode.ILLEGAL_SASL_STATE, "its listener has no SASL"),
    ],
)
def test_a_refused_handshake_says_what_to_do(code: ErrorCode, says: str) -> None:
    async def steps(broker: ScriptedBroker, port: int) -> None:
        broker.handshake_error = code
        with pytest.raises(PeerConnectionLost, match=says):
            await connected(port)

    with_broker(steps)


def test_no_new_login_without_an_end_of_the_session() -> None:
    async def steps(broker: ScriptedBroker, port: int) -> None:
        broker.lifetime_ms = 0
        connection = await connected(port)
        for _ in range(20):
            await connection.ask(ListGroupsRequest(), 4)
            await asyncio.sleep(LIFETIME_MS / 200)
        assert broker.logins == 1
        connection.close()

    with_broker(steps)


# -- TLS contexts of a client ------------------------------------------------------------------------------------------


def test_changed_files_make_a_new_context_and_broken_ones_do_not(
    tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    path = Authority("first").write_pem(tmp_path / "ca.pem")
    tls = ClientTls(TlsSettings(truststore_location=str(path)), asyncio.to_thread)

    async def steps() -> None:
        first = await tls.context()
        assert await tls.context() is first
        Authority("second").write_pem(path)
        second = await tls.context()
        assert second is not first
        path.write_text("half-written")
        assert await tls.context() is second
        assert await tls.context() is second

    asyncio.run(steps())
    assert caplog.text.count("changed TLS files cannot be used") == 1


def test_a_first_context_that_cannot_be_made_is_an_error(tmp_path: Any) -> None:
    tls = ClientTls(TlsSettings(truststore_location=str(tmp_path / "missing")), asyncio.to_thread)
    with pytest.raises(SettingError, match=r"^ssl\.truststore\.location: "):
        asyncio.run(tls.context())
