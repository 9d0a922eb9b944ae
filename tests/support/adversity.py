"""A TCP proxy between client and broker that misbehaves on command: what networks do, and brokers when they die.

    with AdversityProxy(bootstrap) as proxy:              # any Kafka server; nothing of it has to be set
        client = Producer(bootstrap_servers=proxy.bootstrap)
        proxy.cut()                                       # every connection, now
        with proxy.black_hole(): ...                      # bytes go in and none come out; on heal they arrive after all
        with proxy.refusing(): ...                        # new connections are refused, as by a broker that is down
        with proxy.delaying(0.05): ...                    # each frame waits
        with proxy.dribbling(7): ...                      # answers arrive in pieces of seven bytes
        proxy.spoil(Spoil.LOSE_ANSWER, ApiKey.PRODUCE)    # the next one is carried out, its answer is lost in a cut
        proxy.wait_until_spoiled()
        proxy.misbehave(random.Random(seed))              # one of all that, chosen by chance, and healed after it

The proxy knows frames, so it can cut one in half, pick on one API, and put its own address in the place of the broker's
in Metadata and FindCoordinator: clients come back to it whatever the broker advertises. Its loop has a thread of its
own; commands come from the test's thread and hold when they return. `seen` counts the requests of each API.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from enum import Enum
from types import TracebackType
from typing import Any, Self, TypeVar

from moldau.wire.api import APIS, ApiKey
from moldau.wire.header import decode_response_header, encode_response_header

T = TypeVar("T")

COMMAND_TIMEOUT_S = 30.0
SPOILED_TIMEOUT_S = 60.0
CLOSE_TIMEOUT_S = 1.0


class Spoil(Enum):
    """Fault of one request or its answer. In every case the connection is cut."""

    HALF_REQUEST = "the broker gets half of the request"
    LOSE_REQUEST = "the broker gets nothing of the request"
    HALF_ANSWER = "the request is carried out, and half of the answer comes back"
    LOSE_ANSWER = "the request is carried out, and nothing of the answer comes back"


class _CutError(Exception):
    """Raised to end a connection now."""


class _Pair:
    """A client's connection, and the proxy's connection to the broker for it."""

    def __init__(self, client: asyncio.StreamWriter, broker: asyncio.StreamWriter) -> None:
        self.client = client
        self.broker = broker
        self.asked: dict[int, tuple[ApiKey, int, Spoil | None]] = {}
        """Requests without an answer so far, by correlation id: the API, its version, and the planned fault."""

    def cut(self) -> None:
        for writer in (self.client, self.broker):
            writer.transport.abort()

    async def close(self) -> None:
        """Close in good order: data that was passed on still arrives, unless the receiver does not read it."""
        for writer in (self.client, self.broker):
            writer.close()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await asyncio.gather(self.client.wait_closed(), self.broker.wait_closed(), return_exceptions=True)
        except TimeoutError:
            pass
        finally:
            self.cut()


class AdversityProxy:
    """One address that stands for all brokers of a cluster."""

    def __init__(self, upstream: str) -> None:
        host, _, port = upstream.rpartition(":")
        self._upstream = (host, int(port))
        self.port = 0
        self.seen: Counter[ApiKey] = Counter()
        """Requests that arrived at the proxy."""
        self.connections = 0
        """Connections accepted since the start."""
        self.faults: Counter[str] = Counter()
        """The faults that `misbehave` has chosen, by name."""
        self._pairs: set[_Pair] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: socket.socket | None = None
        self._delay_s = 0.0
        self._piece = 0
        self._to_spoil: list[tuple[Spoil, ApiKey | None]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="adversity", daemon=True)
        self._changed = threading.Condition()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._begin())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(COMMAND_TIMEOUT_S)
        self._loop.close()

    # -- commands ----------------------------------------------------------------------------------------------------

    def cut(self) -> None:
        """Abort all connections now."""
        self._call(self._cut_all)

    @contextlib.contextmanager
    def black_hole(self) -> Iterator[None]:
        """Keep all connections and accept new ones, but hold all bytes back; pass them on at the end of the block."""
        self._call(self._open.clear)
        try:
            yield
        finally:
            self._call(self._open.set)

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """Refuse new connections and end the existing ones, as if nobody listened."""
        self._do(self._stop_listening())
        try:
            yield
        finally:
            self._do(self._listen())

    @contextlib.contextmanager
    def delaying(self, seconds: float) -> Iterator[None]:
        """Delay each frame by this time, in both directions."""
        self._call(setattr, self, "_delay_s", seconds)
        try:
            yield
        finally:
            self._call(setattr, self, "_delay_s", 0.0)

    @contextlib.contextmanager
    def dribbling(self, piece: int) -> Iterator[None]:
        """Send answers in pieces of this many bytes, each in its own TCP segment."""
        self._call(setattr, self, "_piece", piece)
        try:
            yield
        finally:
            self._call(setattr, self, "_piece", 0)

    def spoil(self, how: Spoil, api: ApiKey | None = None) -> None:
        """Spoil the next request, or the next request of this API. Several calls spoil one request each."""
        self._call(self._to_spoil.append, (how, api))

    def wait_until_spoiled(self, timeout_s: float = SPOILED_TIMEOUT_S) -> None:
        """Return when each call of `spoil` has found its request."""
        self.wait_until(lambda: not self._to_spoil, timeout_s)

    def wait_until(self, condition: Callable[[], bool], timeout_s: float = SPOILED_TIMEOUT_S) -> None:
        """Return when the condition holds. It is checked after each request and each new connection."""
        with self._changed:
            assert self._changed.wait_for(condition, timeout_s), "the expected traffic did not come through the proxy"

    def misbehave(self, chance: random.Random, longest_s: float = 0.3) -> str:
        """Cause one random fault of at most this duration, repair it, and return its name."""
        duration_s = chance.uniform(0.0, longest_s)
        fault = chance.choice(("cut", "black hole", "refusing", "delaying", "dribbling", *Spoil))
        name = fault.name.lower().replace("_", " ") if isinstance(fault, Spoil) else fault
        self.faults[name] += 1
        if isinstance(fault, Spoil):
            self.spoil(fault)
        elif fault == "cut":
            self.cut()
        else:
            lasting: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {
                "black hole": self.black_hole,
                "refusing": self.refusing,
                "delaying": lambda: self.delaying(duration_s / 4),
                "dribbling": lambda: self.dribbling(chance.randint(1, 50)),
            }
            with lasting[fault]():
                threading.Event().wait(duration_s)  # the duration of the fault; this waits for no condition
        return name

    # -- event loop side ---------------------------------------------------------------------------------------------

    def _do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(COMMAND_TIMEOUT_S)

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        async def calling() -> None:
            function(*arguments)

        self._do(calling())

    async def _begin(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        await self._listen()

    async def _listen(self) -> None:
        # asyncio's own server is not used: it loses connections that arrive while it is being closed.
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        self._loop.add_reader(self._listener, self._accept, self._listener)

    async def _stop_listening(self) -> None:
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        self._cut_all()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                taken, _ = listener.accept()
                task = self._loop.create_task(self._serve(taken))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                task.add_done_callback(lambda _, taken=taken: taken.close())  # type: ignore[misc]

    async def _end(self) -> None:
        await self._stop_listening()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # one loop turn, in which aborted transports close their sockets

    def _cut_all(self) -> None:
        for pair in list(self._pairs):
            pair.cut()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    async def _serve(self, taken: socket.socket) -> None:
        self.connections += 1
        self._notify()
        client_reader, client = await asyncio.open_connection(sock=taken)
        try:
            broker_reader, broker = await asyncio.open_connection(*self._upstream)
        except BaseException as error:
            client.transport.abort()
            if isinstance(error, OSError):
                return
            raise
        pair = _Pair(client, broker)
        self._pairs.add(pair)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(client_reader, broker, self._request, pair))
                group.create_task(self._pump(broker_reader, client, self._answer, pair))
        except* _CutError:
            pair.cut()
        except* (OSError, EOFError):
            pass
        finally:
            self._pairs.discard(pair)
            await pair.close()

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        pass_on: Callable[[_Pair, bytes], tuple[bytes, bool]],
        pair: _Pair,
    ) -> None:
        """Copy frames from one side to the other. `pass_on` returns the bytes to send for a frame, and whether to
        stop."""
        while True:
            length = await reader.readexactly(4)
            frame = await reader.readexactly(int.from_bytes(length, "big"))
            if self._delay_s:
                await asyncio.sleep(self._delay_s)  # the ordered delay of each frame
            await self._open.wait()
            arrives, cut = pass_on(pair, frame)
            await self._write(writer, arrives, self._piece if writer is pair.client else 0)
            if cut:
                raise _CutError

    async def _write(self, writer: asyncio.StreamWriter, data: bytes, piece: int) -> None:
        if not piece:
            writer.write(data)
        for start in range(0, len(data) if piece else 0, piece or 1):
            writer.write(data[start : start + piece])
            await asyncio.sleep(0)  # one loop turn, so that the piece leaves as its own TCP segment
        await writer.drain()

    def _request(self, pair: _Pair, frame: bytes) -> tuple[bytes, bool]:
        key, version, correlation_id = struct.unpack_from(">hhi", frame)
        api = ApiKey(key)
        self.seen[api] += 1
        how = self._spoiled(api)
        pair.asked[correlation_id] = (api, version, how)
        self._notify()
        whole = struct.pack(">i", len(frame)) + frame
        if how is Spoil.LOSE_REQUEST:
            return b"", True
        if how is Spoil.HALF_REQUEST:
            return whole[: len(whole) // 2], True
        return whole, False

    def _spoiled(self, api: ApiKey) -> Spoil | None:
        for order in self._to_spoil:
            if order[1] in (None, api):
                self._to_spoil.remove(order)
                return order[0]
        return None

    def _answer(self, pair: _Pair, frame: bytes) -> tuple[bytes, bool]:
        (correlation_id,) = struct.unpack_from(">i", frame)
        api, version, how = pair.asked.pop(correlation_id)
        if api in (ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_CLUSTER):
            frame = self._readdressed(api, version, frame)
        whole = struct.pack(">i", len(frame)) + frame
        if how is Spoil.LOSE_ANSWER:
            return b"", True
        if how is Spoil.HALF_ANSWER:
            return whole[: len(whole) // 2], True
        return whole, False

    def _readdressed(self, api: ApiKey, version: int, frame: bytes) -> bytes:
        """The answer, with the proxy's address in place of each broker address."""
        correlation_id, start = decode_response_header(frame, api, version)
        response: Any = APIS[api].response_type().decode(frame, version, start)
        named = [*getattr(response, "brokers", ()), *getattr(response, "coordinators", ())]
        if api is ApiKey.FIND_COORDINATOR and not named:
            named = [response]
        for one in named:
            if one.host:
                one.host, one.port = "127.0.0.1", self.port
        body: bytes = response.encode(version)
        return encode_response_header(api, version, correlation_id) + body
