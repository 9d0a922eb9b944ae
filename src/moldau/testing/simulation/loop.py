"""An event loop in simulated time: no sockets, no threads, no waiting.

Time stands still while callbacks run and jumps to the next timer when there are none, so that an hour takes as long as
what happens in it. Everything that has an order has it by design: callbacks run in the order in which they were called
for, timers by their time and then by their number (a heap alone does not order equal times), and each turn takes a
microsecond, because `deadline - now` may round to a wait that never ends.

Every callback belongs to somebody: to the `Life` whose code called for it, known by a context variable that tasks
and callbacks inherit. Those of a life that has ended are dropped, those of one that is paused wait: a process can be
killed or stopped at any point without its co-operation, as the real ones can.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol, TypeVarTuple

if TYPE_CHECKING:
    from moldau.testing.simulation.network import Network

Ts = TypeVarTuple("Ts")

TURN_S = 1e-6
"""What a turn of the loop takes at least."""

BEGINNING_S = 1_000.0
"""The monotonic clock when a simulation begins: not zero, which would hide a forgotten addition."""

PURGE_FROM = 256
"""Cancelled timers are thrown out when there are so many of them, and half of all are."""


class Life(Protocol):
    """Who a callback belongs to."""

    held: bool
    """It is not to run now: the process is stopped, or dead."""

    def park(self, handle: asyncio.Handle) -> None:
        """Takes a callback that may not run: keeps it for later, or forgets it."""

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """A task of this life has begun."""


LIFE: ContextVar[Life | None] = ContextVar("LIFE", default=None)
"""Whose code runs. None is the simulation itself."""


class Stuck(RuntimeError):
    """Nothing is left that could happen, and what is waited for has not."""


class _Handle(asyncio.Handle):
    """As asyncio's, made without asking the loop whether it is being debugged: there are many."""

    __slots__ = ()

    def __init__(self, callback: Any, args: Any, loop: SimulatedLoop, context: Context | None) -> None:
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = copy_context() if context is None else context
        self._cancelled = False
        self._repr = self._source_traceback = None


class _TimerHandle(asyncio.TimerHandle):
    """The same for timers."""

    __slots__ = ()

    def __init__(self, when: float, callback: Any, args: Any, loop: SimulatedLoop, context: Context | None) -> None:
        self._when = when
        self._scheduled = False
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = copy_context() if context is None else context
        self._cancelled = False
        self._repr = self._source_traceback = None


class SimulatedLoop(asyncio.BaseEventLoop):
    """See the module. The network is attached after the loop is made: each needs the other."""

    def __init__(self) -> None:
        super().__init__()
        self._now = BEGINNING_S
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = count()
        self._cancelled_timers = 0
        self.turns = 0
        self.network: Network | None = None

    # -- time ------------------------------------------------------------------------------------------------------

    def time(self) -> float:
        return self._now

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = _TimerHandle(when, callback, args, self, context)
        heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self._cancelled_timers += 1
        if self._cancelled_timers >= PURGE_FROM and self._cancelled_timers * 2 >= len(self._timers):
            self._timers[:] = [entry for entry in self._timers if not entry[2].cancelled()]
            heapify(self._timers)
            self._cancelled_timers = 0

    # -- turns -----------------------------------------------------------------------------------------------------

    def _run_once(self) -> None:
        """Turns until the loop is to stop: `run_forever` looks between two calls of this."""
        while True:
            self._turn()
            if self._stopping:  # type: ignore[attr-defined]
                return

    def _turn(self) -> None:
        """The clock moves, timers that are due join the queue, and what is in the queue now runs."""
        self.turns += 1
        ready: Any = self._ready  # type: ignore[attr-defined]
        timers = self._timers
        now = self._now + TURN_S
        if not ready and not self._stopping:  # type: ignore[attr-defined]
            while timers and timers[0][2]._cancelled:
                heappop(timers)
            if not timers:
                raise Stuck("nobody has anything left to do")
            if timers[0][0] > now:
                now = timers[0][0]
        self._now = now
        while timers and timers[0][0] <= now:
            timer = heappop(timers)[2]
            if not timer._cancelled:
                ready.append(timer)
        popleft = ready.popleft
        for _ in range(len(ready)):
            handle = popleft()
            if handle._cancelled:
                continue
            context = handle._context
            life = context.get(LIFE)
            if life is not None and life.held:
                life.park(handle)
                continue
            try:
                context.run(handle._callback, *handle._args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001 - as asyncio's handles do: others go on
                name = getattr(handle._callback, "__qualname__", "a callback")
                self.call_exception_handler({"message": f"{name} failed", "exception": error, "handle": handle})

    def again(self, handle: asyncio.Handle) -> None:
        """A callback that was parked may run after all."""
        self._ready.append(handle)  # type: ignore[attr-defined]

    def create_task(
        self,
        coro: Generator[Any, None, Any] | Coroutine[Any, Any, Any],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[Any]:
        """As asyncio's, and tells the life to which the task belongs."""
        task: asyncio.Task[Any] = asyncio.Task(
            coro, loop=self, name=None if name is None else str(name), context=context
        )
        life = LIFE.get() if context is None else context.get(LIFE)
        if life is not None:
            life.adopt(task)
        return task

    # -- the network -----------------------------------------------------------------------------------------------

    def make_socket(self, family: int, kind: int, protocol: int) -> object:
        """A thing to be prepared as sockets are: see `moldau.net.sockets`."""
        return self._network().new_socket()

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> list[Any]:
        """Names are those of the simulation's machines; none is every address of the asking one."""
        address = self._network().address_of(host)
        if address is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, int(port or 0)))]

    async def sock_connect(self, sock: Any, address: Any) -> None:
        """Returns when the connection is made; raises OSError as the system call does, or waits for ever."""
        await self._network().connect(sock, address)

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, *, sock: Any = None, **_: Any
    ) -> Any:
        """To an address, or with a socket that `sock_connect` has connected."""
        if sock is None:
            ((*_, address),) = await self.getaddrinfo(host, port)
            sock = self._network().new_socket()
            await self.sock_connect(sock, address)
        protocol = protocol_factory()
        return await self._network().established(sock, protocol), protocol

    async def create_server(self, protocol_factory: Any, *_: Any, sock: Any = None, **options: Any) -> Any:
        """For a socket that was bound."""
        if sock is None:
            raise ValueError("a simulated server needs a simulated socket")
        server = self._network().listen(sock, protocol_factory)
        if options.get("start_serving", True):
            await server.start_serving()
        return server

    def _network(self) -> Network:
        if self.network is None:
            raise RuntimeError("this simulation has no network")
        return self.network

    # -- what there is not -----------------------------------------------------------------------------------------

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        raise RuntimeError("there are no threads in a simulation: work that may block goes to `Host.threads`")

    def _write_to_self(self) -> None:
        """There is no other thread that could have called."""

    def _process_events(self, event_list: Any) -> None:
        """There is no selector."""
