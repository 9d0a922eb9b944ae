"""Event loop thread: one loop for all blocking clients of a process, in its own thread.

The thread starts with the first client and ends with the last. It is a daemon thread, so that a program can exit
without closing its clients. A forked child does not have the thread and starts a new one; clients that were created
before the fork cannot be used in the child.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import Any, ClassVar, TypeVar

from moldau.client.client_errors import ClosedError, IllegalStateError

T = TypeVar("T")

STOP_TIMEOUT_S = 10.0
"""How long `release` waits for the end of the thread."""


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a uvloop event loop if uvloop is installed, otherwise one of asyncio."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


class LoopThread:
    """A running event loop that executes coroutines for other threads."""

    _guard: ClassVar[threading.Lock] = threading.Lock()
    _current: ClassVar[LoopThread | None] = None

    def __init__(self) -> None:
        self.loop = new_loop()
        self._users = 0
        self._thread = threading.Thread(target=self._serve, name="moldau-clients", daemon=True)
        self._thread.start()

    @classmethod
    def acquire(cls) -> LoopThread:
        """Return the loop thread of this process for one more client. The client must call `release`."""
        with cls._guard:
            # In a forked child the thread object exists, but the thread does not.
            if cls._current is None or not cls._current._thread.is_alive():
                cls._current = cls()
            cls._current._users += 1
            return cls._current

    def release(self) -> None:
        """Remove one client. After the last one, stop the thread and wait for its end, unless called in that thread."""
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
        """Run the coroutine in the loop and return its result. A KeyboardInterrupt in the caller cancels it."""
        future: Future[T] = Future()
        try:
            # The future exists before the coroutine starts: KeyboardInterrupt may come while this thread is in `_start`
            # and has handed the coroutine over. Without the future nobody could cancel it any more.
            self._start(coroutine, future)
            return future.result()
        except BaseException:
            future.cancel()  # no effect if the coroutine itself raised
            raise

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start the coroutine in the loop and return a future for the calling thread."""
        future: Future[T] = Future()
        self._start(coroutine, future)
        return future

    def _start(self, coroutine: Coroutine[Any, Any, T], future: Future[T]) -> None:
        """Start the coroutine in the loop. The future gets its result; cancelling the future cancels the coroutine."""
        problem = self._unusable()
        if problem is not None:
            coroutine.close()
            raise problem

        def begin() -> None:
            if future.cancelled():
                coroutine.close()
                return
            task = self.loop.create_task(coroutine)
            task.add_done_callback(partial(_pass_on, future))
            future.add_done_callback(partial(self._cancel_with, task))

        self.loop.call_soon_threadsafe(begin)

    def _cancel_with(self, task: asyncio.Task[Any], future: Future[Any]) -> None:
        """Cancel the task of a future that was cancelled in another thread."""
        if future.cancelled() and not task.done():
            with contextlib.suppress(RuntimeError):  # the loop is closed: its tasks are cancelled
                self.loop.call_soon_threadsafe(task.cancel)

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a plain function in the loop and return its result."""

        async def calling() -> T:
            return function(*arguments)

        return self.run(calling())

    def _unusable(self) -> Exception | None:
        if threading.current_thread() is self._thread:
            return IllegalStateError(
                "a callback of a client made a blocking call, which would wait for itself forever; make the call in a "
                "thread of the application"
            )
        if not self._thread.is_alive():
            return ClosedError("the client is closed, or was created before a fork, in the parent; create a new one")
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


def _pass_on(future: Future[T], task: asyncio.Task[T]) -> None:
    """Give the result of a finished task to the future that another thread waits for."""
    if task.cancelled():
        future.cancel()
    error = None if task.cancelled() else task.exception()  # read it in any case, or asyncio complains
    if not future.set_running_or_notify_cancel():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(task.result())
