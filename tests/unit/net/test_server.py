"""Listening sockets that pause: connections wait in the backlog, and none is lost."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from moldau.net.server import AcceptingServer, PausableServer, bind, bound_socket
from tests.support.waiting import wait_until_async

HOST = "127.0.0.1"
BACKLOG = 50

Make = Callable[[list[object]], Awaitable[PausableServer | AcceptingServer]]


class Accepted(asyncio.Protocol):
    def __init__(self, accepted: list[object]) -> None:
        self._accepted = accepted

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._accepted.append(transport)


async def of_asyncio(accepted: list[object]) -> PausableServer:
    return await bind(lambda: Accepted(accepted), HOST, 0, backlog=BACKLOG)


async def of_sockets(accepted: list[object]) -> AcceptingServer:
    return AcceptingServer(await bound_socket(HOST, 0), BACKLOG, accepted.append)


@pytest.mark.parametrize("make", [of_asyncio, of_sockets])
def test_connections_of_a_paused_server_are_accepted_later(make: Make) -> None:
    async def check() -> None:
        accepted: list[object] = []
        server = await make(accepted)
        await server.start_serving()
        address = server.sockets[0].getsockname()
        clients = [socket.create_connection(address)]
        await wait_until_async(lambda: len(accepted) == 1)
        server.pause()
        server.pause()
        assert server.sockets[0].getsockname() == address
        clients += [socket.create_connection(address) for _ in range(3)]
        await asyncio.sleep(0.05)  # time in which they would be accepted
        assert len(accepted) == 1
        await server.resume()
        await server.resume()
        await wait_until_async(lambda: len(accepted) == 4)
        server.close()
        for one in [*clients, *accepted]:
            one.close()  # type: ignore[attr-defined]

    asyncio.run(check())


@pytest.mark.parametrize("make", [of_asyncio, of_sockets])
def test_a_paused_server_can_be_closed(make: Make) -> None:
    async def check() -> None:
        server = await make([])
        await server.start_serving()
        address = server.sockets[0].getsockname()
        server.pause()
        server.close()
        await server.resume()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)

    asyncio.run(check())
