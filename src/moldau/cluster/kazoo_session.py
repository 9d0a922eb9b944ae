"""ZooKeeper session through kazoo, with all callbacks on the event loop.

kazoo reads and writes its socket in one thread. Everything that happens there (responses, watch events, connection
state) is passed to the loop by `call_soon_threadsafe`, in the order of the wire. So an event arrives before the
response to a later read, as ZooKeeper promises its clients.

The module adds two requests that ZooKeeper has had since 3.6 and kazoo lacks: persistent recursive watches, and reads
of many nodes in one message. It is not a store: it neither checks paths nor explains errors.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import select
import socket
import ssl
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

from moldau.cluster.zookeeper_security import ZookeeperSecurity
from moldau.host.clock import SystemClock
from moldau.host.event_log import event_logger
from moldau.net.tls_errors import tls_problem
from moldau.settings.setting import SettingError

FIRST_RETRY_S: Final = 0.05
MAX_RETRY_S: Final = 0.5
"""Longest delay between two connection attempts. The session timeout keeps running during the delay."""

HANDSHAKE_SHARE: Final = 1 / 3
MIN_HANDSHAKE_S: Final = 1.0
"""The share of the session timeout that a server has to answer a new connection, and its minimum."""

RECURSIVE: Final = 1

# The store reports kazoo's problems in its own messages. Lower this level to see kazoo's messages when debugging.
_log = event_logger(f"{__name__}.kazoo")
_log.setLevel(logging.ERROR)


class AddWatch(NamedTuple):
    """Subscribes to the events of a node and of all nodes below it, until the connection ends."""

    path: str
    mode: int = RECURSIVE
    type: int = 106

    def serialize(self) -> bytes:
        return bytes(write_string(self.path) + int_struct.pack(self.mode))

    def deserialize(self, _bytes: bytes, _offset: int) -> bool:
        return True


class ReadMany(NamedTuple):
    """Reads many nodes in one message. The response is a list with an exception for each node that does not exist."""

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
    """Replacement for the queue from which a kazoo thread would take completions."""

    def __init__(self, post: Callable[..., None]) -> None:
        self.put = post


class LoopHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """Provides kazoo's thread and sockets. Callbacks run on the loop; `break_off` ends the thread's waits."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        connect_timeout_s: float,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        super().__init__()
        self._loop = loop
        self._connect_timeout_s = connect_timeout_s
        self._thread: threading.Thread | None = None
        self.completion_queue = _ToLoop(self.post)
        self.ended = asyncio.Event()
        """Set when the thread has ended."""
        # Becomes readable when the thread must drop everything.
        self._broken_off, self._break_off = os.pipe()
        self._is_broken_off = False
        self._closed = False
        self._tls = tls
        self.tls_error = ""
        """Why the last TLS connection failed; empty if it did not."""
        self.orphaned: Callable[[], None] = self.break_off
        """Called in the thread if the loop was closed."""

    def post(self, call: Callable[..., object], *args: object) -> None:
        """Schedule a call on the loop, after everything that was posted before."""
        try:
            self._loop.call_soon_threadsafe(call, *args)
        except RuntimeError:
            self.orphaned()  # the loop was closed: there is no receiver

    def dispatch_callback(self, callback: Callback) -> None:
        self.post(callback.func, *callback.args)

    def start(self) -> None:
        self._running = True

    def stop(self) -> None:
        """Does nothing: there are no workers. Completions continue until the thread ends."""

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
        """End every wait of the thread, the current one and all later ones."""
        if not self._is_broken_off and not self._closed:
            self._is_broken_off = True
            os.write(self._break_off, b"\0")

    def close(self) -> None:
        """Release the pipe. Call it after the thread has ended."""
        if not self._closed:
            self._closed = True
            if self._thread is not None:
                self._thread.join()  # the thread has nothing left to do but return
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
        # TLS may have decrypted more than was read: no event of the socket tells of that.
        buffered = [one for one in readers if isinstance(one, ssl.SSLSocket) and one.pending()]
        if buffered:
            timeout = 0
        ready = {descriptor for descriptor, _ in poll.poll(None if timeout is None else max(0.0, timeout) * 1000)}
        if self._broken_off in ready:
            raise self.timeout_exception("broken off")
        readable = [one for one in readers if one.fileno() in ready or one in buffered]
        return readable, [one for one in writers if one.fileno() in ready], []

    def create_connection(self, address: tuple[str, int], hostname: str = "", **_more: object) -> socket.socket:
        """Connect with a timeout per server. kazoo would try one server for the whole session timeout; the session
        would expire before the other servers are tried."""
        connection = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
        try:
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            code = connection.connect_ex(address)
            if code == errno.EINPROGRESS:
                if not self.select([], [connection], [], self._connect_timeout_s)[1]:
                    raise TimeoutError(errno.ETIMEDOUT, "no answer")
                code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            # If no server listens on a local port, the kernel may connect the socket to itself.
            if not code and connection.getsockname() == connection.getpeername():
                code = errno.ECONNREFUSED
            if code:
                raise OSError(code, os.strerror(code))
            if self._tls is not None:
                connection = self._encrypted(connection, self._tls, hostname or address[0])
        except BaseException:
            connection.close()
            raise
        return connection

    def _encrypted(self, connection: socket.socket, tls: Callable[[], ssl.SSLContext], hostname: str) -> socket.socket:
        """The connection after the TLS handshake, which has the same timeout as the connection itself."""
        try:
            secure = tls().wrap_socket(connection, server_hostname=hostname, do_handshake_on_connect=False)
        except SettingError as error:
            self.tls_error = str(error)
            raise OSError(errno.EINVAL, str(error)) from None
        try:
            while True:
                try:
                    secure.do_handshake()
                except ssl.SSLWantReadError:
                    ready = self.select([secure], [], [], self._connect_timeout_s)[0]
                except ssl.SSLWantWriteError:
                    ready = self.select([], [secure], [], self._connect_timeout_s)[1]
                else:
                    self.tls_error = ""
                    return secure
                if not ready:
                    raise TimeoutError(errno.ETIMEDOUT, "no answer to the TLS handshake")
        except OSError as error:
            problem = tls_problem("the server", hostname, error) if isinstance(error, ssl.SSLError) else str(error)
            self.tls_error = problem
            secure.close()
            raise
        except BaseException:
            secure.close()
            raise


class _Connection(ConnectionHandler):  # type: ignore[misc]
    """kazoo's connection, which also records the negotiated timeout and the time of the last answered ping, and passes
    on every watch event."""

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
            # A server that is starting may accept the connection, lose the request and never answer. kazoo would wait
            # for the whole session timeout, and the session would have expired.
            timeout = min(timeout, max(MIN_HANDSHAKE_S, request.time_out / 1000 * HANDSHAKE_SHARE))
        result = super()._invoke(timeout, request, xid)
        if isinstance(request, Connect) and result[0].time_out > 0:
            self.client.negotiated_timeout_s = result[0].time_out / 1000
        return result

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        watch, _ = Watch.deserialize(buffer, offset)
        self.client.handler.post(self.client.heard, watch.type, watch.path)


class KazooSession(KazooClient):  # type: ignore[misc]
    """One session: started by `begin`, dead once kazoo reports it as lost, released by `end`."""

    def __init__(
        self,
        hosts: Sequence[tuple[str, int]],
        timeout_s: float,
        *,
        heard: Callable[[int, str], None],
        state_changed: Callable[[str], None],
        security: ZookeeperSecurity | None = None,
    ) -> None:
        """`heard(type, path)` receives watch events, `state_changed(KazooState)` the connection state. Both run on the
        loop."""
        security = security or ZookeeperSecurity()
        handler = LoopHandler(asyncio.get_running_loop(), timeout_s / len(hosts), security.tls)
        retry = KazooRetry(
            max_tries=-1, delay=FIRST_RETRY_S, backoff=2, max_delay=MAX_RETRY_S, sleep_func=handler.sleep_func
        )
        super().__init__(
            hosts=",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in hosts),
            timeout=timeout_s,
            handler=handler,
            connection_retry=retry,
            command_retry=retry,
            auth_data=[("digest", security.digest)] if security.digest else None,
            logger=_log,
        )
        self.heard = heard
        self.now: Callable[[], float] = SystemClock().monotonic
        self.ping_answered = 0.0
        """Send time of the latest ping that was answered. Set in the thread, so it is correct even while the loop is
        blocked."""
        self.negotiated_timeout_s = timeout_s
        self._connection = _Connection(self, self._conn_retry.copy(), logger=_log)
        self._on_state = state_changed
        self.add_listener(self._state_listener)
        handler.orphaned = self._give_up

    def begin(self) -> None:
        """Start to connect, and retry until `end`."""
        self.start_async()

    async def end(self, grace_s: float) -> bool:
        """End the session and its thread. False if the thread did not end, which happens only while it resolves a host
        name.

        If the session is connected, it is closed at the server, which has `grace_s` to confirm it.
        """
        connected = self.connected
        try:
            self.stop()
        except OSError:
            pass  # the thread has already ended and closed its socket
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
        """Send one of this module's requests; returns kazoo's async result."""
        result = self.handler.async_result()
        self._call(request, result)
        return result

    def _safe_close(self) -> None:
        """Does nothing. kazoo would block here until its thread ends; `end` waits for that without blocking the
        loop."""

    def _give_up(self) -> None:
        """Runs in the thread: end it. The session expires at the server after its timeout."""
        self._stopped.set()
        self.handler.break_off()

    def _state_listener(self, state: str) -> None:
        """Runs in the thread."""
        if state == "LOST":
            # kazoo would start another session now. The store must create it instead, so that it knows that the session
            # is new.
            self._stopped.set()
        self.handler.post(self._on_state, state)
