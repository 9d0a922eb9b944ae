"""One life of a broker inside of somebody else's process: a thread with a loop of its own, from start to stop or crash.

Whoever calls is in another thread. `call` and `run` are the only ways in; both wait for the answer.
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
"""How long a caller waits for the broker's thread. Only a bug, or a machine that stands still, lets it pass."""

P = ParamSpec("P")
T = TypeVar("T")


class BrokerNotRunning(RuntimeError):
    """The broker was stopped or crashed, or was never started."""


class Hosted(ABC):
    """What a `with` block starts and closes, also where the start fails."""

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


class Life:
    """Begins with `begin`, ends with `stop` or `crash`; there is no second one."""

    def __init__(self, make: Callable[[], Awaitable[Broker]], clock: MovableClock) -> None:
        self._make = make
        self._clock = clock
        self._thread = threading.Thread(target=self._live, name="moldau-broker", daemon=True)
        self._born: Future[Broker] = Future()
        self._ended: Future[None] = Future()
        for future in (self._born, self._ended):
            future.set_running_or_notify_cancel()  # whoever stops waiting does not change what happens
        self._loop: MovableLoop | None = None
        self._end: asyncio.Future[Callable[[], Awaitable[None]]] | None = None

    # -- for other threads -----------------------------------------------------------------------------------------

    def begin(self) -> Future[Broker]:
        """Starts; the future has the broker when it serves, or why it could not start."""
        self._thread.start()
        return self._born

    def stop(self) -> Future[None]:
        """A clean stop, as with SIGTERM."""
        return self._end_with(lambda broker: broker.stop())

    def crash(self) -> Future[None]:
        """An end without a last word, as with `kill -9`: connections are cut, nothing more is written."""
        return self._end_with(self._crash)

    def give_up(self) -> None:
        """Waits until nothing of it is left, whether its start failed or was only not waited for."""
        if self._born.exception(ANSWER_TIMEOUT_S) is None:
            self.stop()
        self.gone()

    def gone(self) -> None:
        """Waits for the thread, once its end was asked for or its start has failed."""
        self._thread.join(ANSWER_TIMEOUT_S)
        if self._thread.is_alive():
            raise TimeoutError(f"the broker's thread is still there after {ANSWER_TIMEOUT_S:.0f} s")

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs a plain function on the broker's loop."""

        async def run() -> T:
            return function(*args, **kwargs)

        return self.run(run())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the broker's loop."""
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
        """The broker itself; to be touched in its own thread only."""
        return self._born.result(0)

    def advance(self, seconds: float) -> None:
        """Moves the broker's time; at return all that was due has happened."""
        self.run(self._advance(seconds))

    # -- in the broker's thread ------------------------------------------------------------------------------------

    def _live(self) -> None:
        loop = MovableLoop(self._clock)
        try:
            loop.run_until_complete(self._be(loop))
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            self._close(loop)
            (self._ended if self._born.done() else self._born).set_exception(error)
        else:
            self._close(loop)
            self._ended.set_result(None)

    def _close(self, loop: MovableLoop) -> None:
        loop.forget_timers()
        loop.close()

    async def _be(self, loop: MovableLoop) -> None:
        broker = await self._make()
        try:
            await broker.start()
        except BaseException:
            await broker.abandon()
            raise
        self._loop = loop
        self._end = loop.create_future()
        self._born.set_result(broker)
        ending = await self._end
        await ending()
        await loop.rest(lambda: False)  # sockets close a turn later

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
        """Nobody is served meanwhile: what a client sends in the middle would come at an hour of chance."""
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
