"""Lifetime of a broker in a test process: one thread with its own loop, from start to stop or crash.

Callers are in other threads. `call` and `run` are the only ways to access the broker; both wait for the result.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from moldau.broker.broker import Broker
from moldau.testing.clock import MovableClock, MovableLoop

ANSWER_TIMEOUT_S = 120.0
"""How long a caller waits for the broker's thread. Only a bug or a stalled machine exceeds it."""

P = ParamSpec("P")
T = TypeVar("T")


class BrokerNotRunning(RuntimeError):
    """The broker was stopped or crashed, or was never started."""


class Hosted(ABC):
    """A context manager that starts on entry and closes on exit, also if the start fails."""

    @abstractmethod
    def start(self) -> Self: ...

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BrokerThread:
    """Begins with `begin` and ends with `stop` or `crash`. It cannot be started again."""

    def __init__(self, make: Callable[[], Awaitable[Broker]], clock: MovableClock) -> None:
        self._make = make
        self._clock = clock
        self._thread = threading.Thread(target=self._live, name="moldau-broker", daemon=True)
        self._started: Future[Broker] = Future()
        self._ended: Future[None] = Future()
        for future in (self._started, self._ended):
            future.set_running_or_notify_cancel()  # a caller that stops waiting must not cancel it
        self._loop: MovableLoop | None = None
        self._end: asyncio.Future[Callable[[], Awaitable[None]]] | None = None

    # -- called from other threads ---------------------------------------------------------------------------------

    def begin(self) -> Future[Broker]:
        """Start the thread. The future gets the broker when it serves, or the error of the start."""
        self._thread.start()
        return self._started

    def stop(self) -> Future[None]:
        """Stop cleanly, as with SIGTERM."""
        return self._end_with(lambda broker: broker.stop())

    def crash(self) -> Future[None]:
        """Stop as `kill -9` would: connections are cut, nothing more is written."""
        return self._end_with(self._crash)

    def give_up(self) -> None:
        """Stop the broker if its start succeeded, and wait for the end of the thread."""
        if self._started.exception(ANSWER_TIMEOUT_S) is None:
            self.stop()
        self.gone()

    def gone(self) -> None:
        """Wait for the thread after `stop`, `crash` or a failed start."""
        self._thread.join(ANSWER_TIMEOUT_S)
        if self._thread.is_alive():
            raise TimeoutError(f"the broker's thread did not end within {ANSWER_TIMEOUT_S:.0f} s")

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a plain function on the broker's loop."""

        async def run() -> T:
            return function(*args, **kwargs)

        return self.run(run())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the broker's loop."""
        if self._loop is None or self._loop.is_closed():
            work.close()
            raise BrokerNotRunning("the broker is not running: `start` it first")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(ANSWER_TIMEOUT_S)
        except BaseException:
            future.cancel()
            raise

    @property
    def broker(self) -> Broker:
        """The broker itself. Use it only in its own thread."""
        return self._started.result(0)

    def advance(self, seconds: float) -> None:
        """Move the broker's time, and wait until everything that was due has happened."""
        self.run(self._advance(seconds))

    # -- in the broker's thread ------------------------------------------------------------------------------------

    def _live(self) -> None:
        loop = MovableLoop(self._clock)
        try:
            loop.run_until_complete(self._run_broker(loop))
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            self._close(loop)
            (self._ended if self._started.done() else self._started).set_exception(error)
        else:
            self._close(loop)
            self._ended.set_result(None)

    def _close(self, loop: MovableLoop) -> None:
        loop.forget_timers()
        loop.close()

    async def _run_broker(self, loop: MovableLoop) -> None:
        broker = await self._make()
        try:
            await broker.start()
        except BaseException:
            await broker.abandon()
            raise
        self._loop = loop
        self._end = loop.create_future()
        self._started.set_result(broker)
        ending = await self._end
        await ending()
        await loop.rest(lambda: False)  # sockets close one turn later

    def _end_with(self, how: Callable[[Broker], Awaitable[None]]) -> Future[None]:
        broker = self.broker
        assert self._loop is not None
        assert self._end is not None
        self._loop.call_soon_threadsafe(self._end.set_result, lambda: how(broker))
        return self._ended

    async def _crash(self, broker: Broker) -> None:
        assert self._loop is not None
        self._loop.forget_timers()
        await broker.abandon()

    async def _advance(self, seconds: float) -> None:
        """Move time while all connections are paused: a request during the jump would arrive at an arbitrary time."""
        loop = self._loop
        assert loop is not None
        broker = self.broker
        threads = broker.threads
        sessions = list(broker.connections)
        for session in sessions:
            session.hold()
        try:
            await loop.advance(seconds, lambda: bool(threads.running or threads.waiting))
        finally:
            for session in sessions:
                session.release()
