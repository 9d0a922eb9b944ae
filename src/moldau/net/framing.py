"""Length-prefixed frames over an asyncio transport, cut out of the receive buffer in place.

All connections of one loop share a scratch buffer: `get_buffer`, the read and `buffer_updated` happen in one turn of
the loop, so no other connection can use it in between. A connection owns memory only while it has an incomplete frame;
5,000 idle connections need no buffers.

Three rules for subclasses:

* The view passed to `frame_received` is valid only during that call. Copy what must live longer.
* Replies are collected with `send` and written together when the read callback ends. They are written at once if they
  are sent from elsewhere, or if they have many bytes: then the transport can report that the peer does not read.
* A connection that cannot take more work calls `hold`. Frames that were already received wait in a bounded backlog,
  and reading stops. `release` continues in the same order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from struct import Struct
from typing import ClassVar, cast

from moldau.host.memory import fresh_buffer

Buffer = bytes | bytearray | memoryview

SCRATCH_BYTES = 256 * 1024
"""The largest size of one read. Larger reads save system calls but do not fit the second-level cache."""

GROWTH_BYTES = 1024 * 1024
"""The largest initial size of a frame's buffer. It doubles when it is full, so that a length field alone allocates
little."""

COLLECTED_BYTES = 256 * 1024
"""Replies are written together up to this size. One read can contain thousands of small requests for large replies."""

SPARE_BUFFERS = 4
"""Frame buffers kept for reuse per loop: avoids zeroing a new buffer for each large frame."""

TLS_HANDSHAKE = 0x1603
"""The first two bytes of a TLS client, which are no length of a frame."""

LENGTH_BYTES = 4
_LENGTH = Struct(">i")


class FrameError(Exception):
    """The peer sent something that cannot be a frame; its connection is closed."""


class FrameMemory:
    """The bytes of incomplete and waiting frames of all connections, with one limit for their sum."""

    __slots__ = ("in_use", "limit", "refused", "scratch", "spare", "waiting")

    def __init__(self, limit: int, scratch_bytes: int = SCRATCH_BYTES) -> None:
        self.limit = limit
        self.in_use = 0
        self.refused = 0
        self.scratch = memoryview(bytearray(scratch_bytes))
        self.spare: list[bytearray] = []
        self.waiting: deque[FramedConnection] = deque()

    def take(self, size: int) -> bool:
        """Account for `size` more bytes; False if that would exceed the limit. A single frame is always accepted."""
        if self.in_use and self.in_use + size > self.limit:
            self.refused += 1
            return False
        self.in_use += size
        return True

    def give(self, size: int) -> None:
        self.in_use -= size
        for _ in range(len(self.waiting)):  # each may queue itself again, so only one round
            self.waiting.popleft().memory_available()

    def buffer(self, size: int) -> bytearray:
        for i, spare in enumerate(self.spare):
            if len(spare) >= size:
                return self.spare.pop(i)
        return fresh_buffer(size)  # not zeroed: only received bytes are read from it

    def reuse(self, buffer: bytearray) -> None:
        if len(self.spare) < SPARE_BUFFERS and len(buffer) <= 2 * GROWTH_BYTES:
            self.spare.append(buffer)


class FramedConnection(asyncio.BufferedProtocol):
    """One peer: bytes in, frames out. Subclasses override `opened`, `frame_received` and `closed`."""

    growth_bytes: ClassVar[int] = GROWTH_BYTES
    takes_turns: ClassVar[bool] = False
    """Whether other connections get their turn after each large frame, and after each read that fills the scratch
    buffer. libuv reads up to 32 times from a connection that always has more: 16 MB of one client's requests, while all
    others wait."""

    __slots__ = (
        "_backlog",
        "_closing",
        "_collected",
        "_ending_turn",
        "_filled",
        "_holds",
        "_memory",
        "_out",
        "_partial",
        "_reading",
        "_waiting_for_memory",
        "_wanted",
        "max_frame_bytes",
        "transport",
    )

    def __init__(self, memory: FrameMemory, max_frame_bytes: int) -> None:
        self.transport: asyncio.Transport | None = None
        self.max_frame_bytes = max_frame_bytes
        self._memory = memory
        self._partial: bytearray | None = None  # the incomplete frame, length field included
        self._filled = 0  # bytes of it received
        self._wanted = 0  # bytes of it in all, once its length field is known
        self._backlog: deque[bytearray] = deque()
        self._holds = 0
        self._closing = False
        self._reading = False
        self._waiting_for_memory = False
        self._ending_turn = False
        self._out: list[Buffer] = []
        self._collected = 0  # bytes in it

    # -- interface for subclasses -----------------------------------------------------------------------------------

    def opened(self) -> None:
        """The connection is up."""

    def frame_received(self, frame: memoryview) -> None:
        """One complete frame, without its length field. The view is invalid after this call."""

    def own_frame_received(self, buffer: bytearray, frame: memoryview) -> None:
        """One complete frame that arrived in several reads, in its own buffer. An override may keep the buffer."""
        self.frame_received(frame)
        self._memory.reuse(buffer)

    def closed(self, error: Exception | None) -> None:
        """The connection is closed; nothing more can be sent."""

    def rejected(self, error: FrameError) -> None:
        """The peer violated the framing; the connection is being closed."""

    # -- sending ---------------------------------------------------------------------------------------------------

    def send(self, buffers: Sequence[Buffer], size: int) -> None:
        """Queue whole frames, `size` bytes in all.

        The buffers must not change afterwards: the transport keeps them by reference.
        """
        self._out.extend(buffers)
        self._collected += size
        if not self._reading or self._collected > COLLECTED_BYTES:
            self._flush()

    def close(self) -> None:
        """Close after all sent bytes have been written. Frames that are still buffered are ignored."""
        self._closing = True
        if self.transport is not None:
            self._flush()
            self.transport.close()

    def _flush(self) -> None:
        out = self._out
        if not out:
            return
        self._out = []
        self._collected = 0
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        if len(out) == 1:
            transport.write(out[0])
        elif sum(map(len, out)) <= GROWTH_BYTES // 16:
            transport.write(b"".join(out))
        else:
            transport.writelines(out)

    # -- flow control ----------------------------------------------------------------------------------------------

    @property
    def held(self) -> bool:
        return self._holds > 0

    def hold(self) -> None:
        """Process no further frame until `release`. Calls nest."""
        self._holds += 1
        if self._holds == 1 and self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()

    def release(self) -> None:
        self._holds -= 1
        if self._holds:
            return
        already_reading = self._reading
        self._reading = True
        try:
            while self._backlog and not self.held and not self._closing:
                frame = self._backlog.popleft()
                self._memory.give(len(frame))
                self.frame_received(memoryview(frame))
        finally:
            if not already_reading:
                self._reading = False
                self._flush()
        # A frame from the backlog may have called `hold` or closed the connection.
        if self._postponed and not self.held and not self._closing:
            self._memory.give(self._filled)
            self._size_known()
        transport = self.transport
        if not self.held and transport is not None and not transport.is_closing():
            transport.resume_reading()

    def pause_writing(self) -> None:
        """The peer does not read its replies: process no more of its requests until it does."""
        self.hold()

    def resume_writing(self) -> None:
        self.release()

    # -- asyncio callbacks -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.opened()

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self._closing = True
        self._drop_partial()
        for frame in self._backlog:
            self._memory.give(len(frame))
        self._backlog.clear()
        self._out.clear()
        self.closed(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._partial is None:
            return self._memory.scratch
        return memoryview(self._partial)[self._filled : self._wanted or LENGTH_BYTES]

    def buffer_updated(self, nbytes: int) -> None:
        self._reading = True
        try:
            if self._partial is None:
                self._cut(self._memory.scratch[:nbytes])
                # Unless it was the beginning of a large frame, which ends the turn when it is complete.
                turn_is_over = nbytes >= SCRATCH_BYTES and self._wanted <= SCRATCH_BYTES
            else:
                self._fill(nbytes)
                turn_is_over = self._partial is None
            if turn_is_over and self.takes_turns and not self._ending_turn:
                self._end_turn()
        except FrameError as error:
            self.rejected(error)
            self.close()
        finally:
            self._reading = False
            if self._out:  # empty after most reads: a large frame needs ten of them
                self._flush()

    def _end_turn(self) -> None:
        """Read no more in this turn of the loop."""
        self._ending_turn = True
        self.hold()
        asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._ending_turn = False
        if self.transport is not None:
            self.release()

    # -- cutting frames --------------------------------------------------------------------------------------------

    def _cut(self, data: memoryview) -> None:
        """Pass on every complete frame in `data`, and keep the rest in a separate buffer."""
        pos, end = 0, len(data)
        while end - pos >= LENGTH_BYTES and not self._closing:
            pos += LENGTH_BYTES
            stop = pos + self._size_at(data, pos - LENGTH_BYTES)
            if stop > end:
                pos -= LENGTH_BYTES
                break
            if self._holds:
                self._hold_back(data[pos:stop])
            else:
                self.frame_received(data[pos:stop])
            pos = stop
        if pos < end and not self._closing:
            self._keep(data[pos:])

    def _keep(self, rest: memoryview) -> None:
        if self._holds and len(rest) >= LENGTH_BYTES:
            self._postpone(rest)
            return
        room = max(len(rest), LENGTH_BYTES)
        if len(rest) >= LENGTH_BYTES:
            # Start with the size that it would grow to first, so that it is not copied twice.
            room = max(room, min(LENGTH_BYTES + self._size_at(rest, 0), self.growth_bytes))
        self._partial = self._memory.buffer(room)
        self._partial[: len(rest)] = rest
        self._filled = len(rest)
        if self._filled >= LENGTH_BYTES:
            self._size_known()

    def _postpone(self, rest: memoryview) -> None:
        """Keep the beginning of a frame while nothing is read. Only `release` reserves memory for the whole frame:
        connections that are held for seconds must not keep others from sending."""
        self._size_at(rest, 0)  # raises FrameError now, not in `release`
        self._partial = bytearray(rest)
        self._filled = len(rest)
        self._memory.in_use += self._filled

    @property
    def _postponed(self) -> bool:
        return not self._wanted and self._filled >= LENGTH_BYTES

    def _fill(self, nbytes: int) -> None:
        self._filled += nbytes
        if not self._wanted:
            if self._filled < LENGTH_BYTES:
                return
            self._size_known()
        assert self._partial is not None
        if self._filled < self._wanted:
            if self._filled == len(self._partial):
                self._make_room()
            return
        frame, wanted = self._partial, self._wanted
        self._partial, self._filled, self._wanted = None, 0, 0
        self._memory.give(wanted)
        if self._holds:
            self._hold_back(memoryview(frame)[LENGTH_BYTES:wanted])
            self._memory.reuse(frame)
        else:
            self.own_frame_received(frame, memoryview(frame)[LENGTH_BYTES:wanted])

    def _size_known(self) -> None:
        """The length field is complete: account for the frame, or stop reading until memory is available."""
        assert self._partial is not None
        self._wanted = LENGTH_BYTES + self._size_at(self._partial, 0)
        if not self._memory.take(self._wanted):
            self._waiting_for_memory = True
            self._memory.waiting.append(self)
            self.hold()
        self._make_room()

    def _make_room(self) -> None:
        """Grow the buffer with the bytes that have arrived, not with the size that the length field claims."""
        assert self._partial is not None
        room = len(self._partial)
        if self._filled == room or room < min(self._wanted, self.growth_bytes):
            bigger = self._memory.buffer(min(self._wanted, max(2 * room, self.growth_bytes)))
            bigger[: self._filled] = self._partial[: self._filled]
            self._partial = bigger

    def _hold_back(self, frame: memoryview) -> None:
        """Keep a frame that was received before reading stopped. These frames need at most one scratch buffer."""
        self._memory.in_use += len(frame)
        self._backlog.append(bytearray(frame))

    def _size_at(self, data: memoryview | bytearray, pos: int) -> int:
        (size,) = _LENGTH.unpack_from(data, pos)
        if not 0 <= size <= self.max_frame_bytes:
            if size >> 16 == TLS_HANDSHAKE:
                raise FrameError("the peer speaks TLS, but this connection has none; check its security.protocol")
            raise FrameError(f"frame of {size} bytes; the limit is {self.max_frame_bytes} (socket.request.max.bytes)")
        return size  # type: ignore[no-any-return]

    def memory_available(self) -> None:
        """Called by FrameMemory when bytes were released."""
        if not self._waiting_for_memory:
            return
        if self._partial is None or self._memory.take(self._wanted):
            self._waiting_for_memory = False
            self.release()
        else:
            self._memory.waiting.append(self)

    def _drop_partial(self) -> None:
        if self._partial is not None and self._wanted and not self._waiting_for_memory:
            self._memory.give(self._wanted)
        elif self._postponed:
            self._memory.give(self._filled)
        self._partial, self._filled, self._wanted = None, 0, 0
        self._waiting_for_memory = False
