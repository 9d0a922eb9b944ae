"""A session with ZooKeeper through kazoo, heard on the event loop: one thread, and nothing of it seen from outside.

kazoo reads and writes its socket in a thread. All that happens there (answers, watch events, the connection's state) is
handed to the loop by `call_soon_threadsafe`, in the order in which it came over the wire: an event is heard before the
answer to a later read, which is what ZooKeeper promises its clients.

Two requests that ZooKeeper has since 3.6 and kazoo has not are added here: persistent recursive watches, and reads of
many nodes in one message. It is not a store: no paths are checked, no errors explained.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import select
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import EXCEPTIONS
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import (
    Connect,
    GetData,
    MultiHeader,
    Watch,
    int_struct,
    multiheader_struct,
    read_buffer,
    stat_struct,
    write_string,
)
from kazoo.protocol.states import Callback, ZnodeStat
from kazoo.retry import KazooRetry

from moldau.host.clock import SystemClock

FIRST_RETRY_S: Final = 0.05
MAX_RETRY_S: Final = 0.5
"""Between two attempts to connect: the session's time runs meanwhile."""

HANDSHAKE_SHARE: Final = 1 / 3
MIN_HANDSHAKE_S: Final = 1.0
"""How much of a session's time a server has to answer a new connection, and how long at least."""

RECURSIVE: Final = 1

# What kazoo has to say of its own is told by the store in words of ours; whoever looks for a fault may turn this up.
_log = logging.getLogger(f"{__name__}.kazoo")
_log.setLevel(logging.ERROR)


class AddWatch(NamedTuple):
    """Asks for the events of a node and of everything below it, until the connection ends."""

    path: str
    mode: int = RECURSIVE
    type: int = 106

    def serialize(self) -> bytes:
        return bytes(write_string(self.path) + int_struct.pack(self.mode))

    def deserialize(self, _bytes: bytes, _offset: int) -> bool:
        return True


class ReadMany(NamedTuple):
    """Reads many nodes in one message; the answer is a list, None where there is no such node."""

    paths: Sequence[str]
    type: int = 22

    def serialize(self) -> bytes:
        head = MultiHeader(GetData.type, False, -1).serialize()
        parts = [head + write_string(path) + b"\0" for path in self.paths]
        return b"".join([*parts, multiheader_struct.pack(-1, True, -1)])

    def deserialize(self, data: bytes, offset: int) -> list[tuple[bytes, ZnodeStat] | Exception]:
        found: list[tuple[bytes, ZnodeStat] | Exception] = []
        while True:
            header, offset = MultiHeader.deserialize(data, offset)
            if header.done:
                return found
            if header.type == GetData.type:
                value, offset = read_buffer(data, offset)
                found.append((value or b"", ZnodeStat._make(stat_struct.unpack_from(data, offset))))
                offset += stat_struct.size
            else:
                (code,) = int_struct.unpack_from(data, offset)
                found.append(EXCEPTIONS[code]())
                offset += int_struct.size


class _ToLoop:
    """In place of the queue from which a thread of kazoo's would take completions."""

    def __init__(self, post: Callable[..., None]) -> None:
        self.put = post


class LoopHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """Where kazoo gets its thread and sockets. Its callbacks run on the loop; the thread can be broken off."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connect_timeout_s: float) -> None:
        super().__init__()
        self._loop = loop
        self._connect_timeout_s = connect_timeout_s
        self._thread: threading.Thread | None = None
        self.completion_queue = _ToLoop(self.post)
        self.ended = asyncio.Event()
        """The thread is done."""
        # Readable from the moment when the thread shall drop everything.
        self._broken_off, self._break_off = os.pipe()
        self._is_broken_off = False
        self._closed = False
        self.orphaned: Callable[[], None] = self.break_off
        """Called in the thread when there is no loop any more."""

    def post(self, call: Callable[..., object], *args: object) -> None:
        """Has it called on the loop, after everything that was posted before."""
        try:
            self._loop.call_soon_threadsafe(call, *args)
        except RuntimeError:
            self.orphaned()  # the loop was closed under us: nobody is left to tell

    def dispatch_callback(self, callback: Callback) -> None:
        self.post(callback.func, *callback.args)

    def start(self) -> None:
        self._running = True

    def stop(self) -> None:
        """Nothing to stop: there are no workers. Completions go on until the thread ends."""

    def spawn(self, func: Callable[..., None], *args: object, **kwargs: object) -> threading.Thread:
        def live() -> None:
            try:
                func(*args, **kwargs)
            finally:
                self.post(self.ended.set)

        self._thread = threading.Thread(target=live, name="moldau-zookeeper", daemon=True)
        self._thread.start()
        return self._thread

    def break_off(self) -> None:
        """Ends every wait of the thread, now and from now on."""
        if not self._is_broken_off and not self._closed:
            self._is_broken_off = True
            os.write(self._break_off, b"\0")

    def close(self) -> None:
        """After the end of the thread."""
        if not self._closed:
            self._closed = True
            if self._thread is not None:
                self._thread.join()  # it has only to return
            os.close(self._broken_off)
            os.close(self._break_off)

    def select(
        self, readers: Sequence[Any], writers: Sequence[Any], _exceptional: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        poll = select.poll()
        for one in readers:
            poll.register(one, select.POLLIN)
        for one in writers:
            poll.register(one, select.POLLOUT)
        poll.register(self._broken_off, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(None if timeout is None else max(0.0, timeout) * 1000)}
        if self._broken_off in ready:
            raise self.timeout_exception("broken off")
        return [one for one in readers if one.fileno() in ready], [one for one in writers if one.fileno() in ready], []

    def create_connection(self, address: tuple[str, int], **_more: object) -> socket.socket:
        """kazoo would try one server for a whole session's time; the others should be tried before that is over."""
        connection = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
        try:
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            code = connection.connect_ex(address)
            if code == errno.EINPROGRESS:
                if not self.select([], [connection], [], self._connect_timeout_s)[1]:
                    raise TimeoutError(errno.ETIMEDOUT, "no answer")
                code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            # Where no server listens on a port of this machine, the system may connect a client to itself.
            if not code and connection.getsockname() == connection.getpeername():
                code = errno.ECONNREFUSED
            if code:
                raise OSError(code, os.strerror(code))
        except BaseException:
            connection.close()
            raise
        return connection


class _Connection(ConnectionHandler):  # type: ignore[misc]
    """kazoo's connection, which also tells what was negotiated and which ping was answered, and hands every watch event
    on."""

    _pinged_at = 0.0

    def _send_ping(self, timeout: float) -> None:
        self._pinged_at = self.client.now()
        super()._send_ping(timeout)

    def _read_socket(self, timeout: float) -> Any:
        waits = self.ping_outstanding.is_set()
        result = super()._read_socket(timeout)
        if waits and not self.ping_outstanding.is_set():
            self.client.ping_answered = self._pinged_at
        return result

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        if isinstance(request, Connect):
            # A server that is just starting may take the connection, lose the request and never answer. kazoo would
            # wait for it as long as the session may last, and find it expired.
            timeout = min(timeout, max(MIN_HANDSHAKE_S, request.time_out / 1000 * HANDSHAKE_SHARE))
        result = super()._invoke(timeout, request, xid)
        if isinstance(request, Connect) and result[0].time_out > 0:
            self.client.negotiated_timeout_s = result[0].time_out / 1000
        return result

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        watch, _ = Watch.deserialize(buffer, offset)
        self.client.handler.post(self.client.heard, watch.type, watch.path)


class KazooSession(KazooClient):  # type: ignore[misc]
    """One session: begun by `begin`, over for good when kazoo reports it as lost, given back by `end`."""

    def __init__(
        self,
        hosts: Sequence[tuple[str, int]],
        timeout_s: float,
        *,
        heard: Callable[[int, str], None],
        state_changed: Callable[[str], None],
    ) -> None:
        """`heard(type, path)` gets watch events, `state_changed(KazooState)` the connection's state: on the loop."""
        handler = LoopHandler(asyncio.get_running_loop(), timeout_s / len(hosts))
        retry = KazooRetry(
            max_tries=-1, delay=FIRST_RETRY_S, backoff=2, max_delay=MAX_RETRY_S, sleep_func=handler.sleep_func
        )
        super().__init__(
            hosts=",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in hosts),
            timeout=timeout_s,
            handler=handler,
            connection_retry=retry,
            command_retry=retry,
            logger=_log,
        )
        self.heard = heard
        self.now: Callable[[], float] = SystemClock().monotonic
        self.ping_answered = 0.0
        """When the latest ping was sent that was answered. Set in the thread: true also while the loop stands still."""
        self.negotiated_timeout_s = timeout_s
        self._connection = _Connection(self, self._conn_retry.copy(), logger=_log)
        self._tell_state = state_changed
        self.add_listener(self._state_listener)
        handler.orphaned = self._give_up

    def begin(self) -> None:
        """Starts to connect, and goes on trying until `end`."""
        self.start_async()

    async def end(self, grace_s: float) -> bool:
        """Ends the session and its thread. False where the thread could not be ended, which only a name server can do.

        A session that is in touch is closed at the server, which gets as long as `grace_s` to say so.
        """
        connected = self.connected
        try:
            self.stop()
        except OSError:
            pass  # the thread is over already, and its socket with it
        if not connected or not await self._ended(grace_s):
            self.handler.break_off()
            if not await self._ended(grace_s):
                return False
        self.handler.close()
        self.close()
        return True

    async def _ended(self, timeout_s: float) -> bool:
        try:
            await asyncio.wait_for(self.handler.ended.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    def ask(self, request: Any) -> Any:
        """Sends one of this module's requests; kazoo's async result."""
        result = self.handler.async_result()
        self._call(request, result)
        return result

    def _safe_close(self) -> None:
        """kazoo would block here until its thread is over. `end` waits for that without blocking the loop."""

    def _give_up(self) -> None:
        """In the thread: it ends, and with it the session when its time is up."""
        self._stopped.set()
        self.handler.break_off()

    def _state_listener(self, state: str) -> None:
        """In the thread."""
        if state == "LOST":
            # kazoo would begin another session now; whoever wants one makes one, and knows that it is another.
            self._stopped.set()
        self.handler.post(self._tell_state, state)
