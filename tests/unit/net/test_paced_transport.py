"""Paced writes: chunks in order, flow control in turns, and nothing lost at the end."""

from __future__ import annotations

import asyncio
from typing import Any

from moldau.net.paced_transport import CHUNK_BYTES, PacedTransport


class Tls(asyncio.Transport):
    """A transport that is full after each chunk, as one whose peer reads slowly."""

    def __init__(self, full_after: int) -> None:
        super().__init__()
        self.written = bytearray()
        self.sizes: list[int] = []
        self.full_after = full_after
        self.room = full_after
        self.ended = ""
        self.paced: PacedTransport | None = None

    def write(self, data: Any) -> None:
        assert not self.ended
        self.written += data
        self.sizes.append(len(data))
        self.room -= 1
        if not self.room and self.paced is not None:
            self.paced.transport_full()

    def drain(self) -> None:
        assert self.paced is not None
        self.room = self.full_after
        self.paced.transport_drained()

    def get_write_buffer_size(self) -> int:
        return 7

    def is_closing(self) -> bool:
        return bool(self.ended)

    def close(self) -> None:
        self.ended = "closed"

    def abort(self) -> None:
        self.ended = "aborted"


def paced(full_after: int) -> tuple[Tls, PacedTransport, list[str]]:
    tls, events = Tls(full_after), list[str]()
    transport = PacedTransport(tls, lambda: events.append("full"), lambda: events.append("drained"))
    tls.paced = transport
    return tls, transport, events


DATA = bytes(range(256)) * (4 * CHUNK_BYTES // 256) + b"end"


def test_small_writes_pass() -> None:
    tls, transport, events = paced(100)
    transport.writelines([b"a", bytearray(b"b"), memoryview(b"c")])
    assert (bytes(tls.written), events, transport.get_write_buffer_size()) == (b"abc", [], 7)


def test_large_writes_are_cut_and_wait_until_there_is_room() -> None:
    tls, transport, events = paced(2)
    transport.write(DATA)
    assert (tls.sizes, events) == ([CHUNK_BYTES] * 2, ["full"])
    assert transport.get_write_buffer_size() == 7 + len(DATA) - 2 * CHUNK_BYTES
    transport.write(b"later")  # waits behind the rest
    tls.drain()
    assert (tls.sizes, events) == ([CHUNK_BYTES] * 4, ["full"])
    tls.drain()  # the end, and what came later: full again, with nothing left
    assert bytes(tls.written) == DATA + b"later"
    assert events == ["full"]
    tls.drain()
    assert events == ["full", "drained"]
    assert transport.get_write_buffer_size() == 7


def test_flow_control_comes_in_turns() -> None:
    tls, transport, events = paced(1)
    for _ in range(3):
        transport.write(b"x")
        assert events[-1] == "full"
        tls.drain()
        assert events[-1] == "drained"
    assert events == ["full", "drained"] * 3


def test_what_waits_is_sent_before_the_end() -> None:
    tls, transport, _ = paced(1)
    transport.write(DATA)
    transport.close()
    assert (bytes(tls.written), tls.ended) == (DATA, "closed")


def test_an_abort_forgets_what_waits() -> None:
    tls, transport, _ = paced(1)
    transport.write(DATA)
    transport.abort()
    assert (len(tls.written), tls.ended, transport.get_write_buffer_size()) == (CHUNK_BYTES, "aborted", 7)
