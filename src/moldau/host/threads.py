"""Bounded thread pool for blocking work of the event loop, with fair scheduling by lanes.

A lane names work that may become slow together: the reads of one topic, the fsyncs of one directory. At most `per_lane`
jobs of a lane run at a time, and lanes take turns, so that one slow disk or topic cannot occupy all threads.

It is not a general executor: only one event loop starts jobs, and jobs synchronise their access to shared state
themselves.
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
"""For the little state that the event loop and its threads share."""

Event = threading.Event
"""For blocking code that waits, for a time or for another thread."""

P = ParamSpec("P")
T = TypeVar("T")


class ThreadsBusy(RuntimeError):
    """The limit of waiting jobs is reached."""


class ThreadsClosed(RuntimeError):
    """The pool is closed or closing."""


class _Job:
    __slots__ = ("call", "done", "error", "lane")

    def __init__(self, lane: str, call: Callable[[], object], done: asyncio.Future[object]) -> None:
        self.lane = lane
        self.call = call
        self.done = done
        self.error: BaseException | None = None


class Threads:
    """A bounded pool with lanes. All methods are called in the event loop's thread."""

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
        # Lanes with waiting jobs, in the order of service; a lane that was served moves to the end.
        self._lanes: dict[str, deque[_Job]] = {}
        self._closed = False
        self._drained: asyncio.Future[None] | None = None

    @property
    def running(self) -> int:
        """The number of running jobs."""
        return self._running

    @property
    def waiting(self) -> int:
        """The number of jobs that wait for a thread or for their lane."""
        return self._waiting

    async def run(self, lane: str, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `fn(*args)` in a thread; return its result or raise its exception.

        If cancelled while it waits, the job never runs. If cancelled while it runs, it runs to its end (a thread cannot
        be interrupted) and its result is dropped.
        """
        if self._closed:
            raise ThreadsClosed("the thread pool is closed")
        if self._waiting >= self._max_waiting:
            raise ThreadsBusy(f"{self._waiting} jobs are waiting for a thread (limit {self._max_waiting})")
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
        """Refuse new jobs, wait for all accepted ones, then end the threads. When it returns, no thread is left."""
        self._closed = True
        if self._running or self._waiting:
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained
        for _ in self._threads:
            self._handed_over.put(None)
        for thread in self._threads:
            thread.join()  # no job is running, so this does not block for long
        self._threads.clear()

    def _hand_over(self) -> None:
        """Start waiting jobs, lane by lane in turn, while threads and lanes have room."""
        while self._running < self._limit:
            job = self._next_job()
            if job is None:
                return
            self._running += 1
            self._running_in[job.lane] = self._running_in.get(job.lane, 0) + 1
            self._begin(job)

    def _begin(self, job: _Job) -> None:
        if len(self._threads) < self._running:
            # Daemon threads: a disk that hangs forever must not keep the process from ending.
            thread = threading.Thread(target=self._work, name=f"moldau-{len(self._threads) + 1}", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._handed_over.put(job)

    def _next_job(self) -> _Job | None:
        """Take the first job of the first lane with room, and move that lane to the end."""
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
        """Thread main loop: take a job, run it, report it to the event loop."""
        while (job := self._handed_over.get()) is not None:
            try:
                job.call()
            except BaseException as error:  # noqa: BLE001 - raised again in the task that awaits the job
                job.error = error
            try:
                job.done.get_loop().call_soon_threadsafe(self._finished, job)
            except RuntimeError:
                return  # the event loop is closed, so no task waits for the result
            del job
