"""Connection between brokers: responses in order, deadlines, its end, and records that outlive it."""

from __future__ import annotations

import asyncio
import gc
import struct
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from moldau.net.framing import SCRATCH_BYTES, FrameMemory
from moldau.net.peer_connection import (
    ANSWERS_MEMORY_BYTES,
    FIRST_READ_BYTES,
    PeerConnection,
    PeerConnectionLost,
    open_peer_connection,
)
from moldau.wire.header import decode_request_header
from moldau.wire.messages.fetch import FetchRequest, FetchResponse, FetchResponsePartition, FetchResponseTopic
from moldau.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

PATIENCE_S = 60.0
FETCH, HEARTBEAT = 17, 4


class Peer:
    """The other side of one connection, with scripted answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def request(self) -> int:
        """The correlation id of the next request."""
        async with asyncio.timeout(PATIENCE_S):
            (length,) = struct.unpack(">i", await self._reader.readexactly(4))
            header, _ = decode_request_header(await self._reader.readexactly(length))
        assert header.client_id == "broker-1"
        return header.correlation_id

    def answer(self, correlation_id: int, body: bytes) -> None:
        self.writer.write(struct.pack(">iib", 5 + len(body), correlation_id, 0) + body)


@asynccontextmanager
async def exchange(memory: FrameMemory | None = None) -> AsyncIterator[tuple[PeerConnection, Peer]]:
    peers: asyncio.Queue[Peer] = asyncio.Queue()
    server = await asyncio.start_server(lambda reader, writer: peers.put_nowait(Peer(reader, writer)), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    memory = memory or FrameMemory(ANSWERS_MEMORY_BYTES)
    ours = await open_peer_connection("127.0.0.1", port, "broker-1", timeout_s=PATIENCE_S, memory=memory)
    peer = await peers.get()
    try:
        yield ours, peer
    finally:
        ours.close()
        peer.writer.close()
        server.close()


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def beat(throttle_ms: int) -> bytes:
    return HeartbeatResponse(throttle_time_ms=throttle_ms).encode(HEARTBEAT)


def fetched(records: bytes) -> bytes:
    partition = FetchResponsePartition(partition_index=3, high_watermark=9, records=records)
    return FetchResponse(responses=[FetchResponseTopic(topic_id=b"t" * 16, partitions=[partition])]).encode(FETCH)


def test_each_of_several_requests_gets_its_own_response() -> None:
    async def scenario() -> None:
        async with exchange() as (ours, peer):
            asked = [ours.asking(HeartbeatRequest(), HEARTBEAT) for _ in range(3)]
            assert ours.in_flight == 3
            ids = [await peer.request() for _ in asked]
            for number, correlation_id in enumerate(ids):
                peer.answer(correlation_id, beat(number))
            assert [(await one).throttle_time_ms for one in asked] == [0, 1, 2]
            assert ours.in_flight == 0

    run(scenario())


@pytest.mark.parametrize("size", [100, SCRATCH_BYTES // 2, 3 * SCRATCH_BYTES, 20 << 20])
def test_records_of_a_response_stay_valid_while_other_responses_arrive(size: int) -> None:
    async def scenario() -> None:
        async with exchange() as (ours, peer):
            first, second = bytes([1]) * size, bytes([2]) * size
            asked = [ours.asking(FetchRequest(), FETCH) for _ in range(2)]
            for records in (first, second):
                peer.answer(await peer.request(), fetched(records))
                await peer.writer.drain()
            views = [(await one).responses[0].partitions[0].records for one in asked]
            gc.collect()
            assert all(isinstance(view, memoryview) for view in views)
            assert views[0] == first
            assert views[1] == second

    run(scenario())


@pytest.mark.parametrize("first_read", [FIRST_READ_BYTES, SCRATCH_BYTES])
def test_memory_for_a_large_response_is_allocated_once(first_read: int) -> None:
    class Watched(FrameMemory):
        def buffer(self, size: int) -> bytearray:
            made.append(size)
            return super().buffer(size)

    made: list[int] = []

    async def scenario() -> None:
        async with exchange(Watched(ANSWERS_MEMORY_BYTES, first_read)) as (ours, peer):
            asked = ours.asking(FetchRequest(), FETCH)
            peer.answer(await peer.request(), fetched(bytes(8 << 20)))
            assert len((await asked).responses[0].partitions[0].records) == 8 << 20
            assert len(made) == 1

    run(scenario())


def test_a_request_without_an_answer_fails_all_waiting_requests() -> None:
    async def scenario() -> None:
        async with exchange() as (ours, _):
            ended = asyncio.Event()
            ours.on_end = ended.set
            late = ours.asking(HeartbeatRequest(), HEARTBEAT, timeout_s=0.05)
            behind = ours.asking(HeartbeatRequest(), HEARTBEAT)
            for one in (late, behind):
                with pytest.raises(PeerConnectionLost, match="did not answer Heartbeat in time"):
                    await one
            assert ended.is_set()
            with pytest.raises(PeerConnectionLost):
                await ours.ask(HeartbeatRequest(), HEARTBEAT)

    run(scenario())


def test_a_peer_that_disconnects_is_a_lost_connection() -> None:
    async def scenario() -> None:
        async with exchange() as (ours, peer):
            asked = ours.asking(HeartbeatRequest(), HEARTBEAT)
            await peer.request()
            peer.writer.close()
            with pytest.raises(PeerConnectionLost, match="closed the connection"):
                await asked

    run(scenario())


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", struct.pack(">iib", 5, 77, 0)])
def test_bytes_that_are_not_an_answer_are_a_lost_connection(answer: bytes) -> None:
    async def scenario() -> None:
        async with exchange() as (ours, peer):
            asked = ours.asking(HeartbeatRequest(), HEARTBEAT)
            await peer.request()
            peer.writer.write(answer)
            with pytest.raises(PeerConnectionLost, match="does not answer like a broker"):
                await asked

    run(scenario())


def test_an_undecodable_answer_is_a_lost_connection() -> None:
    async def scenario() -> None:
        async with exchange() as (ours, peer):
            asked = ours.asking(HeartbeatRequest(), HEARTBEAT)
            peer.answer(await peer.request(), b"\0")
            with pytest.raises(PeerConnectionLost, match="answered Heartbeat with something else"):
                await asked
            assert ours.closed

    run(scenario())


def test_cancelling_a_request_does_not_disturb_later_ones() -> None:
    async def scenario() -> None:
        async with exchange() as (ours, peer):
            given_up = asyncio.ensure_future(ours.ask(HeartbeatRequest(), HEARTBEAT))
            behind = asyncio.ensure_future(ours.ask(HeartbeatRequest(), HEARTBEAT))
            ids = [await peer.request(), await peer.request()]
            given_up.cancel()
            for number, correlation_id in enumerate(ids):
                peer.answer(correlation_id, beat(number))
            assert (await behind).throttle_time_ms == 1
            assert given_up.cancelled()

    run(scenario())


def test_a_broker_that_does_not_run_cannot_be_reached() -> None:
    async def scenario() -> None:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        with pytest.raises(PeerConnectionLost, match="cannot be reached"):
            await open_peer_connection("127.0.0.1", port, "broker-1", timeout_s=PATIENCE_S, memory=FrameMemory(1 << 20))

    run(scenario())
