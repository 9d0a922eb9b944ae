"""Simulated network: TCP connections and their faults.

All sleeps are in virtual time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from moldau.net.connect import connect
from moldau.net.server import bind
from moldau.testing.simulation.loop import SimulatedLoop
from moldau.testing.simulation.machine import Machine, SimulatedProcess
from moldau.testing.simulation.network import SimulatedNetwork


class Peer(asyncio.Protocol):
    """Records the events of its connection."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.lost: list[Exception | None] = []
        self.pauses: list[str] = []
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)

    def pause_writing(self) -> None:
        self.pauses.append("pause")

    def resume_writing(self) -> None:
        self.pauses.append("resume")


class Place:
    """Two machines with a process each, one of which listens."""

    def __init__(self) -> None:
        self.loop = SimulatedLoop()
        self.reports: list[str] = []
        self.network = SimulatedNetwork(self.loop, 7, self.reports.append)
        self.server_machine = Machine("server", "10.0.0.1", self.loop, 1)
        self.client_machine = Machine("client", "10.0.0.2", self.loop, 2)
        self.network.add(self.server_machine)
        self.network.add(self.client_machine)
        self.server: SimulatedProcess = self.server_machine.begin("server.1")
        self.client: SimulatedProcess = self.client_machine.begin("client.1")
        self.accepted: list[Peer] = []

    async def listen(self) -> None:
        def accept() -> Peer:
            peer = Peer()
            self.accepted.append(peer)
            return peer

        listening = await bind(accept, "server", 9092, backlog=1)
        await listening.start_serving()

    async def call(self, timeout_s: float = 5.0) -> Peer:
        return await connect(Peer, "server", 9092, timeout_s=timeout_s)

    async def connected(self) -> tuple[Peer, Peer]:
        await self.server.run(self.listen())
        caller = await self.client.run(self.call())
        await asyncio.sleep(0.1)
        return caller, self.accepted[-1]

    def run(self, scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.loop.run_until_complete(scenario())


@pytest.fixture
def place() -> Iterator[Place]:
    place = Place()
    yield place
    place.loop.close()


def test_bytes_arrive_in_order_whatever_the_delays(place: Place) -> None:
    async def scenario() -> None:
        caller, callee = await place.connected()
        place.network.link(place.client_machine, place.server_machine).slow_s = 0.5
        sent = b"".join(b"%d," % number for number in range(2_000))
        for number in range(2_000):
            caller.transport.write(b"%d," % number)
            if number % 50 == 0:
                await asyncio.sleep(0.01)
        await asyncio.sleep(5)
        assert bytes(callee.received) == sent

    place.run(scenario)


def test_data_written_before_a_close_arrives_before_the_end(place: Place) -> None:
    async def scenario() -> None:
        caller, callee = await place.connected()
        caller.transport.write(b"last words")
        caller.transport.close()
        await asyncio.sleep(1)
        assert (bytes(callee.received), callee.lost, caller.lost) == (b"last words", [None], [None])
        assert place.network.connections() == []

    place.run(scenario)


def test_a_port_without_a_listener_refuses_connections(place: Place) -> None:
    async def scenario() -> None:
        with pytest.raises(ConnectionRefusedError):
            await place.client.run(place.call())

    place.run(scenario)


def test_an_unknown_name_has_no_address(place: Place) -> None:
    async def scenario() -> None:
        with pytest.raises(OSError, match="not known"):
            await place.client.run(connect(Peer, "nowhere", 1, timeout_s=1))

    place.run(scenario)


def test_a_cut_link_holds_data_back_until_it_is_restored(place: Place) -> None:
    async def scenario() -> None:
        caller, callee = await place.connected()
        place.network.cut(place.client_machine, place.server_machine)
        caller.transport.write(b"there")
        callee.transport.write(b"back")
        await asyncio.sleep(60)
        assert (bytes(callee.received), bytes(caller.received)) == (b"", b"back"), "only one direction must be cut"
        place.network.mend(place.client_machine, place.server_machine)
        await asyncio.sleep(1)
        assert bytes(callee.received) == b"there"

    place.run(scenario)


def test_connecting_over_a_cut_link_takes_until_its_time_is_over(place: Place) -> None:
    async def scenario() -> None:
        await place.server.run(place.listen())
        place.network.cut(place.server_machine, place.client_machine)
        with pytest.raises(TimeoutError):
            await place.client.run(place.call(timeout_s=2.0))
        place.network.mend(place.server_machine, place.client_machine)
        await asyncio.sleep(1)
        assert [peer.lost for peer in place.accepted] != [[]], "a connection that nobody waits for must be closed"

    place.run(scenario)


def test_the_connections_of_a_process_that_dies_end_for_their_peers(place: Place) -> None:
    async def scenario() -> None:
        caller, _ = await place.connected()
        place.server.end()
        place.network.process_died(place.server)
        await asyncio.sleep(1)
        assert len(caller.lost) == 1
        with pytest.raises(ConnectionRefusedError):
            await place.client.run(place.call())

    place.run(scenario)


def test_a_machine_without_power_is_silent_and_resets_connections_when_it_is_back(place: Place) -> None:
    async def scenario() -> None:
        caller, _ = await place.connected()
        place.server_machine.lose_power(place.network)
        caller.transport.write(b"are you there?")
        await asyncio.sleep(60)
        assert caller.lost == []
        place.server_machine.power_on()
        await asyncio.sleep(1)
        assert isinstance(caller.lost[0], ConnectionResetError)

    place.run(scenario)


def test_both_ends_see_a_reset_once(place: Place) -> None:
    async def scenario() -> None:
        caller, callee = await place.connected()
        place.network.reset(place.network.connections()[0])
        await asyncio.sleep(1)
        assert [type(error) for error in caller.lost + callee.lost] == [ConnectionResetError, ConnectionResetError]

    place.run(scenario)


def test_a_reader_that_does_not_read_makes_the_writer_pause_until_it_does(place: Place) -> None:
    async def scenario() -> None:
        caller, callee = await place.connected()
        callee.transport.pause_reading()
        for _ in range(10):
            caller.transport.write(bytes(100_000))
        await asyncio.sleep(1)
        assert (caller.pauses, callee.received) == (["pause"], b"")
        callee.transport.resume_reading()
        await asyncio.sleep(1)
        assert (caller.pauses, len(callee.received)) == (["pause", "resume"], 1_000_000)

    place.run(scenario)


def test_a_process_that_is_held_reads_nothing_and_its_kernel_still_takes_connections(place: Place) -> None:
    async def scenario() -> None:
        caller, callee = await place.connected()
        place.server.hold()
        caller.transport.write(b"waiting")
        second = await place.client.run(place.call())
        await asyncio.sleep(10)
        assert (bytes(callee.received), len(place.accepted)) == (b"", 1)
        place.server.release()
        await asyncio.sleep(1)
        assert (bytes(callee.received), len(place.accepted)) == (b"waiting", 2)
        second.transport.abort()

    place.run(scenario)


def test_a_buffer_that_changes_after_it_was_written_is_reported(place: Place) -> None:
    async def scenario() -> None:
        caller, callee = await place.connected()
        buffer = bytearray(b"as it was given")
        caller.transport.write(memoryview(buffer))
        buffer[:2] = b"no"
        await asyncio.sleep(1)
        assert callee.received == b"no it was given"
        assert len(place.reports) == 1
        assert "client.1" in place.reports[0]

    place.run(scenario)


def test_asyncio_streams_run_over_the_simulated_network(place: Place) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        await writer.drain()
        writer.close()

    async def serve() -> None:
        def factory() -> asyncio.StreamReaderProtocol:
            return asyncio.StreamReaderProtocol(asyncio.StreamReader(), echo)

        await (await bind(factory, "", 80, backlog=1)).start_serving()

    async def ask() -> bytes:
        reader = asyncio.StreamReader()
        protocol = await connect(lambda: asyncio.StreamReaderProtocol(reader), "server", 80, timeout_s=1)
        protocol._transport.write(b"hello\n")  # type: ignore[attr-defined]
        return await reader.read()

    async def scenario() -> None:
        await place.server.run(serve())
        assert await place.client.run(ask()) == b"HELLO\n"

    place.run(scenario)
