"""Work that may block, in a bounded pool of threads behind the event loop, shared fairly by lanes.

A lane is a name for work that may be slow together: the reads of one topic, the fsyncs of one directory. At most
`per_lane` jobs of a lane run at a time and lanes take turns, so one slow disk or topic cannot take every thread.

It is not a general executor: jobs are started from one loop only, and what they do to shared state is their business.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import ParamSpec, TypeVar

DEFAULT_THREADS = 8
DEFAULT_PER_LANE = 2
MAX_WAITING_JOBS = 65_536

Lock = threading.Lock
"""For the few things that the loop and its threads share."""

P = ParamSpec("P")
T = TypeVar("T")


class ThreadsBusy(RuntimeError):
    """More jobs wait than the bound allows."""


class ThreadsClosed(RuntimeError):
    """The pool was closed, or is being closed."""


class _Job:
    __slots__ = ("call", "done", "error", "lane")

    def __init__(self, lane: str, call: Callable[[], object], done: asyncio.Future[object]) -> None:
        self.lane = lane
        self.call = call
        self.done = done
        self.error: BaseException | None = None


class Threads:
    """A bounded pool with lanes. All methods are called on the loop's thread."""

    def __init__(
        self,
        threads: int = DEFAULT_THREADS,
        per_lane: int = DEFAULT_PER_LANE,
        max_waiting: int = MAX_WAITING_JOBS,
    ) -> None:
        if threads < 1 or per_lane < 1 or max_waiting < 1:
            raise ValueError("threads, per_lane and max_waiting must be at least 1")
        self._limit = threads
        self._per_lane = per_lane
        self._max_waiting = max_waiting
        self._handed_over: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._running = 0
        self._waiting = 0
        self._running_in: dict[str, int] = {}
        # Lanes with waiting jobs, the next to be served first; a lane that was served goes to the back.
        self._lanes: dict[str, deque[_Job]] = {}
        self._closed = False
        self._drained: asyncio.Future[None] | None = None

    @property
    def running(self) -> int:
        """Jobs in threads now."""
        return self._running

    @property
    def waiting(self) -> int:
        """Jobs that wait for a thread or for their lane."""
        return self._waiting

    async def run(self, lane: str, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs `fn(*args)` in a thread and returns what it returns, or raises what it raises.

        Cancelled while it waits, the job never runs; cancelled while it runs, it runs to its end (a thread cannot be
        interrupted) and its result is dropped.
        """
        if self._closed:
            raise ThreadsClosed("the thread pool is closed")
        if self._waiting >= self._max_waiting:
            raise ThreadsBusy(f"{self._waiting} jobs wait for a thread already (bound {self._max_waiting})")
        result: list[T] = []

        def call() -> None:
            result.append(fn(*args, **kwargs))

        job = _Job(lane, call, asyncio.get_running_loop().create_future())
        self._lanes.setdefault(lane, deque()).append(job)
        self._waiting += 1
        self._hand_over()
        await job.done
        if job.error is not None:
            raise job.error
        return result[0]

    async def close(self) -> None:
        """Refuses new jobs, lets all accepted ones finish, then ends the threads: at return there are none."""
        self._closed = True
        if self._running or self._waiting:
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained
        for _ in self._threads:
            self._handed_over.put(None)
        for thread in self._threads:
            thread.join()  # no job runs any more: it has only to return
        self._threads.clear()

    def _hand_over(self) -> None:
        """Starts waiting jobs, a lane at a time in turn, as long as threads and lanes allow."""
        while self._running < self._limit:
            job = self._next_job()
            if job is None:
                return
            self._running += 1
            self._running_in[job.lane] = self._running_in.get(job.lane, 0) + 1
            self._begin(job)

    def _begin(self, job: _Job) -> None:
        if len(self._threads) < self._running:
            # Daemons: a disk that hangs for ever must not keep the process from ending.
            thread = threading.Thread(target=self._work, name=f"moldau-{len(self._threads) + 1}", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._handed_over.put(job)

    def _next_job(self) -> _Job | None:
        """Takes the first job of the first lane with room, and sends that lane to the back of the turn."""
        while True:
            lane = next((name for name in self._lanes if self._running_in.get(name, 0) < self._per_lane), None)
            if lane is None:
                return None
            jobs = self._lanes.pop(lane)
            job = jobs.popleft()
            self._waiting -= 1
            if jobs:
                self._lanes[lane] = jobs
            if not job.done.cancelled():
                return job

    def _finished(self, job: _Job) -> None:
        self._running -= 1
        left = self._running_in[job.lane] - 1
        if left:
            self._running_in[job.lane] = left
        else:
            del self._running_in[job.lane]
        if not job.done.done():
            job.done.set_result(None)
        self._hand_over()
        if self._drained is not None and not self._running and not self._waiting and not self._drained.done():
            self._drained.set_result(None)

    def _work(self) -> None:
        """A thread's life: take a job, run it, tell the loop."""
        while (job := self._handed_over.get()) is not None:
            try:
                job.call()
            except BaseException as error:  # noqa: BLE001 - whatever it is belongs to the one who awaits
                job.error = error
            try:
                job.done.get_loop().call_soon_threadsafe(self._finished, job)
            except RuntimeError:
                return  # the loop was closed under us: nobody is left to tell
            del job
