"""Requests without acknowledgement: they reach the broker although the client closes at once."""

from __future__ import annotations

import asyncio

from moldau.client.connection import Connection
from moldau.client.errors import ClosedError
from moldau.net.connect import connect
from moldau.net.framing import FrameMemory
from moldau.wire.api import ApiKey

BODY = b"x" * 4_000_000
"""More than the sockets' buffers hold."""


async def sent_and_closed(within_s: float, *, reads: bool) -> int:
    """The number of bytes that reach a peer which starts to read only while the client closes."""
    closing = asyncio.Event()
    received: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await closing.wait()
        total = 0
        if reads:
            while chunk := await reader.read(65536):
                total += len(chunk)
        received.set_result(total)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    connection = Connection(1, "a slow one", "test", FrameMemory(1 << 30), lambda _connection: None)
    await connect(lambda: connection.protocol, host, port, timeout_s=30)
    deadline = asyncio.get_running_loop().time() + 30
    connection.send(ApiKey.PRODUCE, 9, (BODY,), lambda _view, _error: None, deadline, no_reply=True)
    asyncio.get_running_loop().call_soon(closing.set)
    await connection.finish(ClosedError("the client was closed"), within_s)
    found = await asyncio.wait_for(received, 30)
    server.close()
    await server.wait_closed()
    return found


def test_closing_a_connection_sends_everything_that_was_queued() -> None:
    assert asyncio.run(sent_and_closed(30, reads=True)) > len(BODY)


def test_a_client_closes_although_the_broker_does_not_read() -> None:
    assert asyncio.run(sent_and_closed(0.05, reads=False)) == 0
