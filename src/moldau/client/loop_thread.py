"""The event loop of all blocking clients of a process, in a thread of its own.

The thread starts with the first client and ends with the last. It is a daemon: a program that forgets to close its
clients can still end. A forked child has no threads but the one that forked, so it starts a loop anew; clients that
were made before the fork stay the parent's.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, ClassVar, TypeVar

from moldau.client.own_errors import ClosedError, IllegalStateError

T = TypeVar("T")

STOP_TIMEOUT_S = 10.0
"""How long `release` waits for the thread: it has nothing left to do but to end."""


def new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's loop where there is one, else asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


class LoopThread:
    """A running event loop that other threads can have work done on."""

    _guard: ClassVar[threading.Lock] = threading.Lock()
    _current: ClassVar[LoopThread | None] = None

    def __init__(self) -> None:
        self.loop = new_loop()
        self._users = 0
        self._thread = threading.Thread(target=self._serve, name="moldau-clients", daemon=True)
        self._thread.start()

    @classmethod
    def acquire(cls) -> LoopThread:
        """The loop of this process, for one more client; to be given back with `release`."""
        with cls._guard:
            # In a forked child the thread object is there, and the thread is not.
            if cls._current is None or not cls._current._thread.is_alive():
                cls._current = cls()
            cls._current._users += 1
            return cls._current

    def release(self) -> None:
        """One client less. With the last one the thread ends; this waits for that, unless it is the thread itself."""
        with self._guard:
            self._users -= 1
            if self._users:
                return
            if LoopThread._current is self:
                LoopThread._current = None
        if not self._thread.is_alive():
            return
        self.loop.call_soon_threadsafe(self.loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(STOP_TIMEOUT_S)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result; this thread waits for it. A KeyboardInterrupt cancels it, and is raised again."""
        future = self.submit(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # without effect where the coroutine itself raised
            raise

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start the coroutine; the future is for this thread to wait on."""
        problem = self._unusable()
        if problem is not None:
            coroutine.close()
            raise problem
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """The result of a plain function, called in the loop."""

        async def calling() -> T:
            return function(*arguments)

        return self.run(calling())

    def _unusable(self) -> Exception | None:
        if threading.current_thread() is self._thread:
            return IllegalStateError(
                "a blocking call from inside a callback of a client would wait for itself for ever; make it in a "
                "thread of the application"
            )
        if not self._thread.is_alive():
            return ClosedError("the client is closed, or it was made in another process before a fork")
        return None

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self._clear_away()
            asyncio.set_event_loop(None)
            self.loop.close()

    def _clear_away(self) -> None:
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
