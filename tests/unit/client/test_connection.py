"""One connection to a scripted peer: each request is answered once and in order, or fails."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from moldau.client.connection import ANSWERS_MEMORY_BYTES, MAX_FIRST_ANSWER_BYTES, Connection
from moldau.client.errors import BrokerUnavailable, ClosedError, MoldauError, NotKafka, TimedOut, UnsupportedByBroker
from moldau.client.loop_thread import new_loop
from moldau.net.connect import connect
from moldau.net.framing import FrameMemory
from moldau.wire.api import APIS, ApiKey
from moldau.wire.header import decode_request_header
from tests.support.waiting import loop_turns

PATIENCE_S = 60.0
HEARTBEAT, TAGGED_HEARTBEAT = 0, 4
"""Versions of Heartbeat: the response header has no tagged fields in the first, and has them in the second."""


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(coroutine)


class Peer:
    """The other side of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def request(self) -> tuple[int, bytes]:
        """The next request: its correlation id and its body."""
        async with asyncio.timeout(PATIENCE_S):
            (length,) = struct.unpack(">i", await self._reader.readexactly(4))
            frame = await self._reader.readexactly(length)
        header, start = decode_request_header(frame)
        assert header.client_id == "tester"
        return header.correlation_id, frame[start:]

    def answer(self, correlation_id: int, body: bytes) -> None:
        self.say(struct.pack(">ii", 4 + len(body), correlation_id) + body)

    def say(self, data: bytes) -> None:
        self._writer.write(data)

    def hang_up(self) -> None:
        self._writer.close()


class Replies:
    """The calls of `on_reply`, by the name of the request."""

    def __init__(self) -> None:
        self.got: list[tuple[str, bytes | None, MoldauError | None]] = []
        self._changed = asyncio.Event()

    def to(self, name: str) -> Any:
        def on_reply(view: memoryview | None, error: MoldauError | None) -> None:
            self.got.append((name, None if view is None else bytes(view), error))
            self._changed.set()

        return on_reply

    async def wait(self, number: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while len(self.got) < number:
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Connection, Peer, list[Connection]]]:
    """A connection, its peer, and the list of lost connections."""
    peers: asyncio.Queue[Peer] = asyncio.Queue()
    server = await asyncio.start_server(lambda reader, writer: peers.put_nowait(Peer(reader, writer)), "127.0.0.1", 0)
    lost: list[Connection] = []
    connection = Connection(1, "broker", "tester", FrameMemory(ANSWERS_MEMORY_BYTES), lost.append)
    port = server.sockets[0].getsockname()[1]
    await connect(lambda: connection.protocol, "127.0.0.1", port, timeout_s=PATIENCE_S)
    connection.established({api.key: (api.min_version, api.max_version) for api in APIS.values()})
    peer = await peers.get()
    try:
        yield connection, peer, lost
    finally:
        connection.close()
        peer.hang_up()
        server.close()


def later(seconds: float = PATIENCE_S) -> float:
    return asyncio.get_running_loop().time() + seconds


def test_answers_are_matched_to_requests_in_order() -> None:
    async def scenario() -> None:
        async with connected() as (connection, peer, _):
            replies = Replies()
            for name in ("a", "b", "c"):
                connection.send(ApiKey.HEARTBEAT, HEARTBEAT, (name.encode(), b"!"), replies.to(name), later())
            assert connection.in_flight == 3
            for _ in range(3):
                correlation_id, body = await peer.request()
                peer.answer(correlation_id, body.upper())
            await replies.wait(3)
            assert replies.got == [("a", b"A!", None), ("b", b"B!", None), ("c", b"C!", None)]
            assert connection.in_flight == 0

    run(scenario())


@pytest.mark.parametrize(
    ("version", "header"), [(HEARTBEAT, b""), (TAGGED_HEARTBEAT, b"\0"), (TAGGED_HEARTBEAT, b"\1\7\2xy")]
)
def test_the_header_of_an_answer_is_removed(version: int, header: bytes) -> None:
    async def scenario() -> None:
        async with connected() as (connection, peer, _):
            replies = Replies()
            connection.send(ApiKey.HEARTBEAT, version, (b"a",), replies.to("a"), later())
            peer.answer((await peer.request())[0], header + b"body")
            await replies.wait(1)
            assert replies.got == [("a", b"body", None)]

    run(scenario())


def test_a_request_without_an_answer_is_done_when_it_is_handed_over_but_not_inside_send() -> None:
    async def scenario() -> None:
        async with connected() as (connection, peer, _):
            replies = Replies()
            connection.send(ApiKey.HEARTBEAT, HEARTBEAT, (b"a",), replies.to("a"), later(), no_reply=True)
            assert not replies.got and connection.in_flight == 0
            connection.send(ApiKey.HEARTBEAT, HEARTBEAT, (b"b",), replies.to("b"), later())
            assert (await peer.request())[1] == b"a"
            peer.answer((await peer.request())[0], b"B")
            await replies.wait(2)
            assert replies.got == [("a", None, None), ("b", b"B", None)]

    run(scenario())


def test_when_the_peer_closes_the_connection_each_waiting_request_fails_once() -> None:
    async def scenario() -> None:
        async with connected() as (connection, peer, lost):
            replies = Replies()
            for name in ("a", "b"):
                connection.send(ApiKey.HEARTBEAT, HEARTBEAT, (b"x",), replies.to(name), later())
            await peer.request()
            peer.hang_up()
            await replies.wait(2)
            connection.send(ApiKey.HEARTBEAT, HEARTBEAT, (b"x",), replies.to("late"), later())
            assert len(replies.got) == 2, "on_reply must not be called inside send"
            await replies.wait(3)
            assert [name for name, _, _ in replies.got] == ["a", "b", "late"]
            errors = [error for _, _, error in replies.got]
            assert all(isinstance(error, BrokerUnavailable) for error in errors)
            assert len({id(error) for error in errors}) == 3, "each request must have its own error object"
            assert connection.closed and lost == [connection]

    run(scenario())


def test_one_late_answer_closes_the_connection_and_fails_all_requests() -> None:
    async def scenario() -> None:
        async with connected() as (connection, _, lost):
            replies = Replies()
            connection.send(ApiKey.HEARTBEAT, HEARTBEAT, (b"x",), replies.to("patient"), later())
            connection.send(ApiKey.HEARTBEAT, HEARTBEAT, (b"x",), replies.to("hasty"), later(0.05))
            await replies.wait(2)
            assert [name for name, _, _ in replies.got] == ["patient", "hasty"]
            assert all(isinstance(error, TimedOut) for _, _, error in replies.got)
            assert lost == [connection]

    run(scenario())


@pytest.mark.parametrize("said", [b"HTTP/1.1 400 Bad Request", struct.pack(">ii", 4, 999), struct.pack(">i", 0)])
def test_the_connection_to_a_peer_that_violates_the_protocol_is_closed(said: bytes) -> None:
    async def scenario() -> None:
        async with connected() as (connection, peer, _):
            connection._frames.max_frame_bytes = MAX_FIRST_ANSWER_BYTES
            replies = Replies()
            connection.send(ApiKey.HEARTBEAT, HEARTBEAT, (b"x",), replies.to("a"), later())
            await peer.request()
            peer.say(said)
            await replies.wait(1)
            assert isinstance(replies.got[0][2], NotKafka)

    run(scenario())


def test_closing_fails_waiting_requests_and_may_be_repeated() -> None:
    async def scenario() -> None:
        async with connected() as (connection, _, lost):
            replies = Replies()
            connection.send(ApiKey.HEARTBEAT, HEARTBEAT, (b"x",), replies.to("a"), later())
            connection.close()
            connection.close()
            await replies.wait(1)
            assert isinstance(replies.got[0][2], ClosedError)
            await loop_turns()
            assert len(replies.got) == 1 and lost == [connection]

    run(scenario())


def test_large_answers_are_complete() -> None:
    async def scenario() -> None:
        async with connected() as (connection, peer, _):
            replies = Replies()
            body = bytes(range(256)) * 20_000
            for name in ("a", "b"):
                connection.send(ApiKey.HEARTBEAT, HEARTBEAT, (body,), replies.to(name), later())
            for _ in range(2):
                correlation_id, received = await peer.request()
                assert received == body
                peer.answer(correlation_id, received)
            await replies.wait(2)
            assert [(name, view == body) for name, view, _ in replies.got] == [("a", True), ("b", True)]

    run(scenario())


def test_the_best_version_that_both_sides_know() -> None:
    async def scenario() -> None:
        async with connected() as (connection, _, _):
            connection.established({ApiKey.FETCH: (4, 12), ApiKey.INIT_PRODUCER_ID: (0, 9), ApiKey.HEARTBEAT: (7, 9)})
            assert connection.version(ApiKey.FETCH) == 12
            assert connection.version(ApiKey.FETCH, at_most=6) == 6
            stable = APIS[ApiKey.INIT_PRODUCER_ID].max_stable_version
            assert connection.version(ApiKey.INIT_PRODUCER_ID) == stable
            assert connection.version(ApiKey.INIT_PRODUCER_ID, at_most=stable + 1) == stable + 1, (
                "the versions must be available to callers"
            )
            with pytest.raises(UnsupportedByBroker, match="needs 13 to 18; the broker is too old"):
                connection.version(ApiKey.FETCH, at_least=13)
            with pytest.raises(
                UnsupportedByBroker, match=r"serves Heartbeat in versions 7 to 9.*the client is too old"
            ):
                connection.version(ApiKey.HEARTBEAT)
            with pytest.raises(UnsupportedByBroker, match="does not serve Produce"):
                connection.version(ApiKey.PRODUCE)

    run(scenario())
