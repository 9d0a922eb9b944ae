"""Connection of the simulated network: two transports, and one pipe in each direction.

A pipe holds the bytes that were written but not yet read. Bytes that are due move to the receiver's inbox; the
receiver's process takes them from there when it runs and wants to read. Above a limit the writer is paused, as by a
full socket buffer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import Context
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moldau.testing.simulation.machine import SimulatedProcess
    from moldau.testing.simulation.network import SimulatedNetwork

Buffer = bytes | bytearray | memoryview

SMALLEST_WINDOW = 16 * 1024
LARGEST_WINDOW = 256 * 1024
SPLIT_CHANCE = 0.1
"""The probability that a piece arrives in two parts."""

RESET = ConnectionResetError
END = b""
"""In an inbox: the peer has closed the connection. A piece of data is never empty."""


class _Piece(NamedTuple):
    """The buffer of one `write`: by reference, and a copy of its content at that time."""

    due: float
    given: Buffer
    content: bytes


class Pipe:
    """One direction of a connection."""

    def __init__(self, network: SimulatedNetwork, sender: SimulatedTransport, receiver: SimulatedTransport) -> None:
        self._network = network
        self._sender = sender
        self._receiver = receiver
        self._link = network.link(sender.process.machine, receiver.process.machine)
        self._pieces: deque[_Piece] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._last_due = 0.0
        self._context = Context()
        self.unread = 0
        """Bytes that were written and that the receiver has not read."""

    def push(self, data: Buffer) -> None:
        due = self._network.loop.time() + self._link.delay_s()
        if due < self._last_due:
            due = self._last_due
        self._last_due = due
        self._pieces.append(_Piece(due, data, data if type(data) is bytes else bytes(data)))
        self.unread += len(data)
        if self._timer is None:
            self._wait_for_head()

    def drop(self) -> None:
        """Drop everything that has not arrived."""
        self.unread = 0
        self._pieces.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait_for_head(self) -> None:
        self._timer = self._network.loop.call_at(self._pieces[0].due, self._head_is_due, context=self._context)

    def _head_is_due(self) -> None:
        self._link.pass_or_wait(self._arrive)

    def _arrive(self) -> None:
        """Deliver the first piece of the queue, and all further pieces that are due."""
        self._timer = None
        if not self._pieces:
            return  # dropped in the meantime
        now = self._network.loop.time()
        while self._pieces and self._pieces[0].due <= now:
            _, given, content = self._pieces.popleft()
            if given is not content and given != content:
                self._network.report(
                    f"a buffer of {len(content)} bytes changed after {self._sender.process} had passed it to write"
                )
                content = bytes(given)
            if self._receiver.gone:
                self._answer_with_reset()
                return
            self._split(content)
        if self._pieces:
            self._wait_for_head()
        self._receiver.arrived()

    def _split(self, data: bytes) -> None:
        random = self._network.random
        inbox = self._receiver.inbox
        if len(data) > 1 and random.random() < SPLIT_CHANCE:
            at = random.randrange(1, len(data))
            inbox.append(data[:at])
            data = data[at:]
        inbox.append(data)

    def _answer_with_reset(self) -> None:
        """Reset the sender, because the receiver does not have this connection any more; as soon as its machine has
        power."""
        self.drop()
        machine, sender = self._receiver.process.machine, self._sender
        back = self._network.link(machine, sender.process.machine)

        def tell() -> None:
            back.carry(lambda: sender.lose(RESET(104, "Connection reset by peer")))

        if machine.up:
            tell()
        else:
            machine.on_boot.append(tell)


class SimulatedConnection:
    """Both ends and both pipes."""

    def __init__(
        self,
        network: SimulatedNetwork,
        caller: SimulatedProcess,
        caller_at: tuple[str, int],
        callee: SimulatedProcess,
        callee_at: tuple[str, int],
    ) -> None:
        self.network = network
        self.caller = SimulatedTransport(self, caller, caller_at, callee_at)
        self.callee = SimulatedTransport(self, callee, callee_at, caller_at)
        self.caller.out = self.callee.source = Pipe(network, self.caller, self.callee)
        self.callee.out = self.caller.source = Pipe(network, self.callee, self.caller)

    def end_gone(self) -> None:
        if self.caller.gone and self.callee.gone:
            self.network.forget(self)


class SimulatedTransport(asyncio.Transport):
    """One end of a connection, owned by one process."""

    out: Pipe
    source: Pipe

    def __init__(
        self, connection: SimulatedConnection, process: SimulatedProcess, here: tuple[str, int], there: tuple[str, int]
    ) -> None:
        super().__init__({"sockname": here, "peername": there})
        self.connection = connection
        self.process = process
        self.inbox: deque[bytes] = deque()
        self.gone = False
        """Nothing can be sent or received any more."""
        self._protocol: asyncio.BaseProtocol | None = None
        self._window = connection.network.random.randint(SMALLEST_WINDOW, LARGEST_WINDOW)
        self._closing = False
        self._reading = True
        self._writing_paused = False
        self._awake = False
        self._loss: Exception | None = None
        self._loss_reported = False

    def open(self, protocol: asyncio.BaseProtocol) -> None:
        """Attach a protocol, in its process."""
        self._protocol = protocol
        protocol.connection_made(self)
        if self.gone:
            self._report_loss_soon()
        else:
            self.wake()

    # -- called by the protocol ------------------------------------------------------------------------------------

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def is_closing(self) -> bool:
        return self._closing or self.gone

    def is_reading(self) -> bool:
        return self._reading and not self.is_closing()

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self.wake()

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return max(0, self.out.unread - self._window // 2)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def write(self, data: Buffer) -> None:
        if self.is_closing() or not len(data):
            return
        self.out.push(data)
        if self.out.unread > self._window and not self._writing_paused and self._protocol is not None:
            self._writing_paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        for data in list_of_data:
            self.write(data)

    def close(self) -> None:
        """Close after the written bytes have arrived."""
        if not self.is_closing():
            self._closing = True
            self.out.push(END)
            self.gone = True
            self._report_loss_soon()

    def abort(self) -> None:
        if not self.gone:
            self._closing = True
            self._reset_peer()
            self.gone = True
            self._report_loss_soon()

    # -- called by the network -------------------------------------------------------------------------------------

    def arrived(self) -> None:
        """Read the inbox now if the process runs and reads, otherwise later."""
        process = self.process
        if process.held or self._awake:
            self.wake()
        elif self._reading and self._protocol is not None and not self.gone:
            process.context.run(self._read)

    def wake(self) -> None:
        """Schedule a read of the inbox in the process."""
        if self.inbox and not self._awake and self._reading and self._protocol is not None and not self.gone:
            self._awake = True
            self.process.soon(self._read)

    def _read(self) -> None:
        """Runs in the process that owns this end."""
        self._awake = False
        inbox = self.inbox
        while inbox and self._reading and not self._closing and not self.gone:
            data = inbox.popleft()
            if not data:
                assert isinstance(self._protocol, asyncio.Protocol | asyncio.BufferedProtocol)
                if not self._protocol.eof_received():
                    self.close()
                return
            self.source.unread -= len(data)
            self._feed(data)
        peer = self.connection.caller if self is self.connection.callee else self.connection.callee
        peer.peer_has_read()

    def _feed(self, data: bytes) -> None:
        protocol: Any = self._protocol
        if not isinstance(protocol, asyncio.BufferedProtocol):
            protocol.data_received(data)
            return
        while data and not self._closing and not self.gone:
            room: Any = protocol.get_buffer(-1)
            size = min(len(room), len(data))
            room[:size] = data[:size]
            protocol.buffer_updated(size)
            data = data[size:]
            if data and not self._reading:
                self.inbox.appendleft(data)
                self.source.unread += len(data)
                return

    def peer_has_read(self) -> None:
        if self._writing_paused and self.out.unread <= self._window // 4:
            self._writing_paused = False
            self.process.soon(self._resume_writing)

    def _resume_writing(self) -> None:
        if not self.gone and self._protocol is not None:
            self._protocol.resume_writing()

    def lose(self, error: Exception | None) -> None:
        """Break the connection, as seen by this end."""
        if not self.gone:
            self.gone = self._closing = True
            self._loss = error
            self.out.drop()
            self._report_loss_soon()

    def owner_died(self, abruptly: bool) -> None:
        """Close after the process has died: the kernel sends the written bytes and the end, or resets the
        connection."""
        if self.gone:
            return
        if abruptly:
            self._reset_peer()
        else:
            self.out.push(END)
        self.gone = self._loss_reported = True
        self.connection.end_gone()

    def vanish(self) -> None:
        """Disappear because the machine lost power: nothing more is sent."""
        self.out.drop()
        self.gone = self._loss_reported = True
        self.connection.end_gone()

    def _reset_peer(self) -> None:
        self.out.drop()
        peer = self.connection.caller if self is self.connection.callee else self.connection.callee
        link = self.connection.network.link(self.process.machine, peer.process.machine)
        link.carry(lambda: peer.lose(RESET(104, "Connection reset by peer")))

    def _report_loss_soon(self) -> None:
        if not self._loss_reported and self._protocol is not None:
            self._loss_reported = True
            self.process.soon(self._report_loss)
        self.connection.end_gone()

    def _report_loss(self) -> None:
        assert self._protocol is not None
        self._protocol.connection_lost(self._loss)
