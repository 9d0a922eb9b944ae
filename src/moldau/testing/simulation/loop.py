"""Event loop in virtual time: no sockets, no threads, no waiting.

Time does not pass while callbacks run, and jumps to the next timer when there are none. So the real duration depends
only on the amount of work. Everything is deterministic: callbacks run in the order in which they were scheduled, and
timers by their time and then by their number (a heap alone does not order equal times). Each turn takes one
microsecond, because otherwise `deadline - now` may round to a wait that never ends.

Every callback belongs to the simulated process (`CallbackOwner`) whose code scheduled it. A context variable identifies
it; tasks and callbacks inherit that variable. Callbacks of a process that has ended are dropped, and those of a paused
process wait. So a process can be killed or paused at any point without its cooperation, as a real one can.
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
    from moldau.testing.simulation.network import SimulatedNetwork

Ts = TypeVarTuple("Ts")

TURN_S = 1e-6
"""Minimum duration of a turn of the loop."""

BEGINNING_S = 1_000.0
"""The monotonic clock at the start of a simulation: not zero, because that would hide a forgotten addition."""

PURGE_FROM = 256
"""Cancelled timers are removed when there are at least this many, and half of all timers are cancelled."""


class CallbackOwner(Protocol):
    """The owner of a callback."""

    held: bool
    """Whether its callbacks must not run now: the process is paused or dead."""

    def park(self, handle: asyncio.Handle) -> None:
        """Take a callback that must not run now: keep it for later, or drop it."""

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Register a new task of this process."""


CURRENT_PROCESS: ContextVar[CallbackOwner | None] = ContextVar("CURRENT_PROCESS", default=None)
"""The process whose code runs. None is the simulation itself."""


class Stuck(RuntimeError):
    """No callback or timer is left, but the awaited result is not there."""


class _Handle(asyncio.Handle):
    """Like asyncio's handle, but without asking the loop for its debug mode: there are very many."""

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
    """The loop of a simulation. The network is attached after the loop is created, because each needs the other."""

    def __init__(self) -> None:
        super().__init__()
        self._now = BEGINNING_S
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = count()
        self._cancelled_timers = 0
        self.turns = 0
        self.network: SimulatedNetwork | None = None

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
        """Run turns until the loop must stop: `run_forever` checks that only between calls."""
        while True:
            self._turn()
            if self._stopping:  # type: ignore[attr-defined]
                return

    def _turn(self) -> None:
        """Run one turn: move the clock, queue the timers that are due, and run everything that is queued now."""
        self.turns += 1
        ready: Any = self._ready  # type: ignore[attr-defined]
        timers = self._timers
        now = self._now + TURN_S
        if not ready and not self._stopping:  # type: ignore[attr-defined]
            while timers and timers[0][2]._cancelled:
                heappop(timers)
            if not timers:
                raise Stuck("no process has anything left to do")
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
            process = context.get(CURRENT_PROCESS)
            if process is not None and process.held:
                process.park(handle)
                continue
            try:
                context.run(handle._callback, *handle._args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001 - like asyncio's handles: other callbacks must run
                name = getattr(handle._callback, "__qualname__", "a callback")
                self.call_exception_handler({"message": f"{name} failed", "exception": error, "handle": handle})

    def again(self, handle: asyncio.Handle) -> None:
        """Queue a callback that was parked."""
        self._ready.append(handle)  # type: ignore[attr-defined]

    def create_task(
        self,
        coro: Generator[Any, None, Any] | Coroutine[Any, Any, Any],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[Any]:
        """Like asyncio's method, but also registers the task with its process."""
        task: asyncio.Task[Any] = asyncio.Task(
            coro, loop=self, name=None if name is None else str(name), context=context
        )
        process = CURRENT_PROCESS.get() if context is None else context.get(CURRENT_PROCESS)
        if process is not None:
            process.adopt(task)
        return task

    # -- network ---------------------------------------------------------------------------------------------------

    def make_socket(self, family: int, kind: int, protocol: int) -> object:
        """A simulated socket for `moldau.net.sockets`."""
        return self._network().new_socket()

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> list[Any]:
        """Resolve names of the simulation's machines; no name means the calling machine."""
        address = self._network().address_of(host)
        if address is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, int(port or 0)))]

    async def sock_connect(self, sock: Any, address: Any) -> None:
        """Wait until the connection is established; raises OSError like the system call, or waits forever."""
        await self._network().connect(sock, address)

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, *, sock: Any = None, **_: Any
    ) -> Any:
        """Connect to an address, or use a socket that `sock_connect` has connected."""
        if sock is None:
            ((*_, address),) = await self.getaddrinfo(host, port)
            sock = self._network().new_socket()
            await self.sock_connect(sock, address)
        protocol = protocol_factory()
        return await self._network().established(sock, protocol), protocol

    async def create_server(self, protocol_factory: Any, *_: Any, sock: Any = None, **options: Any) -> Any:
        """Create a server for a bound socket."""
        if sock is None:
            raise ValueError("a simulated server needs a simulated socket")
        server = self._network().listen(sock, protocol_factory)
        if options.get("start_serving", True):
            await server.start_serving()
        return server

    def _network(self) -> SimulatedNetwork:
        if self.network is None:
            raise RuntimeError("this simulation has no network")
        return self.network

    # -- unsupported operations ------------------------------------------------------------------------------------

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        raise RuntimeError("there are no threads in a simulation: work that may block goes to `Host.threads`")

    def _write_to_self(self) -> None:
        """Does nothing: there is no other thread to wake the loop for."""

    def _process_events(self, event_list: Any) -> None:
        """Does nothing: there is no selector."""
