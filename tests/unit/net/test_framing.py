"""Framing: frames in order from any split of the bytes, within limits, and replies in order."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any, ParamSpec

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.net.framing import GROWTH_BYTES, SCRATCH_BYTES, FramedConnection, FrameError, FrameMemory

MAX_FRAME = 4 * GROWTH_BYTES

P = ParamSpec("P")


class Transport(asyncio.Transport):
    """Records the calls of a connection."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.reading = True
        self.closed = False

    def write(self, data: object) -> None:
        self.written.append(bytes(data))  # type: ignore[call-overload]

    def writelines(self, buffers: Sequence[object]) -> None:  # type: ignore[override]
        self.written.append(b"".join(bytes(buffer) for buffer in buffers))  # type: ignore[call-overload]

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


class Recorder(FramedConnection):
    def __init__(self, memory: FrameMemory, max_frame: int = MAX_FRAME) -> None:
        super().__init__(memory, max_frame)
        self.frames: list[bytes] = []
        self.errors: list[FrameError] = []
        self.connection_made(Transport())

    @property
    def wire(self) -> Transport:
        assert isinstance(self.transport, Transport)
        return self.transport

    def frame_received(self, frame: memoryview) -> None:
        assert not frame.readonly, "the frame must be writable: handlers write offsets in place"
        self.frames.append(bytes(frame))

    def rejected(self, error: FrameError) -> None:
        self.errors.append(error)

    def feed(self, data: bytes) -> None:
        """Deliver bytes as a transport does: as much as the buffer takes, while reading is on."""
        pos = 0
        while pos < len(data):
            assert self.wire.reading, "fed while paused"
            buffer = self.get_buffer(-1)
            size = min(len(buffer), len(data) - pos)
            assert size > 0
            buffer[:size] = data[pos : pos + size]
            pos += size
            self.buffer_updated(size)


def framed(*payloads: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)


@given(payloads=st.lists(st.binary(max_size=50), max_size=10), chops=st.lists(st.integers(1, 60), min_size=1))
def test_frames_do_not_depend_on_how_the_bytes_are_split(payloads: list[bytes], chops: list[int]) -> None:
    connection = Recorder(FrameMemory(1 << 20))
    data = framed(*payloads)
    pos = turn = 0
    while pos < len(data):
        size = chops[turn % len(chops)]
        connection.feed(data[pos : pos + size])
        pos += size
        turn += 1
    assert connection.frames == payloads
    assert connection._memory.in_use == 0


@pytest.mark.parametrize(
    "size", [SCRATCH_BYTES - 4, SCRATCH_BYTES, GROWTH_BYTES, GROWTH_BYTES + 1, 3 * GROWTH_BYTES + 7]
)
def test_large_frames_arrive_whole_between_small_ones(size: int) -> None:
    connection = Recorder(FrameMemory(1 << 30))
    large = bytes(range(256)) * (size // 256 + 1)
    payloads = [b"before", large[:size], b"after", large[:size], b""]
    connection.feed(framed(*payloads))
    assert connection.frames == payloads


@pytest.mark.parametrize("length", [-1, -(2**31), MAX_FRAME + 1, 2**31 - 1])
def test_an_impossible_length_closes_the_connection_after_the_good_frames(length: int) -> None:
    connection = Recorder(FrameMemory(1 << 20))
    connection.feed(framed(b"good") + struct.pack(">i", length) + b"x" * 10)
    assert connection.frames == [b"good"]
    assert len(connection.errors) == 1
    assert connection.wire.closed


def test_a_large_length_alone_allocates_little() -> None:
    connection = Recorder(FrameMemory(1 << 40), max_frame=1 << 30)
    connection.feed(struct.pack(">i", 1 << 30) + b"x")
    assert connection._partial is not None
    assert len(connection._partial) <= GROWTH_BYTES


def test_a_held_connection_keeps_frames_in_order_and_continues_after_release() -> None:
    class HoldsAtFirst(Recorder):
        def frame_received(self, frame: memoryview) -> None:
            super().frame_received(frame)
            if frame == b"1":
                self.hold()

    connection = HoldsAtFirst(FrameMemory(1 << 20))
    connection.feed(framed(b"0", b"1", b"2", b"3"))
    assert connection.frames == [b"0", b"1"]
    assert not connection.wire.reading
    connection.release()
    assert connection.frames == [b"0", b"1", b"2", b"3"]
    assert connection.wire.reading
    assert connection._memory.in_use == 0


def test_replies_of_one_read_leave_in_one_write() -> None:
    class Echo(Recorder):
        def frame_received(self, frame: memoryview) -> None:
            self.send([bytes(frame)], len(frame))

    connection = Echo(FrameMemory(1 << 20))
    connection.feed(framed(b"a", b"b", b"c"))
    assert connection.wire.written == [b"abc"]


def test_a_peer_that_does_not_read_its_replies_is_not_read_from() -> None:
    connection = Recorder(FrameMemory(1 << 20))
    connection.pause_writing()
    assert not connection.wire.reading
    connection.resume_writing()
    assert connection.wire.reading


def test_when_request_memory_is_used_up_connections_wait_their_turn() -> None:
    memory = FrameMemory(100)
    first, second = Recorder(memory), Recorder(memory)
    first.feed(framed(b"x" * 80)[:50])
    second.feed(framed(b"y" * 80)[:50])
    assert first.wire.reading
    assert not second.wire.reading
    assert memory.refused == 1
    first.feed(framed(b"x" * 80)[50:])
    assert second.wire.reading
    second.feed(framed(b"y" * 80)[50:])
    assert second.frames == [b"y" * 80]
    assert memory.in_use == 0


def test_a_connection_that_dies_gives_its_memory_back() -> None:
    memory = FrameMemory(100)
    first, second = Recorder(memory), Recorder(memory)
    first.feed(framed(b"x" * 80)[:50])
    second.feed(framed(b"y" * 80)[:50])
    first.connection_lost(None)
    assert second.wire.reading
    second.connection_lost(None)
    assert memory.in_use == 0


def test_a_frame_larger_than_the_memory_limit_passes_alone() -> None:
    connection = Recorder(FrameMemory(10))
    connection.feed(framed(b"z" * 1000))
    assert connection.frames == [b"z" * 1000]


def test_frames_after_a_close_are_ignored() -> None:
    class ClosesAtFirst(Recorder):
        def frame_received(self, frame: memoryview) -> None:
            super().frame_received(frame)
            self.close()

    connection = ClosesAtFirst(FrameMemory(1 << 20))
    connection.feed(framed(b"last", b"never"))
    assert connection.frames == [b"last"]


# Held and fair connections -------------------------------------------------------------------------------------------


class HoldsAtOnce(Recorder):
    """Processes one frame, and is then held until the test releases it."""

    def frame_received(self, frame: memoryview) -> None:
        super().frame_received(frame)
        self.hold()


@given(rest=st.binary(max_size=200), announced=st.integers(300, MAX_FRAME))
def test_the_beginning_of_a_frame_reserves_memory_only_when_its_connection_is_released(
    rest: bytes, announced: int
) -> None:
    memory = FrameMemory(1 << 30)
    connection = HoldsAtOnce(memory)
    connection.feed(framed(b"first") + struct.pack(">i", announced) + rest)
    assert memory.in_use == 4 + len(rest)
    connection.release()
    assert memory.in_use == 4 + announced
    assert connection.wire.reading
    connection.feed(b"x" * (announced - len(rest)))
    assert connection.frames == [b"first", rest + b"x" * (announced - len(rest))]
    assert memory.in_use == 0


def test_a_connection_that_is_lost_while_it_is_held_gives_back_the_beginning_of_its_frame() -> None:
    memory = FrameMemory(1 << 30)
    connection = HoldsAtOnce(memory)
    connection.feed(framed(b"first", b"second") + struct.pack(">i", 1000) + b"third")
    assert memory.in_use > 0
    connection.connection_lost(None)
    assert memory.in_use == 0


def test_an_impossible_length_is_noticed_while_the_connection_is_held() -> None:
    connection = HoldsAtOnce(FrameMemory(1 << 30))
    connection.feed(framed(b"first") + struct.pack(">i", -1) + b"rest")
    assert len(connection.errors) == 1
    assert connection.wire.closed


def test_a_held_connection_that_finds_no_memory_waits_for_it_after_its_release() -> None:
    memory = FrameMemory(1000)
    connection, other = HoldsAtOnce(memory), Recorder(memory)
    connection.feed(framed(b"first") + struct.pack(">i", 900) + b"second")
    other.feed(struct.pack(">i", 800) + b"x")
    connection.release()
    assert not connection.wire.reading
    other.feed(b"x" * 799)
    assert connection.wire.reading


class TakesTurns(Recorder):
    takes_turns = True


def in_a_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


@pytest.mark.parametrize("size", [SCRATCH_BYTES + 1, GROWTH_BYTES])
@in_a_loop
async def test_a_connection_reads_no_more_in_the_turn_of_the_loop_in_which_a_large_frame_was_complete(
    size: int,
) -> None:
    """libuv goes on reading while there are bytes, up to 32 times; other connections would wait for 32 large frames."""
    connection = TakesTurns(FrameMemory(1 << 30))
    for turn in range(3):
        connection.feed(framed(b"x" * size))
        assert len(connection.frames) == turn + 1
        assert not connection.wire.reading
        await asyncio.sleep(0)
        assert connection.wire.reading


@in_a_loop
async def test_a_connection_reads_no_more_in_the_turn_in_which_small_frames_filled_the_buffer() -> None:
    connection = TakesTurns(FrameMemory(1 << 30))
    connection.feed(framed(*[b"x" * 60] * (SCRATCH_BYTES // 64)))
    assert not connection.wire.reading
    await asyncio.sleep(0)
    assert connection.wire.reading
    connection.feed(framed(b"a little"))
    assert connection.wire.reading


@in_a_loop
async def test_the_end_of_a_turn_does_not_end_a_hold() -> None:
    connection = TakesTurns(FrameMemory(1 << 30))
    connection.feed(framed(b"x" * GROWTH_BYTES))
    connection.hold()
    await asyncio.sleep(0)
    assert not connection.wire.reading
    connection.release()
    assert connection.wire.reading


@in_a_loop
async def test_a_connection_that_is_lost_at_the_end_of_its_turn_stays_closed() -> None:
    connection = TakesTurns(FrameMemory(1 << 30))
    connection.feed(framed(b"x" * GROWTH_BYTES))
    wire = connection.wire
    connection.connection_lost(None)
    await asyncio.sleep(0)
    assert not wire.reading
